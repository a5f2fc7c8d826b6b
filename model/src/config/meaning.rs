//! Second phase: values. The document as written becomes the config.

pub(crate) mod addresses;
mod aliases;
mod listen;
mod records;
pub(crate) mod routes;
pub(crate) mod zones;

use super::parse::Upstream;
use super::wire::{Dns, Document, Given, Tailnet, Text};
use super::{Config, DnsConfig, ExtraZoneConfig, TailnetConfig};
use crate::finding::{Report, looks_like_key};

/// Range of both TTLs in seconds.
const TTL: std::ops::RangeInclusive<u32> = 1..=3600;
/// TTL of positive answers in seconds: what a cluster's CoreDNS caches at most by default.
const DEFAULT_TTL: u32 = 30;
/// TTL of negative answers in seconds: what a cluster's CoreDNS caches at least.
const DEFAULT_NEGATIVE_TTL: u32 = 5;

/// The config, as far as the values allow, and the upstreams with their places.
pub(super) fn config(document: Document, report: &mut Report) -> (Option<Config>, Vec<Upstream>) {
    let Document {
        listen,
        hosts,
        dns,
        tailnet,
        routes,
    } = document;
    let listen = listen
        .map(|listen| listen::listen(listen, report))
        .unwrap_or_default();
    let hosts = hosts.and_then(|hosts| path(hosts, report));
    let (dns, upstreams) = match dns {
        Some(dns) => self::dns(dns, report),
        None => (None, Vec::new()),
    };
    let tailnet = tailnet
        .map(|tailnet| self::tailnet(tailnet, report))
        .unwrap_or_default();
    let routes = routes.map(|routes| routes::routes(routes, report));
    (
        dns.map(|dns| Config {
            listen,
            hosts,
            dns,
            tailnet,
            routes,
        }),
        upstreams,
    )
}

pub(crate) fn dns(dns: Dns, report: &mut Report) -> (Option<DnsConfig>, Vec<Upstream>) {
    let Dns {
        zone,
        addresses,
        static_records,
        wildcard_address,
        extra_zones,
        ttl,
        negative_ttl,
    } = dns;
    let addresses = addresses::own(addresses, report);
    let primary = zone.and_then(|zone| zones::name(zone, report));
    let mut all = zones::Zones::new(primary);
    let mut extra = Vec::with_capacity(extra_zones.len());
    let mut upstreams = Vec::new();
    for zone in extra_zones {
        let servers = zones::upstreams(zone.upstreams, &addresses, report);
        if let Some(zone) = zone.zone.and_then(|name| zones::name(name, report)) {
            let upstreams = servers.iter().map(|upstream| upstream.address).collect();
            extra.push(ExtraZoneConfig {
                zone: zone.name.clone(),
                upstreams,
            });
            all.extra.push(zone);
        }
        upstreams.extend(servers);
    }
    all.check_disjoint(report);
    let static_records = records::static_records(static_records, &all, report);
    let wildcard_address =
        wildcard_address.and_then(|address| addresses::wildcard(&address, report));
    let ttl = seconds(ttl, DEFAULT_TTL, report);
    let negative_ttl = seconds(negative_ttl, DEFAULT_NEGATIVE_TTL, report);
    let dns = all.primary.map(|primary| DnsConfig {
        zone: primary.name,
        addresses,
        static_records,
        wildcard_address,
        extra_zones: extra,
        ttl,
        negative_ttl,
    });
    (dns, upstreams)
}

fn tailnet(tailnet: Tailnet, report: &mut Report) -> TailnetConfig {
    let Tailnet { auth_key_file } = tailnet;
    TailnetConfig {
        auth_key_file: auth_key_file.and_then(|file| path(file, report)),
    }
}

fn path(Given { value, place }: Text, report: &mut Report) -> Option<String> {
    if looks_like_key(&value) {
        let what = "this looks like a key itself, and this file holds no secrets";
        report.error(&place, what, "write the key into a file of its own, expire it if others could read it, and name that file here");
        return None;
    }
    if value.trim().is_empty() || value.contains('\0') {
        report.error(
            &place,
            "the path is empty",
            "name a file, relative to this one, or remove the field",
        );
        return None;
    }
    Some(value)
}

fn seconds(given: Option<Given<i64>>, default: u32, report: &mut Report) -> u32 {
    let Some(Given { value, place }) = given else {
        return default;
    };
    match u32::try_from(value) {
        Ok(seconds) if TTL.contains(&seconds) => seconds,
        _ => {
            let (least, most) = (TTL.start(), TTL.end());
            let what = format!("`{value}` is outside {least} to {most} seconds");
            report.error(
                &place,
                what,
                format!("write a number from {least} to {most}; without the field it is {default}"),
            );
            default
        }
    }
}
