//! What a gateway is: fields that must not change once the controller has begun to create it.

use super::Gateway;

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
        live.tags == wanted.tags,
        live.state_secret == wanted.state_secret,
        live.service.load_balancer_ip == wanted.service.load_balancer_ip,
        live.service.load_balancer_class == wanted.service.load_balancer_class,
        live.dns.config.zone == wanted.dns.config.zone,
        live.dns.service_name == wanted.dns.service_name,
        live.dns.service_cluster_ip == wanted.dns.service_cluster_ip,
        live.dns.config.extra_zones == wanted.dns.config.extra_zones,
    ];
    PINNED_FIELDS
        .into_iter()
        .zip(same)
        .filter_map(|(field, same)| (!same).then_some(field))
        .collect()
}
