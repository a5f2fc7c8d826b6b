//! The three Services.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod::{DNS_PORT, DNS_TCP_PORT_NAME, DNS_UDP_PORT_NAME, HTTP_PORT, HTTP_PORT_NAME};
use super::{Input, Names, meta};

/// No Service has another Pod to turn to, and an agent that is not ready answers what it knows and
/// SERVFAIL for the rest. Left to readiness, a kubelet that restarts takes DNS away for a second or
/// two: docs/decisions/services-publish-pods-that-are-not-ready.md.
const ALWAYS_PUBLISHED: Option<bool> = Some(true);

/// DNS for tailnet clients: UDP and TCP on one address, which some load balancers would not do for
/// two Services.
pub(super) fn load_balancer(input: &Input<'_>) -> Service {
    let service = &input.gateway.service;
    let mut metadata = meta::object(input, &input.gateway.name);
    metadata
        .labels
        .get_or_insert_default()
        .extend(service.pool_labels.clone());
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            load_balancer_ip: Some(service.load_balancer_ip.to_string()),
            load_balancer_class: service.load_balancer_class.clone(),
            ports: Some(dns_ports()),
            selector: Some(meta::selector_labels(input.gateway)),
            publish_not_ready_addresses: ALWAYS_PUBLISHED,
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// DNS for the cluster, at a fixed address that its resolver forwards to.
pub(super) fn cluster(input: &Input<'_>) -> Service {
    let dns = &input.gateway.dns;
    Service {
        metadata: meta::object(input, &dns.service_name),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: Some(dns.service_cluster_ip.to_string()),
            ports: Some(dns_ports()),
            selector: Some(meta::selector_labels(input.gateway)),
            publish_not_ready_addresses: ALWAYS_PUBLISHED,
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The Service that a StatefulSet must name; by it metrics are found, of a Pod that is not ready too.
pub(super) fn headless(input: &Input<'_>) -> Service {
    Service {
        metadata: meta::object(input, &Names::of(input.gateway).headless_service),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: ALWAYS_PUBLISHED,
            ports: Some(vec![port(HTTP_PORT_NAME, "TCP", HTTP_PORT)]),
            selector: Some(meta::selector_labels(input.gateway)),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn dns_ports() -> Vec<ServicePort> {
    vec![
        port(DNS_UDP_PORT_NAME, "UDP", DNS_PORT),
        port(DNS_TCP_PORT_NAME, "TCP", DNS_PORT),
    ]
}

fn port(name: &str, protocol: &str, port: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        protocol: Some(protocol.to_owned()),
        port,
        target_port: Some(IntOrString::String(name.to_owned())),
        ..ServicePort::default()
    }
}
