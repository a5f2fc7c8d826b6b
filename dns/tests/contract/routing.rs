//! Section A: which zone, if any, a query goes to.

use tsunaro_dns::forwarding::ClientTransport;

use crate::fixture::{config, forwarded, hosts, unread, w0, world};
use crate::message::rtype::{A, AAAA, NS, SOA, TXT};
use crate::message::{ask, header};

const REFUSED: &str = "REFUSED: ede 20";

#[test]
fn rule_1_short_messages_and_responses_are_dropped_silently() {
    let drop = |octets: &[u8]| {
        for transport in [ClientTransport::Udp, ClientTransport::Tcp] {
            assert!(
                w0().raw(octets, transport, |_| unreachable!()).is_none(),
                "{octets:02x?}"
            );
        }
    };
    drop(&[]);
    drop(&ask("web.Z", A).octets()[..11]);
    drop(&ask("web.Z", A).bits(0x8100).octets());
    drop(&header(7, 0x8000, [0; 4]));
    drop(&header(7, 0xf800, [2, 2, 2, 2]));
}

#[test]
fn rule_1_errors_are_found_in_the_contracts_order() {
    let mut everything = ask("example.org", 252);
    everything.qclass = 3;
    everything.bits = 0x7900;
    let everything = everything.with(|opt| opt.version = 1);
    let reply = w0()
        .raw(
            &everything.octets(),
            ClientTransport::Udp,
            |_| unreachable!(),
        )
        .unwrap();
    assert_eq!(
        crate::message::line(&reply.octets),
        "NOTIMP:",
        "the opcode comes first"
    );
    let query = everything.bits(0x0100);
    assert_eq!(w0().put(&query), "BADVERS:", "then EDNS");
    let query = query.with(|opt| opt.version = 0);
    assert_eq!(w0().put(&query), "REFUSED: ede 21", "then the class");
}

#[test]
fn rule_1_zones_are_matched_by_label_and_without_case() {
    w0().check(&[
        ("xprod-1.tailnet.example.internal", A, REFUSED),
        ("x.xprod-1.tailnet.example.internal", A, REFUSED),
        ("notcorp.example.com", A, REFUSED),
        (
            "PROD-1.Tailnet.Example.INTERNAL",
            A,
            "NOERROR aa: [PROD-1.Tailnet.Example.INTERNAL. 30 A 192.0.2.21]",
        ),
    ]);
}

#[test]
fn rule_2_names_in_no_zone_are_refused() {
    w0().check(&[
        (".", A, REFUSED),
        ("example.org", A, REFUSED),
        ("localhost", A, REFUSED),
        ("printer.local", AAAA, REFUSED),
        ("x.test", TXT, REFUSED),
        ("tailnet.example.internal", SOA, REFUSED),
        ("internal", NS, REFUSED),
        ("example.com", A, REFUSED),
        ("_dns.resolver.arpa", 64, REFUSED),
    ]);
    assert_eq!(
        w0().put(&ask("example.org", A).plain()),
        "REFUSED:",
        "no OPT, no extended error"
    );
}

#[test]
fn rule_3_the_health_probe_of_forwarders_is_always_answered() {
    w0().check(&[(".", NS, REFUSED)]);
    assert_eq!(unread().ask(".", NS), REFUSED);
}

#[test]
fn rule_4_a_zone_matches_whatever_case_it_was_configured_in() {
    let mut config = config(false);
    config.zone =
        tsunaro_model::name::DnsName::parse_host("Prod-1.TAILNET.example.internal").unwrap();
    let world = world(&config, &hosts());
    world.check(&[("web.Z", A, "NOERROR aa: [web.Z 30 A 192.0.2.10]")]);
}

#[test]
fn rule_34_foreign_names_of_the_hosts_file_are_not_served() {
    w0().check(&[("outside.example.org", A, REFUSED)]);
}

#[test]
fn rule_81_reverse_lookups_are_refused_unless_they_are_an_extra_zone() {
    w0().check(&[
        ("10.2.0.192.in-addr.arpa", 12, REFUSED),
        ("1.0.64.100.in-addr.arpa", 12, REFUSED),
        ("8.b.d.0.1.0.0.2.ip6.arpa", 12, REFUSED),
    ]);
    let mut config = config(false);
    config.extra_zones[0].zone = crate::message::name("2.0.192.in-addr.arpa");
    let world = world(&config, &hosts());
    let query = ask("10.2.0.192.in-addr.arpa", 12);
    let mut asked = 0;
    let octets = query.octets();
    let tsunaro_dns::query::Incoming::Query(query) =
        tsunaro_dns::query::parse(&octets, ClientTransport::Udp)
    else {
        panic!("a query");
    };
    if let tsunaro_dns::answer::Answer::Forward(job) =
        tsunaro_dns::answer::answer(&world.0, query, 0)
    {
        asked += 1;
        tsunaro_dns::answer::finish(*job, Ok(forwarded(vec![])));
    }
    assert_eq!(asked, 1);
}
