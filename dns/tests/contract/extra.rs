//! Section H as far as replies go: overrides, and what upstreams said, sent on.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use tsunaro_dns::forwarding::{ClientTransport, ExtendedError, Failure, Forwarded};

use crate::fixture::{a, cname, forwarded, soa, unread, w0, w1};
use crate::message::rtype::*;
use crate::message::{Ask, ask, decode, extended_errors, hickory, line};

const NODATA_OF_E: &str = "NOERROR aa ra: / [E 5 SOA E 5]";

fn upstream_gives(query: &Ask, result: &Result<Forwarded, Failure>) -> String {
    let mut asked = 0;
    let reply = w0().forward(query, |_| {
        asked += 1;
        result.clone()
    });
    assert_eq!(asked, 1);
    reply
}

#[test]
fn rule_44_an_override_is_answered_locally_and_its_missing_family_too() {
    w0().check(&[
        ("svc.E", A, "NOERROR aa ra: [svc.E 30 A 198.51.100.30]"),
        ("svc.E", AAAA, NODATA_OF_E),
        ("six.E", AAAA, "NOERROR aa ra: [six.E 30 AAAA 2001:db8::31]"),
        ("six.E", A, NODATA_OF_E),
    ]);
}

#[test]
fn rule_45_other_types_of_an_override_are_forwarded() {
    for qtype in [TXT, HTTPS, 64, 15, SOA, NS, CNAME, DS, UNKNOWN] {
        let reply = upstream_gives(&ask("svc.E", qtype), &Ok(forwarded(vec![])));
        assert_eq!(reply, "NOERROR ra:", "type {qtype}");
    }
}

#[test]
fn rule_46_all_other_names_of_an_extra_zone_are_forwarded() {
    for text in ["E", "fwd.E", "x.svc.E", "y.x.svc.E", "*.E"] {
        for qtype in [A, AAAA, TXT, ANY] {
            let reply = upstream_gives(&ask(text, qtype), &Ok(forwarded(vec![])));
            assert_eq!(reply, "NOERROR ra:", "{text} type {qtype}");
        }
    }
}

#[test]
fn rule_47_the_question_goes_on_with_its_case_and_bits() {
    let mut query = ask("fwd.E", TXT)
        .bits(0x0130)
        .with(|opt| opt.flags = 0x8000);
    query.name[1] = b'F';
    let mut seen = None;
    w0().forward(&query, |question| {
        seen = Some(question.clone());
        Ok(forwarded(vec![]))
    });
    let question = seen.unwrap();
    assert_eq!(question.name.to_string(), "Fwd.corp.example.com.");
    assert_eq!(question.qtype, RecordType::TXT);
    assert!(question.recursion_desired && question.checking_disabled);
    assert!(question.authentic_data && question.dnssec_ok);
    let mut seen = None;
    w0().forward(&ask("fwd.E", A).bits(0).plain(), |question| {
        seen = Some(question.clone());
        Ok(forwarded(vec![]))
    });
    let question = seen.unwrap();
    assert!(!question.recursion_desired && !question.checking_disabled);
    assert!(!question.authentic_data && !question.dnssec_ok);
}

#[test]
fn rule_48_a_truncated_answer_is_tc_over_udp_and_servfail_over_tcp() {
    let cut = Forwarded {
        truncated: true,
        ..forwarded(vec![a("fwd.E", "198.51.100.7")])
    };
    let reply = upstream_gives(&ask("fwd.E", A), &Ok(cut.clone()));
    assert_eq!(reply, "NOERROR tc ra: [fwd.E 20 A 198.51.100.7]");
    let reply = w0().reply(&ask("fwd.E", A), ClientTransport::Tcp, |_| Ok(cut.clone()));
    assert_eq!(line(&reply.octets), "SERVFAIL ra: ede 22");
}

// Holds rule 52.
#[test]
fn rule_51_failures_are_servfail_with_the_reason() {
    let upstream = |extended| Failure::Upstream {
        rcode: ResponseCode::ServFail,
        extended,
    };
    let theirs = ExtendedError {
        code: 9,
        text: "DNSKEY missing".into(),
    };
    for (failure, ede) in [
        (Failure::Timeout, 22),
        (Failure::Network, 23),
        (upstream(None), 22),
        (upstream(Some(theirs.clone())), 9),
        (Failure::Overloaded, 0),
    ] {
        assert_eq!(
            upstream_gives(&ask("fwd.E", A), &Err(failure)),
            format!("SERVFAIL ra: ede {ede}")
        );
    }
    let reply = w0().reply(&ask("fwd.E", A), ClientTransport::Udp, |_| {
        Err(upstream(Some(theirs.clone())))
    });
    assert_eq!(
        extended_errors(&decode(&reply.octets)),
        [(9, "DNSKEY missing".to_owned())]
    );
    assert_eq!(
        upstream_gives(&ask("fwd.E", A).plain(), &Err(Failure::Timeout)),
        "SERVFAIL ra:"
    );
}

