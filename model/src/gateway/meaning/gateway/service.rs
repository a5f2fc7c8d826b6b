//! `spec.service`.

use std::collections::BTreeMap;

use super::super::networks;
use super::super::syntax::{is_label_value, is_qualified};
use crate::config::meaning::routes;
use crate::document::{Given, Text};
use crate::finding::{Report, quoted};
use crate::gateway::Service;
use crate::gateway::wire::GatewayService;

/// Pool labels at most; the schema has the same limit.
const MAX_LABELS: usize = 16;
/// Label prefixes that the rendered objects use themselves.
const OWN_LABELS: [&str; 2] = ["app.kubernetes.io/", "tsunaro.io/"];

pub(super) fn service(given: GatewayService, report: &mut Report) -> Option<Service> {
    let GatewayService {
        load_balancer_ip,
        load_balancer_class,
        tailnet_lb_cidr,
        pool_labels,
    } = given;
    let address = load_balancer_ip
        .as_ref()
        .and_then(|text| networks::address(text, report));
    let range = tailnet_lb_cidr.and_then(|text| routes::prefix(&text, report));
    let class = load_balancer_class.and_then(|text| class(text, report));
    let pool_labels = pool_labels
        .map(|labels| self::labels(labels, report))
        .unwrap_or_default();
    let (address, range) = (address?, range?);
    if let Some(Given { value, place }) = load_balancer_ip
        && !range.contains(&address)
    {
        report.error(
            &place,
            format!(
                "{} lies outside `tailnetLBCIDR` {range}, which is what tailnet clients can reach",
                quoted(&value)
            ),
            "write an address in that range, or the range that this address belongs to",
        );
    }
    Some(Service {
        load_balancer_ip: address,
        load_balancer_class: class,
        tailnet_lb_cidr: range,
        pool_labels,
    })
}

fn class(Given { value, place }: Text, report: &mut Report) -> Option<String> {
    if is_qualified(&value) {
        return Some(value);
    }
    report.error(
        &place,
        format!("{} is not a load balancer class", quoted(&value)),
        "write the class that your load balancer's documentation names, such as `io.cilium/l2-announcer`, or remove the field",
    );
    None
}

fn labels(
    Given { value, place }: Given<Vec<(Text, Text)>>,
    report: &mut Report,
) -> BTreeMap<String, String> {
    if value.len() > MAX_LABELS {
        report.error(
            &place,
            format!(
                "there are {} labels, and {MAX_LABELS} is the most",
                value.len()
            ),
            "keep those that your pool selects on",
        );
    }
    let mut labels = BTreeMap::new();
    for (key, text) in value {
        if !is_qualified(&key.value) {
            report.error(
                &key.place,
                format!("{} is not the key of a label", quoted(&key.value)),
                "write a key such as `io.cilium/lb-pool`",
            );
        } else if OWN_LABELS.iter().any(|own| key.value.starts_with(own)) {
            report.error(
                &key.place,
                format!("the label {} is the controller's own", quoted(&key.value)),
                "let your pool select on another label",
            );
        } else if !is_label_value(&text.value) {
            report.error(
                &text.place,
                format!("{} is not the value of a label", quoted(&text.value)),
                "write at most 63 of a-z, A-Z, 0-9, `-`, `_` and `.`, beginning and ending with a letter or digit",
            );
        } else {
            labels.insert(key.value, text.value);
        }
    }
    labels
}
