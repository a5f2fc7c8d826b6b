//! What two gateways cannot both have: the one whose objects are there keeps it, then the older one.

use std::sync::Arc;

use kube::ResourceExt;

use crate::crd::TailnetGateway;
use crate::reconcile::marks::FINALIZER;

/// The first claim of this gateway that another one has too and keeps, as field, value and the other
/// one's name.
pub(super) fn with_older(gateway: &TailnetGateway, all: &[Arc<TailnetGateway>]) -> Option<String> {
    let claims = claims(gateway);
    let others = all
        .iter()
        .filter(|other| other.uid() != gateway.uid() && rank(other) < rank(gateway));
    for other in others {
        let theirs = self::claims(other);
        let same = claims
            .iter()
            .find(|(_, ours)| theirs.iter().any(|(_, theirs)| ours == theirs));
        if let Some((field, claim)) = same {
            return Some(format!(
                "{field}: TailnetGateway {} has {claim} too; give each gateway its own",
                other.name_any()
            ));
        }
    }
    None
}

/// One whose objects are there comes before one that has made none.
fn rank(gateway: &TailnetGateway) -> (bool, (Option<i64>, String)) {
    let pinned = gateway
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == FINALIZER);
    (!pinned, age(gateway))
}

/// What orders objects by their age.
pub(super) fn age(object: &impl ResourceExt) -> (Option<i64>, String) {
    let created = object.creation_timestamp();
    (created.map(|time| time.0.as_second()), object.name_any())
}

/// Those that are older.
pub(super) fn older<'a, K: ResourceExt>(
    object: &K,
    all: &'a [Arc<K>],
) -> impl Iterator<Item = &'a Arc<K>> {
    let age = age(object);
    all.iter()
        .filter(move |other| self::age(other.as_ref()) < age)
}

fn claims(gateway: &TailnetGateway) -> Vec<(&'static str, String)> {
    let spec = &gateway.spec;
    let name = gateway.name_any();
    let secret = |name: &str| format!("the Secret {name}");
    let service = |name: &str| format!("the Service {name}");
    let hostname = format!("{} in {}", spec.hostname, spec.tailnet_ref.name);
    vec![
        ("spec.hostname", hostname),
        (
            "spec.stateSecretRef.name",
            secret(&spec.state_secret_ref.name),
        ),
        ("metadata.name", secret(&format!("{name}-authkey"))),
        (
            "spec.service.loadBalancerIP",
            spec.service.load_balancer_ip.clone(),
        ),
        (
            "spec.dns.serviceClusterIP",
            spec.dns.service_cluster_ip.clone(),
        ),
        ("spec.dns.serviceName", service(&spec.dns.service_name)),
        ("metadata.name", service(&name)),
        ("metadata.name", service(&format!("{name}-headless"))),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gateway(name: &str, created: &str, made: bool, changes: &[(&str, &str)]) -> TailnetGateway {
        let text = include_str!("../../../docs/examples/prod-1/kubernetes/tailnetgateway.yaml");
        let mut value: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        value["metadata"] = json!({
            "name": name, "uid": name, "creationTimestamp": created,
            "finalizers": if made { vec![FINALIZER] } else { Vec::new() },
        });
        value["spec"]["hostname"] = json!(name);
        value["spec"]["stateSecretRef"]["name"] = json!(format!("{name}-state"));
        value["spec"]["service"]["loadBalancerIP"] = json!(format!("{name}-lb"));
        value["spec"]["dns"]["serviceClusterIP"] = json!(format!("{name}-ip"));
        value["spec"]["dns"]["serviceName"] = json!(format!("{name}-dns"));
        for (pointer, text) in changes {
            *value.pointer_mut(pointer).unwrap() = json!(text);
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn who_has_made_its_objects_keeps_them_and_then_the_older_one_whatever_field_claims_them() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let a = gateway("a", early, true, &[]);
        let keeps = |ours: &TailnetGateway, theirs: &TailnetGateway| {
            let all = [ours, theirs].map(|gateway| Arc::new(gateway.clone()));
            with_older(ours, &all)
        };
        let cases = [
            (
                "/spec/hostname",
                "a",
                "spec.hostname: TailnetGateway a has a in corp too",
            ),
            (
                "/spec/stateSecretRef/name",
                "a-state",
                "spec.stateSecretRef.name",
            ),
            (
                "/spec/stateSecretRef/name",
                "a-authkey",
                "has the Secret a-authkey too",
            ),
            (
                "/spec/dns/serviceName",
                "a-headless",
                "spec.dns.serviceName",
            ),
            ("/spec/dns/serviceName", "a", "has the Service a too"),
            (
                "/spec/dns/serviceClusterIP",
                "a-ip",
                "spec.dns.serviceClusterIP",
            ),
        ];
        for (pointer, value, said) in cases {
            let b = gateway("b", late, true, &[(pointer, value)]);
            let found = keeps(&b, &a).unwrap();
            assert!(found.contains(said), "{found}");
            assert_eq!(keeps(&a, &b), None, "{pointer}");
        }
        let idle = gateway("b", early, false, &[("/spec/hostname", "a")]);
        let a = gateway("a", late, true, &[]);
        assert_eq!(keeps(&a, &idle), None);
        assert!(keeps(&idle, &a).is_some());
    }
}
