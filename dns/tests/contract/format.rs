//! Section I: EDNS and the message format.

use tsunaro_dns::forwarding::{ClientTransport, Forwarded};

use crate::fixture::{w0, w1};
use crate::message::rtype::*;
use crate::message::{Ask, ask, decode, header, line, option};

fn raw(octets: &[u8]) -> String {
    match w0().raw(octets, ClientTransport::Udp, |_| unreachable!()) {
        Some(reply) => line(&reply.octets),
        None => "silence".into(),
    }
}

/// A query with sections put together freely.
fn assembled(counts: [u16; 4], sections: &[&[u8]]) -> String {
    raw(&[header(9, 0x0100, counts), sections.concat()].concat())
}

fn answered(query: &Ask) -> Vec<u8> {
    w0().reply(query, ClientTransport::Udp, |_| unreachable!())
        .octets
}

#[test]
fn rule_60_an_opt_is_answered_by_an_opt_of_ours_placed_last() {
    for size in [0, 512, 1232, 4096, 65535] {
        for flags in [0, 0x8000, 0x0080, 0xffff] {
            let query = ask("web.Z", A).with(|opt| (opt.size, opt.flags) = (size, flags));
            let octets = answered(&query);
            let opt = &octets[octets.len() - 11..];
            assert_eq!(opt[..5], [0, 0, 41, 0x04, 0xd0], "root, OPT, 1232");
            assert_eq!(
                opt[5..],
                [0, 0, (flags >> 8) as u8 & 0x80, 0, 0, 0],
                "NOERROR, version 0, DO alone, empty"
            );
        }
    }
    let plain = answered(&ask("web.Z", A).plain());
    assert_eq!(plain[10..12], [0, 0], "no OPT asked, none given");
}

#[test]
fn rule_60_another_edns_version_is_badvers() {
    for version in [1, 2, 255] {
        let octets = answered(&ask("web.Z", A).with(|opt| opt.version = version));
        assert_eq!(line(&octets), "BADVERS:");
    }
}

#[test]
fn rule_61_options_are_ignored_and_not_echoed() {
    let plain = w0().ask("web.Z", A);
    for (code, value) in [
        (10, vec![1; 8]),                  // COOKIE
        (3, vec![]),                       // NSID
        (8, vec![0, 1, 24, 0, 192, 0, 2]), // ECS
        (11, vec![]),                      // keepalive, meaningless over UDP
        (12, vec![0; 40]),                 // padding
        (65001, b"anything".to_vec()),
    ] {
        let octets = answered(&ask("web.Z", A).with(|opt| opt.options = option(code, &value)));
        assert_eq!(line(&octets), plain);
        assert_eq!(
            octets[octets.len() - 2..],
            [0, 0],
            "no option in the reply's OPT"
        );
    }
}

#[test]
fn rule_61_tcp_keepalive_is_answered_with_our_idle_time() {
    let query = ask("web.Z", A).with(|opt| opt.options = option(11, &[]));
    let octets = w0()
        .reply(&query, ClientTransport::Tcp, |_| unreachable!())
        .octets;
    assert_eq!(
        octets[octets.len() - 8..],
        [0, 6, 0, 11, 0, 2, 0, 100],
        "100 times 100 ms"
    );
}

#[test]
fn rule_62_udp_replies_are_cut_to_whole_records_with_tc() {
    for (query, limit) in [
        (ask("many.Z", A).plain(), 512),
        (ask("many.Z", A).with(|opt| opt.size = 0), 512),
        (ask("many.Z", A).with(|opt| opt.size = 100), 512),
        (ask("many.Z", A).with(|opt| opt.size = 700), 700),
        (ask("many.Z", A).with(|opt| opt.size = 1232), 1232),
        (ask("many.Z", A).with(|opt| opt.size = 4096), 1232),
        (ask("aliasmany.Z", A).plain(), 512),
    ] {
        let octets = answered(&query);
        let message = decode(&octets);
        assert!(message.metadata.truncation);
        assert!(
            octets.len() <= limit && octets.len() + 16 > limit,
            "{} of {limit}",
            octets.len()
        );
        assert!(message.authorities.is_empty());
    }
}

#[test]
fn rule_62_tcp_replies_are_whole() {
    let octets = w0()
        .reply(&ask("many.Z", A), ClientTransport::Tcp, |_| unreachable!())
        .octets;
    let message = decode(&octets);
    assert_eq!(
        (message.answers.len(), message.metadata.truncation),
        (200, false)
    );
}

