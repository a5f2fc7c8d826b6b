//! Section C: the wildcard.

use crate::fixture::{w0, w1};
use crate::message::ask;
use crate::message::rtype::*;

const NODATA: &str = "NOERROR aa: / [Z 5 SOA Z 5]";
const NXDOMAIN: &str = "NXDOMAIN aa: / [Z 5 SOA Z 5]";

#[test]
fn rule_12_the_wildcard_covers_any_depth_below_the_apex() {
    w1().check(&[
        ("nope.Z", A, "NOERROR aa: [nope.Z 30 A 192.0.2.200]"),
        (
            "a.b.c.nope.Z",
            A,
            "NOERROR aa: [a.b.c.nope.Z 30 A 192.0.2.200]",
        ),
    ]);
    w0().check(&[("nope.Z", A, NXDOMAIN)]);
}

#[test]
fn rule_13_an_existing_name_blocks_the_wildcard_for_all_types() {
    w1().check(&[
        ("web.Z", A, "NOERROR aa: [web.Z 30 A 192.0.2.10]"),
        ("web.Z", AAAA, NODATA),
        ("six.Z", A, NODATA),
        ("b.Z", A, NODATA),
        ("ent.static.Z", A, NODATA),
        ("static.Z", AAAA, NODATA),
    ]);
}

#[test]
fn rule_14_the_wildcard_does_not_apply_below_an_existing_name() {
    for qtype in [A, AAAA, TXT] {
        w1().check(&[
            ("x.web.Z", qtype, NXDOMAIN),
            ("x.b.Z", qtype, NXDOMAIN),
            ("y.x.ent.static.Z", qtype, NXDOMAIN),
            ("x.alias.Z", qtype, NXDOMAIN),
        ]);
    }
}

#[test]
fn rule_15_a_wildcard_name_without_the_type_is_nodata() {
    for qtype in [AAAA, TXT, HTTPS, CNAME, NS, SOA, DS, UNKNOWN] {
        w1().check(&[("nope.Z", qtype, NODATA)]);
    }
}

#[test]
fn rule_16_the_wildcards_own_name_and_the_apex() {
    w1().check(&[
        ("*.Z", A, "NOERROR aa: [*.Z 30 A 192.0.2.200]"),
        ("*.Z", AAAA, NODATA),
        ("x.*.Z", A, NXDOMAIN),
        ("Z", A, "NOERROR aa: [Z 30 A 192.0.2.21]"),
    ]);
    let mut query = ask("NoPe.Z", A);
    query.name[1] = b'n';
    let reply = w1().put(&query);
    assert!(
        reply.contains("[noPe.Z 30 A"),
        "the owner is the name as sent: {reply}"
    );
}

#[test]
fn rule_17_a_search_list_makes_foreign_names_match_the_wildcard() {
    w1().check(&[(
        "www.example.net.Z",
        A,
        "NOERROR aa: [www.example.net.Z 30 A 192.0.2.200]",
    )]);
}

#[test]
fn rule_18_dynamic_names_win_over_the_wildcard() {
    w1().check(&[("web.Z", A, "NOERROR aa: [web.Z 30 A 192.0.2.10]")]);
}
