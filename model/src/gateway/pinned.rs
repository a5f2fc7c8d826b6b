//! What a gateway is: fields that must not change once the controller has begun to create it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::Gateway;
use crate::config::ExtraZoneConfig;
use crate::name::DnsName;

/// Paths of the pinned fields, in the order of the schema.
pub const PINNED_FIELDS: [&str; 10] = [
    "spec.tailnetRef",
    "spec.hostname",
    "spec.tags",
    "spec.stateSecretRef",
    "spec.service.loadBalancerIP",
    "spec.service.loadBalancerClass",
    "spec.dns.zone",
    "spec.dns.serviceName",
    "spec.dns.serviceClusterIP",
    "spec.dns.extraZones",
];

/// The pinned fields in which `wanted` differs from `live`, by appearing or vanishing too. None
/// while `live` is not pinned.
pub fn changed_pinned_fields(live: &Gateway, wanted: &Gateway) -> Vec<&'static str> {
    if !live.pinned {
        return Vec::new();
    }
    let same = [
        live.tailnet == wanted.tailnet,
        live.hostname == wanted.hostname,
        // The schema makes these two sets, in which order means nothing.
        set(&live.tags) == set(&wanted.tags),
        live.state_secret == wanted.state_secret,
        live.service.load_balancer_ip == wanted.service.load_balancer_ip,
        live.service.load_balancer_class == wanted.service.load_balancer_class,
        live.dns.config.zone == wanted.dns.config.zone,
        live.dns.service_name == wanted.dns.service_name,
        live.dns.service_cluster_ip == wanted.dns.service_cluster_ip,
        zones(live) == zones(wanted),
    ];
    PINNED_FIELDS
        .into_iter()
        .zip(same)
        .filter_map(|(field, same)| (!same).then_some(field))
        .collect()
}

fn set(tags: &[String]) -> BTreeSet<&String> {
    tags.iter().collect()
}

fn zones(gateway: &Gateway) -> BTreeMap<&DnsName, &Vec<SocketAddr>> {
    let zones = &gateway.dns.config.extra_zones;
    zones
        .iter()
        .map(|ExtraZoneConfig { zone, upstreams }| (zone, upstreams))
        .collect()
}
