use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::config::{DnsConfig, ExtraZoneConfig, StaticData, StaticRecord};
use crate::hosts::{HostEntry, Hosts};

const Z: &str = "prod-1.tailnet.example.internal";
const E: &str = "corp.example.com";

fn name(text: &str) -> DnsName {
    DnsName::parse_query(text).unwrap()
}

fn z(label: &str) -> DnsName {
    if label.is_empty() {
        name(Z)
    } else {
        name(&format!("{label}.{Z}"))
    }
}

fn alias(from: &str, to: DnsName) -> StaticRecord {
    StaticRecord {
        name: z(from),
        data: StaticData::Alias(to),
    }
}

fn config(wildcard: bool) -> DnsConfig {
    let address = |text: &str, a: &str| StaticRecord {
        name: z(text),
        data: StaticData::Addresses(vec![a.parse().unwrap()]),
    };
    DnsConfig {
        zone: name(Z),
        addresses: vec![],
        static_records: vec![
            address("static", "192.0.2.1"),
            address("both", "192.0.2.117"),
            address("deep.ent.static", "192.0.2.2"),
            alias("alias", z("web")),
            alias("chain1", z("chain2")),
            alias("chain2", z("alias")),
            alias("dangling", z("nothere")),
            alias("aliasout", name("host.example.org")),
            alias("aliasextra", name("svc.corp.example.com")),
            alias("aliasfwd", name("fwd.corp.example.com")),
        ],
        wildcard_address: wildcard.then(|| "192.0.2.200".parse().unwrap()),
        extra_zones: vec![ExtraZoneConfig {
            zone: name(E),
            upstreams: vec!["198.51.100.53:53".parse().unwrap()],
        }],
        ttl: 30,
        negative_ttl: 5,
    }
}

fn hosts() -> Hosts {
    let entries = [
        ("192.0.2.10", z("web")),
        ("192.0.2.11", z("db")),
        ("2001:db8::11", z("db")),
        ("2001:db8::12", z("six")),
        ("192.0.2.15", z("a.b")),
        ("192.0.2.16", z("dup")),
        ("192.0.2.16", z("dup")),
        ("192.0.2.17", z("both")),
        ("192.0.2.21", z("")),
        ("198.51.100.30", name("svc.corp.example.com")),
        ("2001:db8::31", name("six.corp.example.com")),
        ("203.0.113.40", name("outside.example.org")),
    ];
    let entries = entries
        .into_iter()
        .map(|(address, name)| HostEntry {
            name,
            address: address.parse::<IpAddr>().unwrap(),
        })
        .collect();
    Hosts {
        entries,
        ..Hosts::default()
    }
}

/// One line per resolution, so that tables stay readable.
fn show(snapshot: &Snapshot, qname: &DnsName, qtype: u16) -> String {
    let Resolution { chain, end, .. } = snapshot.resolve(qname, qtype);
    let short = |name: &DnsName| {
        name.to_string()
            .replace(&format!("{Z}."), "Z")
            .replace(&format!("{E}."), "E")
    };
    let mut line: String = chain
        .iter()
        .map(|target| format!("{} ", short(target)))
        .collect();
    line += &match end {
        End::Records(Records::A(set), source) => {
            let set: Vec<_> = set.iter().map(|octets| Ipv4Addr::from(*octets)).collect();
            format!("{source:?} {set:?}")
        }
        End::Records(Records::Aaaa(set), source) => {
            let set: Vec<_> = set.iter().map(|octets| Ipv6Addr::from(*octets)).collect();
            format!("{source:?} {set:?}")
        }
        End::Records(Records::Cname(target), source) => {
            format!("{source:?} CNAME {}", short(target))
        }
        End::Records(other, source) => format!("{source:?} {other:?}"),
        other => format!("{other:?}"),
    };
    line
}

fn snapshot(wildcard: bool) -> Snapshot {
    Snapshot::build(&config(wildcard), HostsInput::Read(&hosts()), 1, 1).0
}

