//! Sections B, D and G: names in the primary zone, and the records of its apex.

use hickory_proto::rr::RData;
use tsunaro_dns::forwarding::ClientTransport;

use crate::fixture::{SERIAL, config, hosts, unread, w0, w1, world};
use crate::message::rtype::*;
use crate::message::{ask, decode};

const NODATA: &str = "NOERROR aa: / [Z 5 SOA Z 5]";
const NXDOMAIN: &str = "NXDOMAIN aa: / [Z 5 SOA Z 5]";

#[test]
fn rule_5_a_reply_comes_from_the_snapshot_the_query_started_with() {
    let old = w0();
    let mut next = config(false);
    next.static_records.clear();
    let new = world(&next, &hosts());
    assert_eq!(
        old.ask("static.Z", A),
        "NOERROR aa: [static.Z 30 A 192.0.2.1]"
    );
    assert_eq!(new.ask("static.Z", A), NXDOMAIN);
    let octets = ask("aliasfwd.Z", A).octets();
    let reply = old.raw(&octets, ClientTransport::Udp, |_| {
        // Whatever is swapped in while upstreams are asked, the alias stays as it was.
        drop(world(&next, &hosts()));
        Ok(crate::fixture::forwarded(vec![crate::fixture::a(
            "fwd.E",
            "198.51.100.7",
        )]))
    });
    assert!(crate::message::line(&reply.unwrap().octets).contains("CNAME fwd.E"));
}

#[test]
fn rule_6_an_existing_rrset_is_the_whole_answer() {
    w0().check(&[
        ("web.Z", A, "NOERROR aa: [web.Z 30 A 192.0.2.10]"),
        ("db.Z", A, "NOERROR aa: [db.Z 30 A 192.0.2.11]"),
        ("db.Z", AAAA, "NOERROR aa: [db.Z 30 AAAA 2001:db8::11]"),
        ("static.Z", A, "NOERROR aa: [static.Z 30 A 192.0.2.1]"),
    ]);
}

#[test]
fn rule_7_a_name_without_the_type_is_nodata_with_soa() {
    for qtype in [
        AAAA, TXT, HTTPS, 64, 15, DS, RRSIG, UNKNOWN, NS, SOA, CNAME, 12,
    ] {
        w0().check(&[("web.Z", qtype, NODATA), ("static.Z", qtype, NODATA)]);
    }
    w0().check(&[("six.Z", A, NODATA)]);
}

#[test]
fn rule_8_nodata_is_authoritative() {
    let reply = w0().reply(
        &ask("web.Z", AAAA).plain(),
        ClientTransport::Udp,
        |_| unreachable!(),
    );
    assert!(decode(&reply.octets).metadata.authoritative);
}

#[test]
fn rule_9_an_empty_non_terminal_is_nodata() {
    for qtype in [A, AAAA, NS, TXT, ANY] {
        for world in [w0(), w1()] {
            world.check(&[("b.Z", qtype, NODATA), ("ent.static.Z", qtype, NODATA)]);
        }
    }
}

#[test]
fn rule_10_a_missing_name_is_nxdomain_for_every_type() {
    for qtype in [A, AAAA, TXT, HTTPS, NS, SOA, CNAME, ANY, DS, UNKNOWN] {
        w0().check(&[
            ("nope.Z", qtype, NXDOMAIN),
            ("a.b.c.nope.Z", qtype, NXDOMAIN),
            ("x.web.Z", qtype, NXDOMAIN),
        ]);
    }
}

#[test]
fn rule_11_negative_answers_carry_the_smaller_of_soa_ttl_and_minimum() {
    for (ttl, negative_ttl, expected) in [(30, 5, 5), (5, 30, 5), (1, 3600, 1), (3600, 1, 1)] {
        let world = world(
            &tsunaro_model::config::DnsConfig {
                ttl,
                negative_ttl,
                ..config(false)
            },
            &hosts(),
        );
        let soa = format!("[Z {expected} SOA Z {negative_ttl}]");
        world.check(&[
            ("web.Z", AAAA, &format!("NOERROR aa: / {soa}")),
            ("nope.Z", A, &format!("NXDOMAIN aa: / {soa}")),
        ]);
    }
}

#[test]
fn rule_22_a_static_record_hides_the_dynamic_name() {
    w0().check(&[
        ("both.Z", A, "NOERROR aa: [both.Z 30 A 192.0.2.117]"),
        ("both.Z", AAAA, NODATA),
    ]);
}

#[test]
fn rule_23_addresses_at_the_apex_stand_beside_soa_and_ns() {
    w0().check(&[
        ("Z", A, "NOERROR aa: [Z 30 A 192.0.2.21]"),
        ("Z", SOA, "NOERROR aa: [Z 30 SOA Z 5]"),
        ("Z", NS, "NOERROR aa: [Z 30 NS Z]"),
        ("Z", AAAA, NODATA),
        ("Z", DNSKEY, NODATA),
    ]);
    let empty = tsunaro_model::hosts::Hosts::default();
    world(&config(true), &empty)
        .check(&[("Z", A, NODATA), ("Z", SOA, "NOERROR aa: [Z 30 SOA Z 5]")]);
}

