//! What only shows when objects are seen together.

use std::collections::{BTreeSet, HashMap};

use ipnet::Ipv4Net;

use super::{Egress, Gateway, Located, Object, Routes, Service, Tailnet};
use crate::finding::{Finding, Position, Severity};
use crate::routes::MAX_EGRESS_TARGETS;

/// Remarks on objects that get in each other's way, by the index of the later one: the same object
/// twice, gateways that claim one name, Secret or address, prefixes that a tailnet reserves.
pub fn check_together(objects: &[&Located]) -> Vec<(usize, Finding)> {
    let mut findings = Vec::new();
    let mut seen: HashMap<Claim, String> = HashMap::new();
    for (index, Located { object, position }) in objects.iter().enumerate() {
        let owner = identity(object);
        if seen
            .insert(Claim::Object(owner.clone()), owner.clone())
            .is_some()
        {
            let what = format!("{owner} is here twice");
            let finding = error("metadata.name", what, "keep one of them", *position);
            // All its claims are taken too, which says nothing more.
            findings.push((index, finding));
            continue;
        }
        for (field, claim) in claims(object) {
            match seen.get(&claim) {
                Some(other) if *other != owner => {
                    findings.push((index, claim.conflict(field, other, *position)));
                }
                Some(_) => {}
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
            let api_keys =
                tailnets(objects).filter_map(|tailnet| with_api_key(gateway, tailnet, *position));
            findings.extend(api_keys.map(|finding| (index, finding)));
            let egresses = objects.iter().filter_map(|located| match &located.object {
                Object::Egress(egress) => Some(egress),
                _ => None,
            });
            let many = too_many_targets(gateway, egresses, *position);
            findings.extend(many.map(|finding| (index, finding)));
        }
        if let Object::Egress(egress) = object {
            let reserved = tailnets(objects)
                .filter(|tailnet| tailnet.name == egress.tailnet)
                .flat_map(|tailnet| reserved_target(egress, tailnet, *position));
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
    Secret(String),
    LoadBalancerIp(String),
    ClusterIp(String),
    Service(String),
}

impl Claim {
    fn conflict(&self, field: &str, other: &str, position: Position) -> Finding {
        let (what, fix) = match self {
            Self::Object(_) => (format!("{other} is here too"), "keep one of them"),
            Self::Hostname { name, .. } => (
                format!("{other} has the hostname `{name}` too"),
                "give each gateway a name of its own",
            ),
            Self::Secret(name) => (
                format!("{other} has a Secret `{name}` too"),
                "give each gateway a Secret of its own",
            ),
            Self::LoadBalancerIp(address) | Self::ClusterIp(address) => (
                format!("{other} has the address {address} too"),
                "give each gateway an address of its own",
            ),
            Self::Service(name) => (
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

/// What an object claims, each with the field that says so.
fn claims(object: &Object) -> Vec<(&'static str, Claim)> {
    let Object::Gateway(gateway) = object else {
        return Vec::new();
    };
    let Gateway {
        name,
        tailnet,
        hostname,
        state_secret,
        service,
        dns,
        ..
    } = gateway.as_ref();
    let hostname = Claim::Hostname {
        tailnet: tailnet.clone(),
        name: hostname.clone(),
    };
    let cluster_ip = Claim::ClusterIp(dns.service_cluster_ip.to_string());
    let load_balancer = Claim::LoadBalancerIp(service.load_balancer_ip.to_string());
    vec![
        ("spec.hostname", hostname),
        (
            "spec.stateSecretRef.name",
            Claim::Secret(state_secret.clone()),
        ),
        ("metadata.name", Claim::Secret(format!("{name}-authkey"))),
        ("spec.service.loadBalancerIP", load_balancer),
        ("spec.dns.serviceClusterIP", cluster_ip),
        (
            "spec.dns.serviceName",
            Claim::Service(dns.service_name.clone()),
        ),
        ("metadata.name", Claim::Service(name.clone())),
        ("metadata.name", Claim::Service(format!("{name}-headless"))),
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

fn reserved_target(egress: &Egress, tailnet: &Tailnet, position: Position) -> Option<Finding> {
    let mut taken = tailnet.reserved_networks.iter();
    let network = taken.find(|network| network.contains(&egress.target))?;
    let what = format!(
        "{} is in {network}, which the Tailnet {} reserves",
        egress.target, tailnet.name
    );
    let fix = "remove one of the two: no gateway advertises what is reserved";
    Some(error("spec.target", what, fix, position))
}

/// tailscaled would write its state into the Secret, and a deletion would take it.
fn with_api_key(gateway: &Gateway, tailnet: &Tailnet, position: Position) -> Option<Finding> {
    let Gateway {
        name, state_secret, ..
    } = gateway;
    let field = if *state_secret == tailnet.api_key.name {
        "spec.stateSecretRef.name"
    } else if format!("{name}-authkey") == tailnet.api_key.name {
        "metadata.name"
    } else {
        return None;
    };
    let what = format!(
        "the Secret `{}` has the API key of the Tailnet {}",
        tailnet.api_key.name, tailnet.name
    );
    let fix = "give the gateway a Secret of its own";
    Some(error(field, what, fix, position))
}

/// Whether a gateway is to advertise more egress targets than its agent takes.
fn too_many_targets<'e>(
    gateway: &Gateway,
    egresses: impl IntoIterator<Item = &'e Egress>,
    position: Position,
) -> Option<Finding> {
    let targets: BTreeSet<_> = egresses
        .into_iter()
        .filter(|egress| egress.tailnet == gateway.tailnet)
        .map(|egress| egress.target)
        .collect();
    if !gateway.routes.advertise_egress_targets || targets.len() <= MAX_EGRESS_TARGETS {
        return None;
    }
    let what = format!(
        "the egresses of the Tailnet {} have {} targets, and {MAX_EGRESS_TARGETS} is the most",
        gateway.tailnet,
        targets.len()
    );
    let fix = "set it to false, and cover the targets by prefixes of routes.lan";
    Some(error(
        "spec.routes.advertiseEgressTargets",
        what,
        fix,
        position,
    ))
}

fn overlap(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b) || b.contains(&a)
}
