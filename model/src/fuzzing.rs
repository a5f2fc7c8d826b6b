//! What the fuzz targets of `fuzz/` run, and what their committed corpora are replayed through by
//! an ordinary test. Each takes any octets and panics when what always holds does not.

use std::net::IpAddr;

use crate::config::{self, Config, StaticData, StaticRecord};
use crate::finding::Finding;
use crate::hosts::{HostEntry, Hosts};
use crate::name::DnsName;
use crate::zone::{End, HostsInput, MAX_LINKS, Snapshot, ZoneRef, rtype};

/// Any octets as a hosts file: an error, or names that are served. Both are built into a zone.
pub fn hosts(octets: &[u8]) {
    const CONFIG: &str = "{apiVersion: agent.tsunaro.io/v1alpha1, kind: GatewayConfig, \
        dns: {zone: z.example, wildcardAddress: 192.0.2.200, staticRecords: \
        [{name: s, address: 192.0.2.1}, {name: a, target: web}], \
        extraZones: [{zone: e.example, upstreams: [192.0.2.53]}]}}";
    let Ok(hosts) = Hosts::parse(octets) else {
        return;
    };
    assert!(hosts.findings.len() <= Hosts::MAX_FINDINGS);
    assert!(hosts.findings.is_sorted_by_key(|finding| finding.position));
    assert!(!hosts.findings.iter().any(Finding::is_error));
    assert!(hosts.content_lines > 0 || hosts.entries.is_empty());
    for HostEntry { name, address } in hosts.entries.iter() {
        assert_eq!(DnsName::parse_host(&name.to_string()), Ok(name));
        assert!(!address.is_unspecified() && !address.is_multicast());
        assert_eq!(address, address.to_canonical(), "mapped addresses are A");
    }
    if let Some(Config { dns, .. }) = config::parse(CONFIG).config {
        let (zone, _) = Snapshot::build(&dns, HostsInput::Read(&hosts), 1, 1);
        hosts
            .entries
            .iter()
            .take(64)
            .for_each(|entry| is_served(&zone, &entry));
    } else {
        unreachable!("the config of this function is valid");
    }
}

/// A name of the hosts file exists exactly when it lies in a zone of ours, with the family of the
/// entry unless a static record hides it, and so do the names on the way to the apex.
fn is_served(zone: &Snapshot, entry: &HostEntry) {
    let HostEntry { name, address } = entry;
    let qtype = match address {
        IpAddr::V4(_) => rtype::A,
        IpAddr::V6(_) => rtype::AAAA,
    };
    let end = zone.resolve(name, qtype).end;
    match zone.zone_of(name) {
        None => assert_eq!(end, End::NotOurs),
        Some(ZoneRef::Extra(_)) => assert!(matches!(end, End::Records(..)), "{name}: {end:?}"),
        Some(ZoneRef::Primary) => {
            assert!(
                matches!(end, End::Records(..) | End::NoData(..)),
                "{name}: {end:?}"
            );
            for suffix in name.suffixes() {
                let Ok(ancestor) = DnsName::from_wire(suffix) else {
                    unreachable!("the suffix of a name is a name");
                };
                let end = zone.resolve(&ancestor, 16).end;
                assert_ne!(end, End::NoSuchName, "{ancestor} has {name} below it");
            }
        }
    }
}

/// Any octets as a config file: findings that a person can act on, or a config that reads back
/// the same and whose every static name has an answer.
pub fn config(octets: &[u8]) {
    let Ok(text) = std::str::from_utf8(octets) else {
        return;
    };
    let parsed = config::parse(text);
    assert_eq!(
        parsed.config.is_none(),
        parsed.findings.iter().any(Finding::spoils_the_file)
    );
    assert!(parsed.findings.is_sorted_by_key(|finding| finding.position));
    for finding in &parsed.findings {
        assert!(finding.position.line >= 1 && finding.position.column >= 1);
        assert!(!finding.what.is_empty() && !finding.fix.is_empty());
    }
    let Some(mut config) = parsed.config else {
        return;
    };
    // What is left out is not written either.
    if let Some(routes) = &mut config.routes {
        routes.refused.clear();
    }
    let written = config::render(&config);
    assert_eq!(
        config::parse(&written).config.as_ref(),
        Some(&config),
        "{written}"
    );
    let (zone, _) = Snapshot::build(&config.dns, HostsInput::NotConfigured, 1, 1);
    for StaticRecord { name, data } in &config.dns.static_records {
        let resolution = zone.resolve(name, rtype::A);
        assert!(resolution.chain.len() <= MAX_LINKS);
        match (data, resolution.end) {
            (StaticData::Addresses(_), End::Records(..) | End::NoData(..)) => {}
            (
                StaticData::Alias(_),
                End::Records(..)
                | End::NoData(..)
                | End::NoSuchName
                | End::Forward(_)
                | End::Outside,
            ) => {}
            (_, end) => unreachable!("{name}: {end:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
