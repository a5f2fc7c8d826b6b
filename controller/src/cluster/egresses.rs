//! The egresses of a tailnet, as far as its gateways take them: what one namespace writes takes no gateway
//! from the others.

use std::collections::BTreeSet;

use kube::ResourceExt;
use tsunaro_model::gateway::{Egress, Tailnet};
use tsunaro_model::routes::MAX_EGRESS_TARGETS;

use super::Context;
use super::conflicts::age;
use crate::crd;

/// So many that are left out are named.
const NAMED: usize = 3;

/// Egresses of one tailnet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Egresses {
    /// Those that are valid and taken.
    pub(super) taken: Vec<Egress>,
    /// What is left out and why, in sentences.
    pub(super) left_out: Vec<String>,
}

/// What orders objects of several namespaces by their age.
pub(super) type Rank = (Option<i64>, String, Option<String>);

pub(super) fn rank(object: &impl ResourceExt) -> Rank {
    let (created, name) = age(object);
    (created, name, object.namespace())
}

pub(super) fn of(context: &Context, name: &str, tailnet: Option<&Tailnet>) -> Egresses {
    let all = valid(context, name);
    chosen(all.into_iter().map(|(_, egress)| egress), tailnet)
}

/// Those that are valid, the oldest first.
pub(super) fn valid(context: &Context, name: &str) -> Vec<(Rank, Egress)> {
    let all = context
        .stores
        .egresses
        .state_filter(|egress| egress.spec.tailnet_ref.name == name);
    let mut all: Vec<_> = all
        .iter()
        .filter_map(|object| Some((rank(object.as_ref()), crd::egress(object).ok()?)))
        .collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

pub(super) fn is_reserved(egress: &Egress, tailnet: Option<&Tailnet>) -> bool {
    let networks = tailnet.map(|tailnet| tailnet.reserved_networks.as_slice());
    let mut networks = networks.unwrap_or_default().iter();
    networks.any(|network| network.contains(&egress.target))
}

/// The oldest stay when there are too many, so that a new one stops no other.
fn chosen(all: impl Iterator<Item = Egress>, tailnet: Option<&Tailnet>) -> Egresses {
    let mut targets = BTreeSet::new();
    let (mut taken, mut reserved, mut many) = (Vec::new(), Vec::new(), Vec::new());
    for egress in all {
        if is_reserved(&egress, tailnet) {
            reserved.push(shown(&egress));
        } else if targets.len() == MAX_EGRESS_TARGETS && !targets.contains(&egress.target) {
            many.push(shown(&egress));
        } else {
            targets.insert(egress.target);
            taken.push(egress);
        }
    }
    let left_out = [
        (
            reserved,
            "the Tailnet's spec.reservedNetworks have the target".to_owned(),
        ),
        (
            many,
            format!(
                "a tailnet has {MAX_EGRESS_TARGETS} targets at most, and older ones stay: cover targets by prefixes of \
                 routes.lan, with advertiseEgressTargets false"
            ),
        ),
    ];
    let left_out = left_out
        .into_iter()
        .filter(|(all, _)| !all.is_empty())
        .map(|(all, why)| format!("left out: {}; {why}", named(&all)))
        .collect();
    Egresses { taken, left_out }
}

fn named(all: &[String]) -> String {
    let first: Vec<&str> = all.iter().take(NAMED).map(String::as_str).collect();
    let first = first.join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn shown(egress: &Egress) -> String {
    let namespace = egress.namespace.as_deref().unwrap_or("default");
    format!(
        "TailnetEgress {namespace}/{} ({})",
        egress.name, egress.target
    )
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn egress(number: u32) -> Egress {
        Egress {
            name: format!("host-{number}"),
            namespace: Some("billing".to_owned()),
            tailnet: "corp".to_owned(),
            target: Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + number),
            dns_aliases: Vec::new(),
        }
    }

    #[test]
    fn one_target_too_many_is_left_out_and_named_and_the_older_ones_stay() {
        let most = u32::try_from(MAX_EGRESS_TARGETS).unwrap();
        let again = egress(0);
        let egresses = chosen((0..most + 5).map(egress).chain([again]), None);
        assert_eq!(egresses.taken.len(), MAX_EGRESS_TARGETS + 1);
        assert_eq!(egresses.left_out.len(), 1);
        let said = egresses.left_out.first().unwrap();
        assert!(said.contains("billing/host-4096 (10.0.16.0)"), "{said}");
        assert!(said.contains("and 2 more"), "{said}");
    }
}
