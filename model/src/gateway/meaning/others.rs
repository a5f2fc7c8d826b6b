//! `Tailnet`, `TailnetEgress`, `TailnetIngress`, `TailnetSite`.

use super::networks;
use super::syntax::{choice, object_name, tags};
use crate::config::meaning::zones::bad_name;
use crate::document::{Given, Text};
use crate::finding::{Report, quoted};
use crate::gateway::{Egress, Ingress, KeyRef, Policy, Site, Tailnet, wire};
use crate::name::DnsName;
use crate::routes::MAX_LAN_PREFIXES;

/// The key of Headscale's API key when none is named.
const DEFAULT_API_KEY: &str = "apiKey";
/// The key of the hosts file when none is named.
const DEFAULT_HOSTS_KEY: &str = "hosts";
/// The key of the base policy when none is named.
const DEFAULT_POLICY_KEY: &str = "policy.hujson";
/// Names of one egress at most; the schema has the same limit.
const MAX_ALIASES: usize = 32;
/// What a template may hold; the first is needed.
const NAME: &str = "{name}";
const NAMESPACE: &str = "{namespace}";

#[derive(Clone, Copy)]
enum Mode {
    Observe,
    Apply,
}

pub(super) fn tailnet(tailnet: wire::Tailnet, report: &mut Report) -> Option<Tailnet> {
    let wire::Tailnet {
        metadata,
        headscale,
        policy,
        dns,
        reserved_networks,
    } = tailnet;
    let wire::Metadata {
        name,
        namespace,
        uid: _,
    } = metadata;
    no_namespace(namespace, report);
    let name = name.and_then(|name| object_name(&name, report));
    let (url, api_key, ca_bundle) = match headscale {
        Some(wire::Headscale {
            url,
            api_key_secret_ref,
            ca_bundle,
        }) => (
            url.and_then(|url| self::url(&url, report)),
            api_key_secret_ref.and_then(|reference| key_ref(reference, DEFAULT_API_KEY, report)),
            ca_bundle.and_then(|pem| certificates(pem, report)),
        ),
        None => (None, None, None),
    };
    let (policy, route_approvers) = match policy {
        Some(policy) => self::policy(policy, report),
        None => (Policy::Observe, Vec::new()),
    };
    let (hosts, ingress_names) = match dns {
        Some(wire::TailnetDns {
            hosts_config_map,
            ingress_name_template,
        }) => (
            hosts_config_map.and_then(|reference| key_ref(reference, DEFAULT_HOSTS_KEY, report)),
            ingress_name_template.and_then(|text| template(text, report)),
        ),
        None => (None, None),
    };
    let reserved_networks = reserved_networks
        .map(|given| networks::prefixes(given, MAX_LAN_PREFIXES, report))
        .unwrap_or_default();
    Some(Tailnet {
        name: name?,
        url: url?,
        api_key: api_key?,
        ca_bundle,
        policy,
        route_approvers,
        hosts,
        ingress_names,
        reserved_networks,
    })
}

fn no_namespace(namespace: Option<Text>, report: &mut Report) {
    if let Some(Given { value, place }) = namespace {
        report.error(
            &place,
            format!(
                "this kind has no namespace, and this names {}",
                quoted(&value)
            ),
            "remove the field",
        );
    }
}

fn url(Given { value, place }: &Text, report: &mut Report) -> Option<String> {
    let rest = value
        .strip_prefix("https://")
        .or_else(|| value.strip_prefix("http://"));
    let host = rest.map(|rest| rest.trim_end_matches('/'));
    match host {
        Some(host)
            if !host.is_empty()
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-._:[]/".contains(&b)) =>
        {
            Some(value.trim_end_matches('/').to_owned())
        }
        _ => {
            // A password or a token may be in it.
            let what = if value.contains(['@', '?', '#']) {
                "this".to_owned()
            } else {
                quoted(value)
            };
            report.error(
                place,
                format!("{what} is not the address of a Headscale"),
                "write its `server_url`, as in `https://headscale.example.org`",
            );
            None
        }
    }
}

fn certificates(Given { value, place }: Text, report: &mut Report) -> Option<String> {
    if value.contains("-----BEGIN CERTIFICATE-----") && !value.contains("PRIVATE KEY") {
        return Some(value);
    }
    report.error(
        &place,
        "this is not a list of certificates in PEM",
        "write the certificates that sign Headscale's, from `-----BEGIN CERTIFICATE-----` on, and no private key",
    );
    None
}

fn key_ref(reference: wire::KeyRef, default: &str, report: &mut Report) -> Option<KeyRef> {
    let wire::KeyRef { name, key } = reference;
    let name = name.and_then(|name| object_name(&name, report));
    let key = match key {
        None => Some(default.to_owned()),
        Some(Given { value, place }) => {
            let valid = !value.is_empty()
                && value.len() <= 253
                && value != "."
                && !value.starts_with("..")
                && value
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
            if !valid {
                report.error(
                    &place,
                    format!("{} is not a key of a Secret or ConfigMap", quoted(&value)),
                    format!("write the key's name, or remove the field for `{default}`"),
                );
            }
            valid.then_some(value)
        }
    };
    Some(KeyRef {
        name: name?,
        key: key?,
    })
}

