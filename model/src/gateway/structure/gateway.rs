//! `TailnetGateway`.

use super::{boolean, inner, map, metadata, number, reference, required_text, spec, text, texts};
use crate::config::structure::{extra_zone, static_record};
use crate::document::fields::{self, Fields};
use crate::finding::{Place, Report};
use crate::gateway::wire::{
    Gateway, GatewayDns, GatewayRoutes, GatewayService, GatewaySpec, Identity, Object, Rejected,
};

const REJECTED: [(&str, Rejected); 4] = [
    ("forwards", Rejected::Forwards),
    ("forwardImage", Rejected::ForwardImage),
    ("authKeySecretRef", Rejected::AuthKeySecretRef),
    ("adoption", Rejected::Adoption),
];

pub(super) fn gateway(mut fields: Fields<'_>, report: &mut Report) -> Option<Object> {
    let metadata = metadata(&mut fields, report);
    let spec = spec(&mut fields, report).map(|fields| spec_fields(fields, report));
    let pinned = inner(&mut fields, "status", report)
        .and_then(|mut status| boolean(&mut status, "pinned", report));
    fields.close(report);
    Some(Object::Gateway(Box::new(Gateway {
        metadata,
        spec: spec?,
        pinned,
    })))
}

fn spec_fields(mut fields: Fields<'_>, report: &mut Report) -> GatewaySpec {
    let f = &mut fields;
    let spec = GatewaySpec {
        suspend: boolean(f, "suspend", report),
        deletion_policy: text(f, "deletionPolicy", report),
        tailnet_ref: reference(
            f,
            "tailnetRef",
            "name the Tailnet, as in `tailnetRef: { name: corp }`",
            report,
        ),
        hostname: required_text(
            f,
            "hostname",
            "name the node, as in `hostname: prod-1-gw`",
            report,
        ),
        tags: texts(f, "tags", report),
        state_secret_ref: reference(
            f,
            "stateSecretRef",
            "name a Secret that does not exist yet, as in `stateSecretRef: { name: prod-1-gw-state }`",
            report,
        ),
        image: required_text(
            f,
            "image",
            "name the tailscale image with its version, as in `image: ghcr.io/tailscale/tailscale:v1.102.4`",
            report,
        ),
        replicas: number(f, "replicas", "Pods", report),
        routes: f
            .require("routes", "add `routes: { lan: [192.0.2.0/24] }`", report)
            .and_then(|field| Fields::open(field, report))
            .map(|fields| routes(fields, report)),
        service: f
            .require(
                "service",
                "add `service:` with `loadBalancerIP` and `tailnetLBCIDR`",
                report,
            )
            .and_then(|field| Fields::open(field, report))
            .map(|fields| service(fields, report)),
        dns: f
            .require(
                "dns",
                "add `dns:` with `zone`, `serviceName` and `serviceClusterIP`",
                report,
            )
            .and_then(|field| Fields::open(field, report))
            .map(|fields| dns(fields, report)),
        identity: inner(f, "identity", report).map(|fields| identity(fields, report)),
        rejected: rejected(f),
    };
    fields.close(report);
    spec
}

fn rejected(fields: &mut Fields<'_>) -> Vec<(Rejected, Place)> {
    REJECTED
        .into_iter()
        .filter_map(|(name, rejected)| Some((rejected, fields.take(name)?.place)))
        .collect()
}

fn routes(mut fields: Fields<'_>, report: &mut Report) -> GatewayRoutes {
    let fix = "name the site's network, as in `lan: [192.0.2.0/24]`";
    let routes = GatewayRoutes {
        lan: fields
            .require("lan", fix, report)
            .and_then(|field| fields::filled_list(field, fix, report, fields::text)),
        advertise_egress_targets: boolean(&mut fields, "advertiseEgressTargets", report),
        aggregate: boolean(&mut fields, "aggregate", report),
        snat: boolean(&mut fields, "snat", report),
    };
    fields.close(report);
    routes
}

fn service(mut fields: Fields<'_>, report: &mut Report) -> GatewayService {
    let f = &mut fields;
    let service = GatewayService {
        load_balancer_ip: required_text(
            f,
            "loadBalancerIP",
            "name the address that tailnet clients ask, as in `loadBalancerIP: 198.51.100.17`",
            report,
        ),
        load_balancer_class: text(f, "loadBalancerClass", report),
        tailnet_lb_cidr: required_text(
            f,
            "tailnetLBCIDR",
            "name the range of the load balancer's addresses, as in `tailnetLBCIDR: 198.51.100.0/24`",
            report,
        ),
        pool_labels: f.take("poolLabels").and_then(|field| map(field, report)),
    };
    fields.close(report);
    service
}

fn dns(mut fields: Fields<'_>, report: &mut Report) -> GatewayDns {
    let f = &mut fields;
    let dns = GatewayDns {
        zone: required_text(
            f,
            "zone",
            "add `zone: …`, the domain that the gateway answers for",
            report,
        ),
        service_name: required_text(
            f,
            "serviceName",
            "name the DNS Service inside the cluster, as in `serviceName: prod-1-gw-dns`",
            report,
        ),
        service_cluster_ip: required_text(
            f,
            "serviceClusterIP",
            "name a free address of the cluster's Service range, as in `serviceClusterIP: 10.96.0.54`",
            report,
        ),
        image: text(f, "image", report),
        static_records: f
            .take("staticRecords")
            .and_then(|field| fields::list(field, report, static_record)),
        wildcard_address: text(f, "wildcardAddress", report),
        extra_zones: f
            .take("extraZones")
            .and_then(|field| fields::list(field, report, extra_zone)),
        ttl: number(f, "ttl", "seconds", report),
        negative_ttl: number(f, "negativeTTL", "seconds", report),
    };
    fields.close(report);
    dns
}

fn identity(mut fields: Fields<'_>, report: &mut Report) -> Identity {
    let identity = Identity {
        on_loss: text(&mut fields, "onLoss", report),
        on_revoked: text(&mut fields, "onRevoked", report),
    };
    fields.close(report);
    identity
}