#[test]
fn rule_36_the_first_record_rotates_and_the_set_stays() {
    let firsts: Vec<String> = (0..6)
        .map(|rotation| {
            let query = match tsunaro_dns::query::parse(
                &ask("multi.Z", A).octets(),
                ClientTransport::Udp,
            ) {
                tsunaro_dns::query::Incoming::Query(query) => query,
                other => panic!("{other:?}"),
            };
            let reply = match tsunaro_dns::answer::answer(&w0().0, query, rotation) {
                tsunaro_dns::answer::Answer::Reply(reply) => reply,
                tsunaro_dns::answer::Answer::Forward(_) => panic!("forwarded"),
            };
            let answers = decode(&reply.octets).answers;
            let mut set: Vec<String> = answers
                .iter()
                .map(|record| record.data.to_string())
                .collect();
            let first = set[0].clone();
            set.sort();
            assert_eq!(set, ["192.0.2.18", "192.0.2.19", "192.0.2.20"]);
            first
        })
        .collect();
    let expected = ["192.0.2.18", "192.0.2.19", "192.0.2.20"];
    assert_eq!(firsts, [expected, expected].concat());
}

#[test]
fn rule_40_an_unread_hosts_file_is_servfail_not_ready() {
    const NOT_READY: &str = "SERVFAIL: ede 14";
    unread().check(&[
        ("web.Z", A, NOT_READY),
        ("nope.Z", TXT, NOT_READY),
        ("static.Z", A, "NOERROR aa: [static.Z 30 A 192.0.2.1]"),
        ("Z", SOA, "NOERROR aa: [Z 30 SOA Z 5]"),
        ("alias.Z", A, "SERVFAIL aa: [alias.Z 30 CNAME web.Z] ede 14"),
        ("svc.E", A, "SERVFAIL ra: ede 14"),
    ]);
}

#[test]
fn rule_41_the_soa_is_synthetic_and_names_no_name_that_could_collide() {
    let reply = w0().reply(&ask("Z", SOA), ClientTransport::Udp, |_| unreachable!());
    let message = decode(&reply.octets);
    let RData::SOA(soa) = &message.answers[0].data else {
        panic!("{message}")
    };
    assert_eq!(soa.rname.to_string(), "nobody.invalid.");
    assert_eq!(
        (soa.refresh, soa.retry, soa.expire, soa.minimum),
        (7200, 1800, 86_400, 5)
    );
}

#[test]
fn rule_42_the_soa_carries_the_snapshots_serial() {
    let reply = w0().reply(&ask("nope.Z", A), ClientTransport::Udp, |_| unreachable!());
    let message = decode(&reply.octets);
    let RData::SOA(soa) = &message.authorities[0].data else {
        panic!("{message}")
    };
    assert_eq!(soa.serial, SERIAL);
}

#[test]
fn rule_43_ttls_are_the_configured_ones() {
    let world = world(
        &tsunaro_model::config::DnsConfig {
            ttl: 77,
            ..config(true)
        },
        &hosts(),
    );
    world.check(&[
        ("web.Z", A, "NOERROR aa: [web.Z 77 A 192.0.2.10]"),
        ("static.Z", A, "NOERROR aa: [static.Z 77 A 192.0.2.1]"),
        ("nope.Z", A, "NOERROR aa: [nope.Z 77 A 192.0.2.200]"),
        ("Z", NS, "NOERROR aa: [Z 77 NS Z]"),
        ("Z", SOA, "NOERROR aa: [Z 77 SOA Z 5]"),
    ]);
}

#[test]
fn rule_72_no_dnssec_data_is_served_and_do_changes_only_its_bit() {
    for qtype in [DS, DNSKEY, RRSIG, NSEC] {
        w0().check(&[("web.Z", qtype, NODATA), ("Z", qtype, NODATA)]);
    }
    for (text, qtype) in [("web.Z", A), ("nope.Z", A), ("alias.Z", AAAA)] {
        let signed = w0().put(&ask(text, qtype).with(|opt| opt.flags = 0x8000));
        assert_eq!(signed, w0().ask(text, qtype));
    }
}

#[test]
fn rule_73_label_octets_are_opaque() {
    let odd = |labels: &[&[u8]]| {
        let mut query = ask("Z", A);
        let zone = std::mem::take(&mut query.name);
        for label in labels {
            query.name.push(u8::try_from(label.len()).unwrap());
            query.name.extend_from_slice(label);
        }
        query.name.extend(zone);
        query
    };
    for label in [
        b"a.b".as_slice(),
        b"a\x00b",
        b"\xff\xfe",
        b" ",
        b"web.",
        &[0x3f; 63],
    ] {
        assert!(
            w0().put(&odd(&[label])).starts_with("NXDOMAIN aa:"),
            "{label:02x?}"
        );
        assert!(
            w1().put(&odd(&[label])).ends_with("A 192.0.2.200]"),
            "{label:02x?}"
        );
    }
    // One label "a.b" is not the two labels of a.b.Z.
    assert!(w0().put(&odd(&[b"a", b"b"])).contains("192.0.2.15"));
}