#[test]
fn rule_51_an_endless_error_text_is_cut_at_a_character() {
    let text = "ü".repeat(5000);
    let extended = Some(ExtendedError { code: 0, text });
    let failure = Failure::Upstream {
        rcode: ResponseCode::ServFail,
        extended,
    };
    let reply = w0().reply(&ask("fwd.E", A), ClientTransport::Udp, |_| {
        Err(failure.clone())
    });
    let texts = extended_errors(&decode(&reply.octets));
    assert_eq!(texts, [(0, "ü".repeat(64))]);
}

#[test]
fn rule_54_a_forwarded_answer_is_not_authoritative_and_carries_ad_as_given() {
    let answer = vec![
        cname("fwd.E", "cdn.example.net"),
        a("cdn.example.net", "203.0.113.9"),
    ];
    let reply = upstream_gives(&ask("fwd.E", A), &Ok(forwarded(answer.clone())));
    assert_eq!(
        reply,
        "NOERROR ra: [fwd.E 20 CNAME cdn.example.net.] [cdn.example.net. 20 A 203.0.113.9]"
    );
    let signed = Forwarded {
        authentic_data: true,
        ..forwarded(answer)
    };
    let reply = upstream_gives(&ask("fwd.E", A).with(|opt| opt.flags = 0x8000), &Ok(signed));
    assert!(reply.starts_with("NOERROR ra ad:"), "{reply}");
    let negative = Forwarded {
        rcode: ResponseCode::NXDomain,
        authority: vec![soa("E")],
        ..forwarded(vec![])
    };
    assert_eq!(
        upstream_gives(&ask("nx.E", A), &Ok(negative)),
        "NXDOMAIN ra: / [E 10 SOA ns.E 10]"
    );
}

#[test]
fn rule_54_records_of_any_type_survive() {
    use hickory_proto::rr::rdata::{HTTPS, MX, NULL, SVCB, TXT};
    use hickory_proto::rr::{RData, Record};
    let mx = RData::MX(MX::new(10, hickory("mail.E")));
    let txt = RData::TXT(TXT::new(vec!["from upstream".into(), "é".into()]));
    let https = RData::HTTPS(HTTPS(SVCB::new(1, hickory("svc.E"), vec![])));
    let unknown = RData::Unknown {
        code: RecordType::Unknown(65280),
        rdata: NULL::with(vec![0, 1, 2, 255]),
    };
    for data in [mx, txt, https, unknown] {
        let record = Record::from_rdata(hickory("any.E"), 17, data);
        let query = ask("any.E", u16::from(record.record_type()));
        let reply = w0().reply(&query, ClientTransport::Udp, |_| {
            Ok(forwarded(vec![record.clone()]))
        });
        assert_eq!(decode(&reply.octets).answers, [record]);
    }
}

#[test]
fn rule_55_a_chain_that_enters_our_zone_is_continued_locally() {
    let enter = |target: &str| Forwarded {
        continue_at: Some(hickory(target)),
        ..forwarded(vec![cname("fwd.E", target)])
    };
    for (target, rest) in [
        (
            "web.Z",
            "NOERROR ra: [fwd.E 20 CNAME web.Z] [web.Z 30 A 192.0.2.10]",
        ),
        (
            "six.Z",
            "NOERROR ra: [fwd.E 20 CNAME six.Z] / [Z 5 SOA Z 5]",
        ),
        (
            "nope.Z",
            "NXDOMAIN ra: [fwd.E 20 CNAME nope.Z] / [Z 5 SOA Z 5]",
        ),
        (
            "alias.Z",
            "NOERROR ra: [fwd.E 20 CNAME alias.Z] [alias.Z 30 CNAME web.Z] [web.Z 30 A 192.0.2.10]",
        ),
        (
            "aliasextra.Z",
            "NOERROR ra: [fwd.E 20 CNAME aliasextra.Z] [aliasextra.Z 30 CNAME svc.E] [svc.E 30 A 198.51.100.30]",
        ),
        (
            "aliasout.Z",
            "NOERROR ra: [fwd.E 20 CNAME aliasout.Z] [aliasout.Z 30 CNAME host.example.org.]",
        ),
    ] {
        assert_eq!(upstream_gives(&ask("fwd.E", A), &Ok(enter(target))), rest);
    }
    let reply = w1().forward(&ask("fwd.E", A), |_| Ok(enter("nope.Z")));
    assert_eq!(
        reply,
        "NOERROR ra: [fwd.E 20 CNAME nope.Z] [nope.Z 30 A 192.0.2.200]"
    );
}