#[test]
fn names_resolve_as_the_dns_contract_says() {
    use rtype::{A, AAAA, ANY, CNAME, NS, SOA};
    const TXT: u16 = 16;
    let plain = snapshot(false);
    let wild = snapshot(true);
    let svc = name("svc.corp.example.com");
    let cases: &[(&Snapshot, DnsName, u16, &str)] = &[
        (&plain, z("web"), A, "Dynamic [192.0.2.10]"),
        (&plain, z("web"), AAAA, "NoData(Primary, Dynamic)"),
        (&plain, z("six"), A, "NoData(Primary, Dynamic)"),
        (&plain, z("db"), AAAA, "Dynamic [2001:db8::11]"),
        (&plain, z("db"), ANY, "Dynamic [192.0.2.11]"),
        (&plain, z("six"), ANY, "Dynamic [2001:db8::12]"),
        (&plain, z("web"), TXT, "NoData(Primary, Dynamic)"),
        (&plain, z("nope"), AAAA, "NoSuchName"),
        (&plain, z("b"), A, "NoData(Primary, EmptyNonTerminal)"),
        (&plain, z("b"), NS, "NoData(Primary, EmptyNonTerminal)"),
        (
            &plain,
            z("ent.static"),
            A,
            "NoData(Primary, EmptyNonTerminal)",
        ),
        (&plain, z(""), SOA, "Apex Soa"),
        (&plain, z(""), NS, "Apex Ns"),
        (&plain, z(""), ANY, "Apex Soa"),
        (&plain, z(""), A, "Dynamic [192.0.2.21]"),
        (&plain, z("both"), A, "Static [192.0.2.117]"),
        (&plain, z("dup"), A, "Dynamic [192.0.2.16]"),
        (&plain, z("alias"), A, "web.Z Dynamic [192.0.2.10]"),
        (&plain, z("alias"), AAAA, "web.Z NoData(Primary, Dynamic)"),
        (&plain, z("alias"), CNAME, "Static CNAME web.Z"),
        (&plain, z("alias"), ANY, "Static CNAME web.Z"),
        (
            &plain,
            z("chain1"),
            A,
            "chain2.Z alias.Z web.Z Dynamic [192.0.2.10]",
        ),
        (&plain, z("dangling"), A, "nothere.Z NoSuchName"),
        (&plain, z("aliasout"), A, "host.example.org. Outside"),
        (&plain, z("aliasextra"), A, "svc.E Override [198.51.100.30]"),
        (&plain, z("aliasfwd"), A, "fwd.E Forward(0)"),
        (&plain, svc.clone(), AAAA, "NoData(Extra(0), Override)"),
        (&plain, svc.clone(), ANY, "Override [198.51.100.30]"),
        (&plain, svc, TXT, "Forward(0)"),
        (&plain, name(E), SOA, "Forward(0)"),
        (&plain, name("outside.example.org"), A, "NotOurs"),
        (&plain, name("tailnet.example.internal"), A, "NotOurs"),
        (&plain, name("."), NS, "NotOurs"),
        (&wild, z("nope"), A, "Wildcard [192.0.2.200]"),
        (&wild, z("any.depth"), A, "Wildcard [192.0.2.200]"),
        (&wild, z("nope"), AAAA, "NoData(Primary, Wildcard)"),
        (&wild, z("x.web"), A, "NoSuchName"),
        (&wild, z("x.b"), A, "NoSuchName"),
        (&wild, z("b"), A, "NoData(Primary, EmptyNonTerminal)"),
        (&wild, z("six"), A, "NoData(Primary, Dynamic)"),
        (&wild, z("*"), A, "Wildcard [192.0.2.200]"),
        (&wild, z("x.*"), A, "NoSuchName"),
        (&wild, z("dangling"), A, "nothere.Z Wildcard [192.0.2.200]"),
    ];
    for (snapshot, qname, qtype, expected) in cases {
        assert_eq!(
            &show(snapshot, qname, *qtype),
            expected,
            "{qname} type {qtype}"
        );
    }
}

// Holds rule 40.
#[test]
fn an_unread_hosts_file_leaves_static_names_and_hides_nothing_else() {
    let (snapshot, _) = Snapshot::build(&config(true), HostsInput::Unread, 1, 1);
    for (qname, qtype, expected) in [
        (z("static"), rtype::A, "Static [192.0.2.1]"),
        (z("static"), rtype::AAAA, "NoData(Primary, Static)"),
        (z(""), rtype::SOA, "Apex Soa"),
        (z(""), rtype::A, "HostsUnread"),
        (z("ent.static"), rtype::A, "HostsUnread"),
        (z("ent.static"), 16, "NoData(Primary, EmptyNonTerminal)"),
        (z("web"), rtype::A, "HostsUnread"),
        (z("alias"), rtype::A, "web.Z HostsUnread"),
        (name("any.corp.example.com"), rtype::A, "HostsUnread"),
        (name("any.corp.example.com"), 16, "Forward(0)"),
    ] {
        assert_eq!(show(&snapshot, &qname, qtype), expected, "{qname}");
    }
}

// Holds rule 30.
#[test]
fn a_circle_or_a_long_chain_of_aliases_ends_as_a_loop() {
    let mut dns = config(false);
    dns.static_records.push(alias("l1", z("l2")));
    dns.static_records.push(alias("l2", z("l1")));
    for i in 0..10 {
        dns.static_records
            .push(alias(&format!("n{i}"), z(&format!("n{}", i + 1))));
    }
    let (snapshot, _) = Snapshot::build(&dns, HostsInput::NotConfigured, 1, 1);
    assert_eq!(snapshot.resolve(&z("l1"), rtype::A).end, End::AliasLoop);
    assert_eq!(snapshot.resolve(&z("n0"), rtype::A).end, End::AliasLoop);
    assert_eq!(snapshot.resolve(&z("n2"), rtype::A).chain.len(), MAX_LINKS);
}

#[test]
fn the_census_counts_what_was_built() {
    let (_, census) = Snapshot::build(&config(false), HostsInput::Read(&hosts()), 1, 1);
    let Census {
        static_names,
        dynamic_names,
        overrides,
        foreign_entries,
        shadowed,
        cut,
    } = census;
    assert_eq!(
        (static_names, dynamic_names, overrides, foreign_entries),
        (10, 6, 2, 1)
    );
    assert_eq!(shadowed, [z("both")]);
    assert!(cut.is_empty());
}

// Holds rule 42.
#[test]
fn serials_only_go_up_also_when_the_clock_does_not() {
    for (now, previous, expected) in [
        (1000, None, 1000),
        (1000, Some(900), 1000),
        (1000, Some(1000), 1001),
        (1000, Some(2000), 2001),
        (5, Some(u32::MAX), 5),
        (u32::MAX, Some(5), 6),
    ] {
        assert_eq!(next_serial(now, previous), expected, "{now} {previous:?}");
    }
}
