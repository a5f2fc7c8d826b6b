//! The kinds that a gateway reads from: `Tailnet`, `TailnetEgress`, `TailnetIngress`, `TailnetSite`.

use super::{inner, key_ref, metadata, reference, required_text, spec, text, texts};
use crate::document::fields::{self, Fields};
use crate::finding::Report;
use crate::gateway::wire::{
    Egress, Headscale, Ingress, KeyRef, Object, Policy, Site, Tailnet, TailnetDns,
};

const TAILNET_REF: &str = "name the Tailnet, as in `tailnetRef: { name: corp }`";

pub(super) fn tailnet(mut fields: Fields<'_>, report: &mut Report) -> Option<Object> {
    let metadata = metadata(&mut fields, report);
    let spec = spec(&mut fields, report);
    fields.take("status");
    fields.close(report);
    let mut spec = spec?;
    let tailnet = Tailnet {
        metadata,
        headscale: spec
            .require(
                "headscale",
                "add `headscale:` with `url` and `apiKeySecretRef`",
                report,
            )
            .and_then(|field| Fields::open(field, report))
            .map(|fields| headscale(fields, report)),
        policy: inner(&mut spec, "policy", report).map(|fields| policy(fields, report)),
        dns: inner(&mut spec, "dns", report).map(|fields| tailnet_dns(fields, report)),
        reserved_networks: texts(&mut spec, "reservedNetworks", report),
    };
    spec.close(report);
    Some(Object::Tailnet(Box::new(tailnet)))
}

fn headscale(mut fields: Fields<'_>, report: &mut Report) -> Headscale {
    let fix = "name the Secret with the API key, as in `apiKeySecretRef: { name: headscale-api }`";
    let headscale = Headscale {
        url: required_text(
            &mut fields,
            "url",
            "name Headscale's address, as in `url: https://headscale.example.org`",
            report,
        ),
        api_key_secret_ref: fields
            .require("apiKeySecretRef", fix, report)
            .and_then(|field| Fields::open(field, report))
            .map(|mut inner| {
                let reference = KeyRef {
                    name: required_text(&mut inner, "name", fix, report),
                    key: text(&mut inner, "key", report),
                };
                inner.close(report);
                reference
            }),
        ca_bundle: text(&mut fields, "caBundle", report),
    };
    fields.close(report);
    headscale
}

fn policy(mut fields: Fields<'_>, report: &mut Report) -> Policy {
    let policy = Policy {
        mode: text(&mut fields, "mode", report),
        route_approvers: texts(&mut fields, "routeApprovers", report),
        base_config_map: key_ref(&mut fields, "baseConfigMapRef", report),
    };
    fields.close(report);
    policy
}

fn tailnet_dns(mut fields: Fields<'_>, report: &mut Report) -> TailnetDns {
    let dns = TailnetDns {
        hosts_config_map: key_ref(&mut fields, "hostsConfigMap", report),
        ingress_name_template: text(&mut fields, "ingressNameTemplate", report),
    };
    fields.close(report);
    dns
}

pub(super) fn egress(mut fields: Fields<'_>, report: &mut Report) -> Option<Object> {
    let metadata = metadata(&mut fields, report);
    let spec = spec(&mut fields, report);
    fields.take("status");
    fields.close(report);
    let mut spec = spec?;
    let egress = Egress {
        metadata,
        tailnet_ref: reference(&mut spec, "tailnetRef", TAILNET_REF, report),
        target: required_text(
            &mut spec,
            "target",
            "write the host's IPv4 address, as in `target: 192.0.2.20`",
            report,
        ),
        dns_aliases: texts(&mut spec, "dnsAliases", report),
    };
    spec.close(report);
    Some(Object::Egress(egress))
}

pub(super) fn ingress(mut fields: Fields<'_>, report: &mut Report) -> Option<Object> {
    let metadata = metadata(&mut fields, report);
    let spec = spec(&mut fields, report);
    let observed_address = inner(&mut fields, "status", report)
        .and_then(|mut status| text(&mut status, "address", report));
    fields.close(report);
    let mut spec = spec?;
    let ingress = Ingress {
        metadata,
        tailnet_ref: reference(&mut spec, "tailnetRef", TAILNET_REF, report),
        address: text(&mut spec, "address", report),
        observed_address,
    };
    spec.close(report);
    Some(Object::Ingress(ingress))
}

pub(super) fn site(mut fields: Fields<'_>, report: &mut Report) -> Option<Object> {
    let metadata = metadata(&mut fields, report);
    let spec = spec(&mut fields, report);
    fields.take("status");
    fields.close(report);
    let mut spec = spec?;
    let fix = "name the site's network, as in `prefixes: [192.0.2.0/24]`";
    let site = Site {
        metadata,
        tailnet_ref: reference(&mut spec, "tailnetRef", TAILNET_REF, report),
        prefixes: spec
            .require("prefixes", fix, report)
            .and_then(|field| fields::filled_list(field, fix, report, fields::text)),
        owner: text(&mut spec, "owner", report),
        description: text(&mut spec, "description", report),
        advertised_by: texts(&mut spec, "advertisedBy", report),
    };
    spec.close(report);
    Some(Object::Site(site))
}