fn policy(policy: wire::Policy, report: &mut Report) -> (Policy, Vec<String>) {
    let wire::Policy {
        mode,
        route_approvers,
        base_config_map,
    } = policy;
    let choices = [("Observe", Mode::Observe), ("Apply", Mode::Apply)];
    let mode = choice(mode, &choices, Mode::Observe, report);
    let place = base_config_map
        .as_ref()
        .and_then(|reference| reference.name.as_ref())
        .map(|name| name.place.clone());
    let base = base_config_map.and_then(|reference| key_ref(reference, DEFAULT_POLICY_KEY, report));
    let policy = match mode {
        Mode::Apply => Policy::Apply { base },
        Mode::Observe => {
            if let Some(place) = place {
                report.warn(
                    &place,
                    "a base policy has no use while `mode` is `Observe`: no policy is written",
                    "write `mode: Apply`, or remove the field",
                );
            }
            Policy::Observe
        }
    };
    let approvers = route_approvers
        .map(|given| tags(given.value, report))
        .unwrap_or_default();
    (policy, approvers)
}

/// A template with `{name}` that makes full names.
fn template(Given { value, place }: Text, report: &mut Report) -> Option<String> {
    let sample = value.replace(NAME, "a").replace(NAMESPACE, "b");
    if value.contains(NAME) && value.contains('.') && DnsName::parse_host(&sample).is_ok() {
        return Some(value);
    }
    report.error(
        &place,
        format!("{} makes no names of ingresses", quoted(&value)),
        "write a full name with `{name}` and, if you like, `{namespace}` in it, as in `{name}-{namespace}.prod-1.tailnet.example.internal`",
    );
    None
}

pub(super) fn egress(egress: wire::Egress, report: &mut Report) -> Option<Egress> {
    let wire::Egress {
        metadata,
        tailnet_ref,
        target,
        dns_aliases,
    } = egress;
    let wire::Metadata {
        name,
        namespace,
        uid: _,
    } = metadata;
    let name = name.and_then(|name| object_name(&name, report));
    let tailnet = tailnet_ref.and_then(|name| object_name(&name, report));
    let target = target.and_then(|text| {
        let address = networks::address(&text, report)?;
        networks::routable(address, &text, report)
    });
    let dns_aliases = dns_aliases
        .map(|given| aliases(given, report))
        .unwrap_or_default();
    Some(Egress {
        namespace: namespace.map(|namespace| namespace.value),
        name: name?,
        tailnet: tailnet?,
        target: target?,
        dns_aliases,
    })
}

fn aliases(Given { value, place }: Given<Vec<Text>>, report: &mut Report) -> Vec<DnsName> {
    if value.len() > MAX_ALIASES {
        report.error(
            &place,
            format!(
                "there are {} names, and {MAX_ALIASES} is the most",
                value.len()
            ),
            "keep those that clients use",
        );
    }
    let mut names = Vec::with_capacity(value.len());
    for Given { value, place } in value {
        match DnsName::parse_host(&value) {
            Ok(name) if name.labels().count() > 1 => names.push(name),
            Ok(_) => report.error(
                &place,
                format!("{} is not a full name", quoted(&value)),
                "write the name with its domain, as in `db.prod-1.tailnet.example.internal`",
            ),
            Err(error) => report.error(
                &place,
                bad_name(&value, &error),
                "write a full name such as `db.prod-1.tailnet.example.internal`",
            ),
        }
    }
    names
}

pub(super) fn ingress(ingress: wire::Ingress, report: &mut Report) -> Option<Ingress> {
    let wire::Ingress {
        metadata,
        tailnet_ref,
        address,
        observed_address,
    } = ingress;
    let wire::Metadata {
        name,
        namespace,
        uid: _,
    } = metadata;
    let name = name.and_then(|name| object_name(&name, report));
    let tailnet = tailnet_ref.and_then(|name| object_name(&name, report));
    let wanted = address.and_then(|text| networks::address(&text, report));
    let observed = observed_address.and_then(|text| networks::address(&text, report));
    Some(Ingress {
        namespace: namespace.map(|namespace| namespace.value),
        name: name?,
        tailnet: tailnet?,
        address: observed.or(wanted),
    })
}

pub(super) fn site(site: wire::Site, report: &mut Report) -> Option<Site> {
    let wire::Site {
        metadata,
        tailnet_ref,
        prefixes,
        owner,
        description,
        advertised_by,
    } = site;
    let wire::Metadata {
        name,
        namespace,
        uid: _,
    } = metadata;
    no_namespace(namespace, report);
    let name = name.and_then(|name| object_name(&name, report));
    let tailnet = tailnet_ref.and_then(|name| object_name(&name, report));
    let prefixes = prefixes.map(|given| networks::prefixes(given, MAX_LAN_PREFIXES, report));
    let advertised_by = advertised_by
        .map(|given| tags(given.value, report))
        .unwrap_or_default();
    Some(Site {
        name: name?,
        tailnet: tailnet?,
        prefixes: prefixes?,
        owner: owner.map(|owner| owner.value),
        description: description.map(|text| text.value),
        advertised_by,
    })
}