#[test]
fn rule_62_an_answer_beyond_65535_octets_is_servfail_over_tcp_not_tc() {
    use hickory_proto::rr::rdata::TXT;
    use hickory_proto::rr::{RData, Record};
    let text = RData::TXT(TXT::new(vec!["x".repeat(255); 4]));
    let big = vec![Record::from_rdata(crate::message::hickory("big.E"), 9, text); 70];
    let answer = crate::fixture::forwarded(big);
    let reply = w0().reply(&ask("big.E", 16), ClientTransport::Tcp, |_| {
        Ok(answer.clone())
    });
    assert_eq!(line(&reply.octets), "SERVFAIL ra:");
    let reply = w0().reply(&ask("big.E", 16), ClientTransport::Udp, |_| {
        Ok(answer.clone())
    });
    assert!(line(&reply.octets).starts_with("NOERROR tc ra:"));
}

#[test]
fn rule_63_extended_errors_stand_on_error_replies_only() {
    for (text, qtype) in [
        ("web.Z", A),
        ("web.Z", AAAA),
        ("nope.Z", A),
        ("alias.Z", A),
        ("aliasout.Z", A),
    ] {
        let octets = answered(&ask(text, qtype));
        assert_eq!(
            octets[octets.len() - 2..],
            [0, 0],
            "{text}: the OPT is last and empty"
        );
    }
}

#[test]
fn rule_64_owners_repeat_the_question_byte_for_byte() {
    for text in ["wEb.Z", "NOPE.Z", "AlIaS.Z"] {
        let mut query = ask(text, A);
        query.name = query
            .name
            .iter()
            .enumerate()
            .map(|(i, octet)| {
                if i % 3 == 0 && *octet > 63 {
                    octet.to_ascii_uppercase()
                } else {
                    *octet
                }
            })
            .collect();
        let octets = w1()
            .reply(&query, ClientTransport::Udp, |_| unreachable!())
            .octets;
        let at = 12 + query.question().len();
        assert_eq!(octets[at..at + 2], [0xc0, 12], "a pointer to the question");
    }
}

#[test]
fn rule_64_a_forwarded_owner_in_another_case_repeats_the_question_too() {
    let mut query = ask("fwd.E", A);
    query.name[1] = b'F';
    let answer = crate::fixture::forwarded(vec![crate::fixture::a("fwd.E", "198.51.100.7")]);
    let octets = w0()
        .reply(&query, ClientTransport::Udp, |_| Ok(answer.clone()))
        .octets;
    assert_eq!(
        decode(&octets).answers[0].name.to_string(),
        "Fwd.corp.example.com."
    );
}

#[test]
fn rule_65_a_message_that_is_no_single_question_is_formerr() {
    let question = ask("web.Z", A).question();
    let opt = ask("web.Z", A).opt.unwrap().octets();
    let named_opt = [b"\x01x".as_slice(), &opt].concat();
    let pointed_opt = [&[0xc0, 12], &opt[1..]].concat();
    let soa = [&[0xc0, 12, 0, 6, 0, 1], [0; 4].as_slice(), &[0, 0]].concat();
    let q = question.as_slice();
    let formerr = "FORMERR:";
    type Case<'a> = ([u16; 4], &'a [&'a [u8]], &'a str);
    let cases: &[Case<'_>] = &[
        ([0, 0, 0, 0], &[], formerr),
        ([0, 0, 0, 1], &[&opt], formerr),
        ([2, 0, 0, 0], &[q, q], formerr),
        ([1, 0, 0, 0], &[], formerr),
        ([1, 0, 0, 0], &[&q[..q.len() - 1]], formerr),
        ([1, 0, 0, 0], &[&[0xc0, 12, 0, 1, 0, 1]], formerr),
        ([1, 0, 0, 0], &[&[0x40, 0, 0, 1, 0, 1]], formerr),
        ([1, 0, 0, 2], &[q, &opt, &opt], formerr),
        ([1, 1, 0, 0], &[q, &opt], formerr),
        ([1, 0, 1, 0], &[q, &opt], formerr),
        ([1, 0, 0, 1], &[q, &named_opt], formerr),
        ([1, 0, 0, 1], &[q, &pointed_opt], formerr),
        ([1, 0, 0, 1], &[q], formerr),
        ([1, 0, 0, 1], &[q, &opt[..opt.len() - 1]], formerr),
        ([1, 0, 0, 65535], &[q, &opt], formerr),
        (
            [1, 0, 1, 1],
            &[q, &soa, &opt],
            "NOERROR aa: [web.Z 30 A 192.0.2.10]",
        ),
        (
            [1, 0, 0, 2],
            &[q, &opt, &soa],
            "NOERROR aa: [web.Z 30 A 192.0.2.10]",
        ),
    ];
    for (counts, sections, expected) in cases {
        assert_eq!(
            &assembled(*counts, sections),
            expected,
            "{counts:?} {sections:02x?}"
        );
    }
    let broken = ask("web.Z", A).with(|opt| opt.options = vec![0, 10, 0, 9, 1]);
    assert_eq!(
        raw(&broken.octets()),
        formerr,
        "an option longer than its OPT"
    );
}

