//! Section E: aliases of the primary zone.

use hickory_proto::op::ResponseCode;
use tsunaro_dns::forwarding::{ClientTransport, Failure, Forwarded};
use tsunaro_model::config::{StaticData, StaticRecord};
use tsunaro_model::hosts::Hosts;

use crate::fixture::{a, cname, config, forwarded, hosts, soa, w0, w1, world};
use crate::message::rtype::*;
use crate::message::{ask, decode, hickory, name};

const SOA_OF_Z: &str = "/ [Z 5 SOA Z 5]";

#[test]
fn rule_24_the_alias_alone_for_its_own_type_and_the_chain_in_order_for_others() {
    w0().check(&[
        ("alias.Z", CNAME, "NOERROR aa: [alias.Z 30 CNAME web.Z]"),
        ("alias.Z", ANY, "NOERROR aa: [alias.Z 30 CNAME web.Z]"),
        ("alias.Z", A, "NOERROR aa: [alias.Z 30 CNAME web.Z] [web.Z 30 A 192.0.2.10]"),
        (
            "chain1.Z",
            A,
            "NOERROR aa: [chain1.Z 30 CNAME chain2.Z] [chain2.Z 30 CNAME alias.Z] [alias.Z 30 CNAME web.Z] [web.Z 30 A 192.0.2.10]",
        ),
    ]);
}

#[test]
fn rule_25_the_rcode_is_that_of_the_last_link() {
    let nodata = format!("NOERROR aa: [alias.Z 30 CNAME web.Z] {SOA_OF_Z}");
    let missing = format!("NXDOMAIN aa: [dangling.Z 30 CNAME nothere.Z] {SOA_OF_Z}");
    w0().check(&[
        ("alias.Z", AAAA, &nodata),
        ("alias.Z", TXT, &nodata),
        ("dangling.Z", A, &missing),
    ]);
    w1().check(&[
        (
            "dangling.Z",
            A,
            "NOERROR aa: [dangling.Z 30 CNAME nothere.Z] [nothere.Z 30 A 192.0.2.200]",
        ),
        (
            "dangling.Z",
            TXT,
            &format!("NOERROR aa: [dangling.Z 30 CNAME nothere.Z] {SOA_OF_Z}"),
        ),
    ]);
}

#[test]
fn rule_26_a_vanished_target_is_nxdomain_or_the_wildcard_never_servfail() {
    let gone = Hosts::default();
    let expected = format!("NXDOMAIN aa: [alias.Z 30 CNAME web.Z] {SOA_OF_Z}");
    world(&config(false), &gone).check(&[("alias.Z", A, &expected)]);
    let covered = "NOERROR aa: [alias.Z 30 CNAME web.Z] [web.Z 30 A 192.0.2.200]";
    world(&config(true), &gone).check(&[("alias.Z", A, covered)]);
}

#[test]
fn rule_27_a_target_in_an_extra_zone_is_resolved_in_the_same_answer() {
    w0().check(&[
        (
            "aliasextra.Z",
            A,
            "NOERROR aa: [aliasextra.Z 30 CNAME svc.E] [svc.E 30 A 198.51.100.30]",
        ),
        (
            "aliasextra.Z",
            AAAA,
            "NOERROR aa: [aliasextra.Z 30 CNAME svc.E] / [E 5 SOA E 5]",
        ),
    ]);
    let query = ask("aliasfwd.Z", A);
    let reply = w0().forward(&query, |question| {
        assert_eq!(question.name, hickory("fwd.E"));
        Ok(forwarded(vec![a("fwd.E", "198.51.100.7")]))
    });
    assert_eq!(
        reply,
        "NOERROR aa: [aliasfwd.Z 30 CNAME fwd.E] [fwd.E 20 A 198.51.100.7]"
    );
    let negative = Forwarded {
        rcode: ResponseCode::NXDomain,
        authority: vec![soa("E")],
        authentic_data: true,
        ..forwarded(vec![])
    };
    let reply = w0().forward(&query, |_| Ok(negative.clone()));
    assert_eq!(
        reply,
        "NXDOMAIN aa: [aliasfwd.Z 30 CNAME fwd.E] / [E 10 SOA ns.E 10]"
    );
}