#[test]
fn rule_55_a_chain_may_come_back_once_more_to_upstreams() {
    let mut names = vec![];
    let reply = w0().forward(&ask("first.E", A), |question| {
        names.push(question.name.to_string());
        Ok(if names.len() == 1 {
            let continue_at = Some(hickory("aliasfwd.Z"));
            Forwarded {
                continue_at,
                ..forwarded(vec![cname("first.E", "aliasfwd.Z")])
            }
        } else {
            forwarded(vec![a("fwd.E", "198.51.100.7")])
        })
    });
    assert_eq!(names, ["first.corp.example.com.", "fwd.corp.example.com."]);
    let expected = "NOERROR ra: [first.E 20 CNAME aliasfwd.Z] [aliasfwd.Z 30 CNAME fwd.E] [fwd.E 20 A 198.51.100.7]";
    assert_eq!(reply, expected);
}

#[test]
fn rule_55_an_alias_of_upstream_into_an_override_is_not_rewritten() {
    let answer = vec![cname("fwd.E", "svc.E"), a("svc.E", "203.0.113.30")];
    let reply = upstream_gives(&ask("fwd.E", A), &Ok(forwarded(answer)));
    assert_eq!(
        reply,
        "NOERROR ra: [fwd.E 20 CNAME svc.E] [svc.E 20 A 203.0.113.30]"
    );
}

#[test]
fn rule_57_a_stale_answer_says_so() {
    let stale = Forwarded {
        stale: true,
        ..forwarded(vec![a("fwd.E", "198.51.100.7")])
    };
    assert_eq!(
        upstream_gives(&ask("fwd.E", A), &Ok(stale)),
        "NOERROR ra: [fwd.E 20 A 198.51.100.7] ede 3"
    );
}

#[test]
fn rule_40_overrides_unknown_yet_are_not_leaked_to_upstreams() {
    unread().check(&[
        ("fwd.E", A, "SERVFAIL ra: ede 14"),
        ("fwd.E", ANY, "SERVFAIL ra: ede 14"),
    ]);
    let reply = unread().forward(&ask("fwd.E", TXT), |_| Ok(forwarded(vec![])));
    assert_eq!(reply, "NOERROR ra:");
}

#[test]
fn rule_69_any_gives_one_rrset_and_never_nothing_for_a_name_with_data() {
    w1().check(&[
        ("db.Z", ANY, "NOERROR aa: [db.Z 30 A 192.0.2.11]"),
        ("six.Z", ANY, "NOERROR aa: [six.Z 30 AAAA 2001:db8::12]"),
        ("alias.Z", ANY, "NOERROR aa: [alias.Z 30 CNAME web.Z]"),
        ("Z", ANY, "NOERROR aa: [Z 30 SOA Z 5]"),
        ("nope.Z", ANY, "NOERROR aa: [nope.Z 30 A 192.0.2.200]"),
        ("svc.E", ANY, "NOERROR aa ra: [svc.E 30 A 198.51.100.30]"),
        ("six.E", ANY, "NOERROR aa ra: [six.E 30 AAAA 2001:db8::31]"),
    ]);
    assert_eq!(
        upstream_gives(&ask("fwd.E", ANY), &Ok(forwarded(vec![]))),
        "NOERROR ra:"
    );
}

#[test]
fn rule_70_ra_stands_for_extra_zones_and_cd_only_on_what_was_forwarded() {
    let all_bits = 0x0130;
    for (text, expected) in [
        ("web.Z", "NOERROR aa: [web.Z 30 A 192.0.2.10]"),
        ("svc.E", "NOERROR aa ra: [svc.E 30 A 198.51.100.30]"),
        ("example.org", "REFUSED: ede 20"),
    ] {
        assert_eq!(w0().put(&ask(text, A).bits(all_bits)), expected);
        // RD is copied as it is: the fixture compares it for every reply.
        assert_eq!(w0().put(&ask(text, A).bits(0)), expected);
    }
    let query = ask("fwd.E", A).bits(all_bits);
    assert_eq!(
        upstream_gives(&query, &Ok(forwarded(vec![]))),
        "NOERROR ra cd:"
    );
    assert_eq!(
        upstream_gives(&query, &Err(Failure::Timeout)),
        "SERVFAIL ra cd: ede 22"
    );
}
