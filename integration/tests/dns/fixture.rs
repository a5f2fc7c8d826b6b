//! The files of a setup: hosts and config.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use crate::setup::{Base, HostsKind, Setup, Static, StaticData};
use crate::text::expand;

/// What the first upstream answers.
pub(crate) const U1_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
/// What the second upstream answers.
pub(crate) const U2_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 8);

const APEX_LINE: &str = "192.0.2.21 Z";

const HOSTS: [&str; 20] = [
    "192.0.2.10 web.Z",
    "192.0.2.11 db.Z",
    "2001:db8::11 db.Z",
    "2001:db8::12 six.Z",
    "192.0.2.13 Mixed.Prod-1.Tailnet.Example.Internal",
    "192.0.2.14 under_score.Z trailing.Z.",
    "192.0.2.15 a.b.Z",
    "192.0.2.16 dup.Z",
    "192.0.2.16 dup.Z",
    "192.0.2.17 both.Z",
    "192.0.2.18 multi.Z",
    "192.0.2.19 multi.Z",
    "192.0.2.20 multi.Z",
    APEX_LINE,
    "::ffff:192.0.2.43 mapped.Z",
    "198.51.100.30 svc.E",
    "2001:db8::31 six.E",
    "203.0.113.40 outside.example.org",
    "203.0.113.41 short",
    "# many.Z has the addresses 198.51.100.1 to 198.51.100.200.",
];

const FAULTY: [&str; 6] = [
    "fe80::1%eth0 zoned.Z",
    "192.0.2.300 range.Z",
    "192.0.02.1 lead.Z",
    "192.0.2.61 bücher.Z beside.Z",
    "192.0.2.62 a..b.Z",
    "192.0.2.63 *.w.Z",
];

const STATIC: [(&str, &str); 10] = [
    ("static", "192.0.2.1"),
    ("both", "192.0.2.117"),
    ("deep.ent.static", "192.0.2.2"),
    ("alias", "web"),
    ("chain1", "chain2"),
    ("chain2", "alias"),
    ("dangling", "nothere"),
    ("aliasout", "host.example.org"),
    ("aliasextra", "svc.corp.example.com"),
    ("aliasfwd", "fwd.corp.example.com"),
];

/// The lines of a setup's hosts file; none if there is no file.
pub(crate) fn hosts(kind: HostsKind) -> Option<Vec<String>> {
    let mut lines: Vec<String> = HOSTS.iter().map(|line| host_line(line)).collect();
    lines.extend((1..=200).map(|last| host_line(&format!("198.51.100.{last} many.Z"))));
    match kind {
        HostsKind::Usual => {}
        HostsKind::NoApex => lines.retain(|line| *line != host_line(APEX_LINE)),
        HostsKind::Bom => lines.insert(0, format!("\u{feff}{}", host_line("192.0.2.60 bom.Z"))),
        HostsKind::Faulty => lines.extend(FAULTY.iter().map(|line| host_line(line))),
        HostsKind::WithR => lines.push(host_line("192.0.2.70 r.Z")),
        HostsKind::Missing => return None,
    }
    Some(lines)
}

/// A line with its names in full, and without final dots except where written.
pub(crate) fn host_line(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(host_word).collect();
    words.join(" ")
}

fn host_word(word: &str) -> String {
    let (name, dot) = match word.strip_suffix('.') {
        Some(name) => (name, "."),
        None => (word, ""),
    };
    let full = expand(name);
    if full == name {
        return word.to_owned();
    }
    format!("{}{dot}", full.trim_end_matches('.'))
}

/// The config file of a setup.
pub(crate) fn config(setup: &Setup, upstreams: &[SocketAddr]) -> String {
    let mut text = "apiVersion: agent.tsunaro.io/v1alpha1\nkind: GatewayConfig\n".to_owned();
    if setup.base != Base::Bare {
        text.push_str("hosts: mount/hosts\n");
    }
    let usual = expand("Z");
    let zone = setup.zone.as_deref().unwrap_or(usual.trim_end_matches('.'));
    text.push_str("dns:\n");
    line(&mut text, &format!("  zone: \"{zone}\""));
    if setup.base == Base::Wildcard {
        line(&mut text, "  wildcardAddress: 192.0.2.200");
    }
    let records = static_records(setup);
    if !records.is_empty() {
        line(&mut text, "  staticRecords:");
    }
    for Static { name, data } in &records {
        let data = match data {
            StaticData::Target(target) => format!("target: \"{target}\""),
            StaticData::Address(address) => format!("address: \"{address}\""),
        };
        line(&mut text, &format!("    - {{ name: \"{name}\", {data} }}"));
    }
    let mut extra = setup.extra.clone();
    if setup.base != Base::Bare {
        extra.push(expand("E").trim_end_matches('.').to_owned());
    }
    if !extra.is_empty() {
        line(&mut text, "  extraZones:");
    }
    let upstreams: Vec<String> = upstreams.iter().map(|each| format!("\"{each}\"")).collect();
    for zone in extra {
        let upstreams = upstreams.join(", ");
        line(
            &mut text,
            &format!("    - {{ zone: \"{zone}\", upstreams: [{upstreams}] }}"),
        );
    }
    text
}

/// The static records of a setup, relative to the zone.
pub(crate) fn static_records(setup: &Setup) -> Vec<Static> {
    let mut records = Vec::new();
    if setup.base != Base::Bare {
        records.extend(STATIC.iter().map(|(name, value)| Static {
            name: (*name).to_owned(),
            data: if value.parse::<Ipv4Addr>().is_ok() {
                StaticData::Address((*value).to_owned())
            } else {
                StaticData::Target((*value).to_owned())
            },
        }));
    }
    records.extend(setup.records.iter().cloned());
    records
}

fn line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}