#[test]
fn rule_65_formerr_is_the_header_alone() {
    let reply = w0().raw(
        &header(0xabcd, 0x0110, [0; 4]),
        ClientTransport::Udp,
        |_| unreachable!(),
    );
    assert_eq!(reply.unwrap().octets, header(0xabcd, 0x8101, [0; 4]));
}

#[test]
fn rule_65_stray_bits_of_a_query_are_ignored() {
    let plain = w0().ask("web.Z", A);
    // AA, TC, RA, Z, AD and an RCODE.
    for bits in [0x0400, 0x0200, 0x0080, 0x0040, 0x0020, 0x0003, 0x07ff] {
        let octets = answered(&ask("web.Z", A).bits(0x0100 | bits));
        assert_eq!(line(&octets), plain, "bits {bits:04x}");
    }
}

#[test]
fn rule_66_other_opcodes_are_notimp_with_opcode_and_id_echoed() {
    for opcode in 1..16u16 {
        for octets in [
            ask("Z", SOA).bits(opcode << 11).octets(),
            header(0x1234, opcode << 11, [9, 9, 9, 9]),
        ] {
            let reply = w0()
                .raw(&octets, ClientTransport::Udp, |_| unreachable!())
                .unwrap()
                .octets;
            assert_eq!(reply, header(0x1234, 0x8004 | opcode << 11, [0; 4]));
        }
    }
}

#[test]
fn rule_67_other_classes_are_refused_and_disclose_nothing() {
    for qclass in [0, 2, 3, 4, 254, 255] {
        for text in [
            "version.bind",
            "id.server",
            "hostname.bind",
            "web.Z",
            "fwd.E",
        ] {
            let mut query = ask(text, TXT);
            query.qclass = qclass;
            assert_eq!(w0().put(&query), "REFUSED: ede 21");
        }
    }
}

#[test]
fn rule_68_zone_transfers_are_refused() {
    for qtype in [AXFR, IXFR] {
        for transport in [ClientTransport::Udp, ClientTransport::Tcp] {
            let reply = w0().reply(&ask("Z", qtype), transport, |_| unreachable!());
            assert_eq!(line(&reply.octets), "REFUSED: ede 21");
        }
    }
}

#[test]
fn rule_68_a_signed_query_is_answered_unsigned() {
    let tsig = [
        b"\x03key\x00\x00\xfa\x00\xff\0\0\0\0\x00\x10".as_slice(),
        &[7; 16],
    ]
    .concat();
    let reply = assembled([1, 0, 0, 1], &[&ask("web.Z", A).question(), &tsig]);
    assert_eq!(reply, "NOERROR aa: [web.Z 30 A 192.0.2.10]");
}

#[test]
fn rule_77_refusals_are_small() {
    let query = ask("example.org", A);
    let octets = answered(&query);
    assert!(
        octets.len() <= query.octets().len() + 6,
        "the question, an OPT, one code"
    );
}

#[test]
fn rule_7_meta_types_that_are_no_data_are_errors() {
    for (qtype, expected) in [
        (41, "FORMERR:"),
        (250, "FORMERR:"),
        (128, "FORMERR:"),
        (249, "NOTIMP:"),
        (253, "NOTIMP:"),
        (254, "NOTIMP:"),
    ] {
        assert_eq!(w0().ask("web.Z", qtype), expected, "type {qtype}");
    }
}

#[test]
fn rule_62_an_authority_section_that_does_not_fit_is_left_out_whole() {
    use hickory_proto::rr::rdata::TXT;
    use hickory_proto::rr::{RData, Record};
    let proof = RData::TXT(TXT::new(vec!["x".repeat(255)]));
    let proofs = vec![Record::from_rdata(crate::message::hickory("E"), 9, proof); 4];
    let authority = [vec![crate::fixture::soa("E")], proofs].concat();
    let answer = vec![crate::fixture::cname("nx.E", "y.E")];
    let negative = Forwarded {
        authority,
        ..crate::fixture::forwarded(answer)
    };
    let query = ask("nx.E", A).with(|opt| opt.size = 600);
    let reply = w0().reply(&query, ClientTransport::Udp, |_| Ok(negative.clone()));
    assert_eq!(line(&reply.octets), "NOERROR tc ra: [nx.E 20 CNAME y.E]");
}
