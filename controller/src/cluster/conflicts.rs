//! What two gateways cannot both have: the older one keeps it.

use std::sync::Arc;

use kube::ResourceExt;

use crate::crd::TailnetGateway;

/// The first claim of this gateway that an older one has too, as field, value and the older one's
/// name.
pub(super) fn with_older(gateway: &TailnetGateway, all: &[Arc<TailnetGateway>]) -> Option<String> {
    let claims = claims(gateway);
    let older = all
        .iter()
        .filter(|other| other.uid() != gateway.uid() && age(other.as_ref()) < age(gateway));
    for other in older {
        let theirs = self::claims(other);
        for ((field, ours), (_, theirs)) in claims.iter().zip(&theirs) {
            if ours == theirs {
                return Some(format!(
                    "{field}: TailnetGateway {} has {ours} too; give each gateway its own",
                    other.name_any()
                ));
            }
        }
    }
    None
}

/// What orders objects by their age.
pub(super) fn age(object: &impl ResourceExt) -> (Option<i64>, String) {
    let created = object.creation_timestamp();
    (created.map(|time| time.0.as_second()), object.name_any())
}

fn claims(gateway: &TailnetGateway) -> [(&'static str, String); 5] {
    let spec = &gateway.spec;
    [
        (
            "spec.hostname",
            format!("{} in {}", spec.hostname, spec.tailnet_ref.name),
        ),
        (
            "spec.stateSecretRef.name",
            spec.state_secret_ref.name.clone(),
        ),
        (
            "spec.service.loadBalancerIP",
            spec.service.load_balancer_ip.clone(),
        ),
        (
            "spec.dns.serviceClusterIP",
            spec.dns.service_cluster_ip.clone(),
        ),
        ("spec.dns.serviceName", spec.dns.service_name.clone()),
    ]
}
