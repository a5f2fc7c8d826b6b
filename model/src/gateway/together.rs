//! What only shows when objects are seen together.

use std::collections::HashMap;

use ipnet::Ipv4Net;

use super::{Gateway, Located, Object, Routes, Service, Tailnet};
use crate::finding::{Finding, Position, Severity};

/// Remarks on objects that get in each other's way, by the index of the later one: the same object
/// twice, gateways that claim one name, Secret or address, prefixes that a tailnet reserves.
pub fn check_together(objects: &[&Located]) -> Vec<(usize, Finding)> {
    let mut findings = Vec::new();
    let mut seen: HashMap<Claim, String> = HashMap::new();
    for (index, Located { object, position }) in objects.iter().enumerate() {
        let owner = identity(object);
        let claims = [Claim::Object(owner.clone())]
            .into_iter()
            .chain(claims(object));
        for claim in claims {
            match seen.get(&claim) {
                Some(other) => findings.push((index, claim.conflict(other, *position))),
                None => {
                    seen.insert(claim, owner.clone());
                }
            }
        }
        if let Object::Gateway(gateway) = object {
            let reserved = tailnets(objects)
                .filter(|tailnet| tailnet.name == gateway.tailnet)
                .flat_map(|tailnet| reserved(gateway, tailnet, *position));
            findings.extend(reserved.map(|finding| (index, finding)));
        }
    }
    findings
}

/// What only one object may have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Claim {
    Object(String),
    Hostname { tailnet: String, name: String },
    StateSecret(String),
    LoadBalancerIp(String),
    ClusterIp(String),
    DnsService(String),
}

impl Claim {
    fn conflict(&self, other: &str, position: Position) -> Finding {
        let (field, what, fix) = match self {
            Self::Object(_) => (
                "metadata.name",
                format!("{other} is here twice"),
                "keep one of them",
            ),
            Self::Hostname { name, .. } => (
                "spec.hostname",
                format!("{other} has the hostname `{name}` too"),
                "give each gateway a name of its own",
            ),
            Self::StateSecret(name) => (
                "spec.stateSecretRef.name",
                format!("{other} keeps its identity in `{name}` too"),
                "give each gateway a Secret of its own",
            ),
            Self::LoadBalancerIp(address) => (
                "spec.service.loadBalancerIP",
                format!("{other} has the address {address} too"),
                "give each gateway an address of its own",
            ),
            Self::ClusterIp(address) => (
                "spec.dns.serviceClusterIP",
                format!("{other} has the address {address} too"),
                "give each gateway an address of its own",
            ),
            Self::DnsService(name) => (
                "spec.dns.serviceName",
                format!("{other} has a Service `{name}` too"),
                "give each gateway a Service of its own",
            ),
        };
        error(field, what, fix, position)
    }
}

fn error(field: &str, what: String, fix: &str, position: Position) -> Finding {
    Finding {
        severity: Severity::Error,
        position,
        field: field.to_owned(),
        what,
        fix: fix.to_owned(),
    }
}

fn claims(object: &Object) -> Vec<Claim> {
    let Object::Gateway(gateway) = object else {
        return Vec::new();
    };
    let Gateway {
        tailnet,
        hostname,
        state_secret,
        service,
        dns,
        ..
    } = gateway.as_ref();
    vec![
        Claim::Hostname {
            tailnet: tailnet.clone(),
            name: hostname.clone(),
        },
        Claim::StateSecret(state_secret.clone()),
        Claim::LoadBalancerIp(service.load_balancer_ip.to_string()),
        Claim::ClusterIp(dns.service_cluster_ip.to_string()),
        Claim::DnsService(dns.service_name.clone()),
    ]
}

/// Kind, namespace and name.
fn identity(object: &Object) -> String {
    let namespaced = |kind: &str, namespace: &Option<String>, name: &str| {
        format!(
            "{kind} {}/{name}",
            namespace.as_deref().unwrap_or("default")
        )
    };
    match object {
        Object::Gateway(gateway) => format!("TailnetGateway {}", gateway.name),
        Object::Tailnet(tailnet) => format!("Tailnet {}", tailnet.name),
        Object::Site(site) => format!("TailnetSite {}", site.name),
        Object::Egress(egress) => namespaced("TailnetEgress", &egress.namespace, &egress.name),
        Object::Ingress(ingress) => namespaced("TailnetIngress", &ingress.namespace, &ingress.name),
    }
}

fn tailnets<'o>(objects: &'o [&Located]) -> impl Iterator<Item = &'o Tailnet> {
    objects.iter().filter_map(|located| match &located.object {
        Object::Tailnet(tailnet) => Some(tailnet.as_ref()),
        Object::Gateway(_) | Object::Egress(_) | Object::Ingress(_) | Object::Site(_) => None,
    })
}

fn reserved(gateway: &Gateway, tailnet: &Tailnet, position: Position) -> Vec<Finding> {
    let Routes { lan, .. } = &gateway.routes;
    let Service {
        tailnet_lb_cidr, ..
    } = &gateway.service;
    let own = lan
        .iter()
        .map(|prefix| ("spec.routes.lan", prefix))
        .chain([("spec.service.tailnetLBCIDR", tailnet_lb_cidr)]);
    let mut findings = Vec::new();
    for (field, prefix) in own {
        let taken = tailnet.reserved_networks.iter();
        for network in taken.filter(|network| overlap(**network, *prefix)) {
            let what = format!(
                "{prefix} overlaps {network}, which the Tailnet {} reserves",
                tailnet.name
            );
            let fix = "remove one of the two: what a gateway advertises is no reserved network";
            findings.push(error(field, what, fix, position));
        }
    }
    findings
}

fn overlap(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b) || b.contains(&a)
}
