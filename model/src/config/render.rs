//! Writing a config as a file that [`parse`](super::parse()) reads back as the same config.

use std::fmt::{Display, Write};

use super::structure::{API_VERSION, KIND};
use super::{
    Config, DnsConfig, ExtraZoneConfig, Listen, RoutesConfig, StaticData, StaticRecord,
    TailnetConfig,
};
use crate::name::DnsName;

/// The config as a YAML file. All fields with a default are written out.
pub fn render(config: &Config) -> String {
    let Config {
        listen,
        hosts,
        dns,
        tailnet,
        routes,
    } = config;
    let mut out = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
    self::listen(&mut out, listen);
    if let Some(hosts) = hosts {
        line(&mut out, 0, "hosts", quoted(hosts));
    }
    self::dns(&mut out, dns);
    let TailnetConfig { auth_key_file } = tailnet;
    if let Some(file) = auth_key_file {
        out.push_str("tailnet:\n");
        line(&mut out, 1, "authKeyFile", quoted(file));
    }
    if let Some(routes) = routes {
        self::routes(&mut out, routes);
    }
    out
}

fn listen(out: &mut String, listen: &Listen) {
    let Listen { dns, http } = listen;
    if dns.is_empty() && http.is_none() {
        return;
    }
    out.push_str("listen:\n");
    if !dns.is_empty() {
        line(out, 1, "dns", list(dns));
    }
    if let Some(http) = http {
        line(out, 1, "http", quoted(http));
    }
}

fn dns(out: &mut String, dns: &DnsConfig) {
    let DnsConfig {
        zone,
        addresses,
        static_records,
        wildcard_address,
        extra_zones,
        ttl,
        negative_ttl,
    } = dns;
    out.push_str("dns:\n");
    line(out, 1, "zone", quoted(zone));
    line(out, 1, "addresses", list(addresses));
    if !static_records.is_empty() {
        out.push_str("  staticRecords:\n");
    }
    for StaticRecord { name, data } in static_records {
        let name = quoted(relative(name, zone));
        match data {
            StaticData::Alias(target) => put(
                out,
                format_args!("    - {{ name: {name}, target: {} }}\n", quoted(target)),
            ),
            StaticData::Addresses(addresses) => {
                for address in addresses {
                    put(
                        out,
                        format_args!("    - {{ name: {name}, address: {} }}\n", quoted(address)),
                    );
                }
            }
        }
    }
    if let Some(address) = wildcard_address {
        line(out, 1, "wildcardAddress", quoted(address));
    }
    if !extra_zones.is_empty() {
        out.push_str("  extraZones:\n");
    }
    for ExtraZoneConfig { zone, upstreams } in extra_zones {
        put(
            out,
            format_args!(
                "    - {{ zone: {}, upstreams: {} }}\n",
                quoted(zone),
                list(upstreams)
            ),
        );
    }
    line(out, 1, "ttl", ttl);
    line(out, 1, "negativeTTL", negative_ttl);
}

fn routes(out: &mut String, routes: &RoutesConfig) {
    let RoutesConfig {
        lan,
        tailnet_lb_cidr,
        egress_targets,
        aggregate,
        snat,
        refused: _,
    } = routes;
    out.push_str("routes:\n");
    line(out, 1, "lan", list(lan));
    if let Some(range) = tailnet_lb_cidr {
        line(out, 1, "tailnetLBCIDR", quoted(range));
    }
    line(out, 1, "egressTargets", list(egress_targets));
    line(out, 1, "aggregate", aggregate);
    line(out, 1, "snat", snat);
}

/// A record's name as the file wants it.
fn relative(name: &DnsName, zone: &DnsName) -> String {
    let count = name.labels().count().saturating_sub(zone.labels().count());
    let own = DnsName::from_labels(name.labels().take(count)).unwrap_or_else(|_| DnsName::root());
    let text = own.to_string();
    match text.strip_suffix('.') {
        None | Some("") => "@".to_owned(),
        Some(relative) => relative.to_owned(),
    }
}

fn list(items: &[impl Display]) -> String {
    format!(
        "[{}]",
        items.iter().map(quoted).collect::<Vec<_>>().join(", ")
    )
}

fn line(out: &mut String, level: usize, field: &str, value: impl Display) {
    put(
        out,
        format_args!("{:indent$}{field}: {value}\n", "", indent = 2 * level),
    );
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
}

/// A double-quoted scalar (YAML 1.2.2 §7.3.1), with everything but printable ASCII escaped.
fn quoted(value: impl Display) -> String {
    let mut out = String::from('"');
    for c in value.to_string().chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => put(&mut out, format_args!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}
