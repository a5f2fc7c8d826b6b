//! `spec.dns`: the Kubernetes side here, the zone itself by the rules of the agent's config file.

use std::net::{IpAddr, Ipv4Addr};

use super::super::networks;
use super::super::syntax::service_name;
use super::image;
use crate::config::meaning;
use crate::config::wire::{Dns as ZoneWire, ExtraZone, StaticRecord};
use crate::document::{Given, Text};
use crate::finding::{Report, quoted};
use crate::gateway::wire::GatewayDns;
use crate::gateway::{Dns, Image, Service};

/// Static records at most; the schema has the same limit.
const MAX_RECORDS: usize = 256;
/// Extra zones at most; the schema has the same limit.
const MAX_ZONES: usize = 32;
/// Upstreams of one extra zone at most; the schema has the same limit.
const MAX_UPSTREAMS: usize = 8;
/// Port of DNS (RFC 1035 §4.2).
const DNS_PORT: u16 = 53;
/// For messages.
const AGENT_EXAMPLE: &str = "ghcr.io/tsunaro/tsunaro:v0.1.0";

pub(super) fn dns(
    given: GatewayDns,
    gateway: Option<&str>,
    service: Option<&Service>,
    report: &mut Report,
) -> Option<Dns> {
    let GatewayDns {
        zone,
        service_name: given_name,
        service_cluster_ip,
        image: given_image,
        static_records,
        wildcard_address,
        extra_zones,
        ttl,
        negative_ttl,
    } = given;
    let own_name = given_name.and_then(|name| dns_service(&name, gateway, report));
    let cluster_ip = service_cluster_ip.and_then(|text| networks::address(&text, report));
    let image = given_image.and_then(|text| agent_image(&text, report));
    zone.iter().for_each(|zone| canonical(zone, report));
    let load_balancer_ip = service.map(|service| service.load_balancer_ip);
    let own: Vec<Ipv4Addr> = load_balancer_ip.into_iter().chain(cluster_ip).collect();
    let zone_wire = ZoneWire {
        zone,
        addresses: Vec::new(),
        static_records: static_records
            .map(|given| records(given, report))
            .unwrap_or_default(),
        wildcard_address,
        extra_zones: extra_zones
            .map(|given| zones(given, report))
            .unwrap_or_default(),
        ttl,
        negative_ttl,
    };
    let (config, upstreams) = meaning::dns(zone_wire, report);
    for upstream in upstreams {
        let socket = upstream.address;
        if socket.port() == DNS_PORT && own.iter().any(|own| socket.ip() == IpAddr::V4(*own)) {
            report.error(
                &upstream.place,
                format!(
                    "the upstream {} is this gateway itself, to which queries would come back",
                    quoted(&socket.ip().to_string())
                ),
                "name the DNS server that knows this zone",
            );
        }
    }
    let mut config = config?;
    config.addresses = load_balancer_ip.into_iter().map(IpAddr::V4).collect();
    Some(Dns {
        service_name: own_name?,
        service_cluster_ip: cluster_ip?,
        image,
        config,
    })
}

/// The Service's name, which must leave the names of the two others free.
fn dns_service(text: &Text, gateway: Option<&str>, report: &mut Report) -> Option<String> {
    let name = service_name(text, report)?;
    let taken =
        gateway.is_some_and(|gateway| name == gateway || name == format!("{gateway}-headless"));
    if taken {
        report.error(
            &text.place,
            format!("{} names another Service of this gateway", quoted(&name)),
            "write another name, such as the gateway's with `-dns`",
        );
        return None;
    }
    Some(name)
}

/// The agent's image. One of CoreDNS is a leftover that the default answers.
fn agent_image(text: &Text, report: &mut Report) -> Option<Image> {
    let image = image(text, AGENT_EXAMPLE, report)?;
    if image.is_coredns() {
        report.warn(
            &text.place,
            format!("{} is CoreDNS, which this gateway has no use for: the controller's own agent image is used instead", quoted(&text.value)),
            "name the image of the agent that your nodes pull, or remove the field",
        );
        return None;
    }
    Some(image)
}

/// Zones are part of a gateway's identity, so that each has one spelling only.
fn canonical(Given { value, place }: &Text, report: &mut Report) {
    let spelled = value.trim_end_matches('.').to_ascii_lowercase();
    if spelled != *value && !spelled.is_empty() {
        report.error(
            place,
            format!("{} has capital letters or a final dot", quoted(value)),
            format!("write {}", quoted(&spelled)),
        );
    }
}

fn records(
    Given { value, place }: Given<Vec<StaticRecord>>,
    report: &mut Report,
) -> Vec<StaticRecord> {
    if value.len() > MAX_RECORDS {
        report.error(
            &place,
            format!(
                "there are {} records, and {MAX_RECORDS} is the most",
                value.len()
            ),
            "put the others into the tailnet's hosts file",
        );
    }
    value
}

fn zones(Given { value, place }: Given<Vec<ExtraZone>>, report: &mut Report) -> Vec<ExtraZone> {
    if value.len() > MAX_ZONES {
        report.error(
            &place,
            format!(
                "there are {} extra zones, and {MAX_ZONES} is the most",
                value.len()
            ),
            "keep those that tailnet clients need",
        );
    }
    for ExtraZone { zone, upstreams } in &value {
        zone.iter().for_each(|zone| canonical(zone, report));
        if let Some(Text { place, .. }) = upstreams.get(MAX_UPSTREAMS) {
            report.error(
                place,
                format!(
                    "there are {} upstreams, and {MAX_UPSTREAMS} is the most",
                    upstreams.len()
                ),
                "keep the nearest ones",
            );
        }
    }
    value
}
