use tsunaro_model::config::{DnsConfig, ExtraZoneConfig, StaticData, StaticRecord};
use tsunaro_model::hosts::{HostEntry, Hosts};
use tsunaro_model::zone::{HostsInput, rtype};

use super::*;

const Z: &str = "example.internal";
const E: &str = "example.com";

fn name(text: &str) -> DnsName {
    DnsName::parse_query(text).unwrap()
}

fn snapshot(wildcard: bool, hosts_read: bool) -> Snapshot {
    let alias = |from: &str, to: &str| StaticRecord {
        name: name(from),
        data: StaticData::Alias(name(to)),
    };
    let config = DnsConfig {
        zone: name(Z),
        addresses: vec![],
        static_records: vec![
            StaticRecord {
                name: name("router.example.internal"),
                data: StaticData::Addresses(vec![
                    "192.0.2.1".parse().unwrap(),
                    "192.0.2.2".parse().unwrap(),
                ]),
            },
            alias("api.example.internal", "svc.example.com"),
            alias("out.example.internal", "host.example.org"),
            alias("loop.example.internal", "pool.example.internal"),
            alias("pool.example.internal", "loop.example.internal"),
        ],
        wildcard_address: wildcard.then(|| "192.0.2.200".parse().unwrap()),
        extra_zones: vec![ExtraZoneConfig {
            zone: name(E),
            upstreams: vec![
                "198.51.100.53:53".parse().unwrap(),
                "198.51.100.54:5353".parse().unwrap(),
            ],
        }],
        ttl: 30,
        negative_ttl: 5,
    };
    let entry = |text: &str, address: &str| HostEntry {
        name: name(text),
        address: address.parse().unwrap(),
    };
    let entries = [
        entry("a.web.example.internal", "192.0.2.10"),
        entry("svc.example.com", "198.51.100.30"),
    ];
    let hosts = Hosts {
        entries: entries.into_iter().collect(),
        ..Hosts::default()
    };
    let input = if hosts_read {
        HostsInput::Read(&hosts)
    } else {
        HostsInput::Unread
    };
    Snapshot::build(&config, input, 1, 7).0
}

#[test]
fn every_way_a_question_can_end_is_told_in_words() {
    let (plain, wild, unread) = (
        snapshot(false, true),
        snapshot(true, true),
        snapshot(false, false),
    );
    let cases: &[(&Snapshot, &str, u16, &str)] = &[
        (
            &plain,
            "router.example.internal",
            rtype::A,
            "router.example.internal. A
  lies in the authoritative zone example.internal.
  router.example.internal. is a static record
    A 192.0.2.1
    A 192.0.2.2
=> NOERROR with these records",
        ),
        (
            &plain,
            "a.web.example.internal",
            rtype::AAAA,
            "a.web.example.internal. AAAA
  lies in the authoritative zone example.internal.
  a.web.example.internal. is a dynamic name, from the hosts file
  it has no AAAA record
=> NOERROR without records (NODATA)",
        ),
        (
            &plain,
            "web.example.internal",
            65280,
            "web.example.internal. TYPE65280
  lies in the authoritative zone example.internal.
  web.example.internal. exists only because names below it do (an empty non-terminal)
  it has no TYPE65280 record
=> NOERROR without records (NODATA)",
        ),
        (
            &wild,
            "nope.example.internal",
            252,
            "nope.example.internal. AXFR
  lies in the authoritative zone example.internal.
  the server has no answer to questions for AXFR
=> REFUSED",
        ),
        (
            &plain,
            "router.example.internal",
            250,
            "router.example.internal. TSIG
  lies in the authoritative zone example.internal.
  the server has no answer to questions for TSIG
=> FORMERR",
        ),
        (
            &plain,
            "nope.example.internal",
            rtype::A,
            "nope.example.internal. A
  lies in the authoritative zone example.internal.
  nope.example.internal. does not exist, and no wildcard covers it
=> NXDOMAIN",
        ),
        (
            &wild,
            "nope.example.internal",
            rtype::A,
            "nope.example.internal. A
  lies in the authoritative zone example.internal.
  nope.example.internal. does not exist, and the wildcard address stands for it
    A 192.0.2.200
=> NOERROR with this record",
        ),
        (
            &plain,
            "api.example.internal",
            rtype::A,
            "api.example.internal. A
  lies in the authoritative zone example.internal.
  api.example.internal. is an alias for svc.example.com. (a static record)
  svc.example.com. is overridden by the hosts file
    A 198.51.100.30
=> NOERROR with this record",
        ),
        (
            &plain,
            "svc.example.com",
            16,
            "svc.example.com. TXT
  lies in the extra zone example.com.
  svc.example.com. is not overridden for TXT: upstreams of example.com. decide
=> forwarded to 198.51.100.53:53, 198.51.100.54:5353",
        ),
        (
            &plain,
            "out.example.internal",
            rtype::A,
            "out.example.internal. A
  lies in the authoritative zone example.internal.
  out.example.internal. is an alias for host.example.org. (a static record)
  host.example.org. lies in none of our zones, so the alias is the whole answer
  most clients do not follow it
=> NOERROR with the alias alone",
        ),
        (
            &unread,
            "web.example.internal",
            rtype::A,
            "web.example.internal. A
  lies in the authoritative zone example.internal.
  web.example.internal. could stand in the hosts file, which was not read yet
=> SERVFAIL (extended error 14, Not Ready)",
        ),
        (
            &plain,
            "loop.example.internal",
            rtype::A,
            "loop.example.internal. A
  lies in the authoritative zone example.internal.
  loop.example.internal. is an alias for pool.example.internal. (a static record)
  the aliases end nowhere: a loop, or more than 8 of them
=> SERVFAIL",
        ),
        (
            &plain,
            "www.example.org",
            rtype::A,
            "www.example.org. A
  lies in none of our zones
=> REFUSED (extended error 20, Not Authoritative)",
        ),
        (
            &wild,
            "x.web.example.internal",
            rtype::A,
            "x.web.example.internal. A
  lies in the authoritative zone example.internal.
  x.web.example.internal. does not exist; the wildcard does not reach below web.example.internal., which does (RFC 4592)
=> NXDOMAIN",
        ),
        (
            &wild,
            "a.web",
            rtype::A,
            "a.web. A
  lies in none of our zones
  names are not completed: write a.web.example.internal. if you mean that
=> REFUSED (extended error 20, Not Authoritative)",
        ),
        (
            &plain,
            "example.internal",
            rtype::SOA,
            "example.internal. SOA
  lies in the authoritative zone example.internal.
  example.internal. is the apex of the zone
    SOA example.internal. serial 7
=> NOERROR with this record",
        ),
    ];
    for (snapshot, text, qtype, expected) in cases {
        assert_eq!(
            explain(snapshot, &name(text), *qtype).to_string(),
            *expected
        );
    }
}

#[test]
fn types_are_read_and_written_as_people_write_them() {
    for (text, number) in [
        ("A", 1),
        ("aaaa", 28),
        ("Txt", 16),
        ("HTTPS", 65),
        ("TYPE65280", 65280),
        ("type1", 1),
        ("ANY", 255),
    ] {
        assert_eq!(parse_type(text), Some(number), "{text}");
    }
    for text in ["", "B", "TYPE", "TYPE65536", "TYPE-1", "A "] {
        assert_eq!(parse_type(text), None, "{text}");
    }
    for number in [1, 5, 28, 65, 255, 65280] {
        assert_eq!(parse_type(&type_name(number)), Some(number));
    }
}