#[test]
fn rule_28_when_upstreams_fail_the_alias_stays_in_a_servfail() {
    for (failure, ede) in [(Failure::Timeout, 22), (Failure::Network, 23)] {
        let reply = w0().forward(&ask("aliasfwd.Z", A), |_| Err(failure.clone()));
        assert_eq!(
            reply,
            format!("SERVFAIL aa: [aliasfwd.Z 30 CNAME fwd.E] ede {ede}")
        );
    }
}

#[test]
fn rule_29_a_target_outside_all_zones_is_a_bare_alias() {
    let bare = "NOERROR aa: [aliasout.Z 30 CNAME host.example.org.]";
    w0().check(&[
        ("aliasout.Z", A, bare),
        ("aliasout.Z", TXT, bare),
        ("aliasout.Z", CNAME, bare),
    ]);
}

#[test]
fn rule_30_more_than_eight_links_or_a_circle_is_servfail_with_an_empty_answer() {
    let alias = |from: String, to: String| StaticRecord {
        name: name(&from),
        data: StaticData::Alias(name(&to)),
    };
    let mut config = config(false);
    config.static_records = (0..12)
        .map(|i| alias(format!("l{i}.Z"), format!("l{}.Z", i + 1)))
        .collect();
    config
        .static_records
        .push(alias("x.Z".into(), "y.Z".into()));
    config
        .static_records
        .push(alias("y.Z".into(), "x.Z".into()));
    config
        .static_records
        .push(alias("self.Z".into(), "self.Z".into()));
    let world = world(&config, &hosts());
    world.check(&[
        ("l0.Z", A, "SERVFAIL: ede 0"),
        ("l3.Z", A, "SERVFAIL: ede 0"),
        ("x.Z", A, "SERVFAIL: ede 0"),
        ("self.Z", A, "SERVFAIL: ede 0"),
    ]);
    assert!(
        world
            .ask("l4.Z", A)
            .starts_with("NXDOMAIN aa: [l4.Z 30 CNAME l5.Z]"),
        "8 links are fine"
    );
}

#[test]
fn rule_30_links_of_upstreams_count_and_a_circle_through_them_ends() {
    // aliasfwd.Z -> fwd.E -> back.Z -> aliasfwd.Z
    let mut asked = 0;
    let reply = w0().forward(&ask("aliasfwd.Z", A), |_| {
        asked += 1;
        let continue_at = Some(hickory("back.Z"));
        Ok(Forwarded {
            continue_at,
            ..forwarded(vec![cname("fwd.E", "back.Z")])
        })
    });
    assert_eq!((reply.as_str(), asked), ("SERVFAIL: ede 0", 1));
    // Ever new names: the count ends it.
    let mut asked = 0;
    let reply = w0().forward(&ask("n0.E", A), |question| {
        asked += 1;
        let owner = question.name.to_string();
        let links =
            (0..5).map(|i| cname(&format!("n{asked}x{i}.E"), &format!("n{asked}x{}.E", i + 1)));
        let mut answer: Vec<_> = links.collect();
        answer.insert(
            0,
            cname(owner.trim_end_matches('.'), &format!("n{asked}x0.E")),
        );
        answer.push(cname(&format!("n{asked}x5.E"), "back.Z"));
        Ok(Forwarded {
            continue_at: Some(hickory("back.Z")),
            ..forwarded(answer)
        })
    });
    assert_eq!((reply.as_str(), asked), ("SERVFAIL ra: ede 0", 1));
}

#[test]
fn rule_24_a_long_chain_keeps_its_order_and_its_names_when_compressed() {
    let reply = w0().reply(
        &ask("chain1.Z", A),
        ClientTransport::Udp,
        |_| unreachable!(),
    );
    let message = decode(&reply.octets);
    let owners: Vec<String> = message
        .answers
        .iter()
        .map(|record| crate::message::short(&record.name))
        .collect();
    assert_eq!(owners, ["chain1.Z", "chain2.Z", "alias.Z", "web.Z"]);
    assert!(
        reply.octets.len() < 180,
        "compressed: {} octets",
        reply.octets.len()
    );
}
