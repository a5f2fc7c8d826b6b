//! What holds for any octets and any question.

use hickory_proto::op::Message;
use hickory_proto::rr::{RData, RecordType};
use proptest::prelude::*;
use tsunaro_dns::forwarding::{ClientTransport, Failure, Forwarded};

use crate::fixture::{a, cname, forwarded, soa, unread, w0, w1};
use crate::message::{Ask, Opt, ask, hickory, name};

fn transport() -> impl Strategy<Value = ClientTransport> {
    prop::sample::select(vec![ClientTransport::Udp, ClientTransport::Tcp])
}

fn upstream() -> impl Strategy<Value = Result<Forwarded, Failure>> {
    let many = (0..120)
        .map(|i| a("fwd.E", &format!("198.51.100.{i}")))
        .collect();
    prop_oneof![
        Just(Ok(forwarded(vec![a("fwd.E", "198.51.100.7")]))),
        Just(Ok(forwarded(many))),
        Just(Ok(Forwarded {
            authority: vec![soa("E")],
            ..forwarded(vec![])
        })),
        Just(Ok(Forwarded {
            truncated: true,
            ..forwarded(vec![])
        })),
        Just(Ok(Forwarded {
            continue_at: Some(hickory("many.Z")),
            ..forwarded(vec![cname("fwd.E", "many.Z")])
        })),
        Just(Err(Failure::Timeout)),
    ]
}

fn labels() -> impl Strategy<Value = Vec<u8>> {
    let label = prop_oneof![
        prop::sample::select(vec![
            "web",
            "many",
            "aliasmany",
            "alias",
            "nope",
            "b",
            "a",
            "fwd",
            "svc",
            "six",
            "*"
        ])
        .prop_map(|label| label.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..=63),
    ];
    let zone = prop::sample::select(vec!["Z", "E", "example.org", ""]);
    (prop::collection::vec(label, 0..3), zone).prop_filter_map(
        "at most 255 octets",
        |(labels, zone)| {
            let mut wire: Vec<u8> = labels
                .iter()
                .flat_map(|label| [&[label.len() as u8], label.as_slice()].concat())
                .collect();
            wire.extend(crate::message::wire(zone));
            (wire.len() <= 255).then_some(wire)
        },
    )
}

fn query() -> impl Strategy<Value = Ask> {
    let opt = prop::option::of((any::<u16>(), any::<u16>(), 0u8..2).prop_map(
        |(size, flags, version)| Opt {
            size,
            version,
            flags,
            options: vec![],
        },
    ));
    let qtype = prop_oneof![
        prop::sample::select(vec![1, 28, 5, 6, 2, 16, 255, 65, 252]),
        any::<u16>()
    ];
    let qclass = prop_oneof![9 => Just(1u16), 1 => any::<u16>()];
    let bits = any::<u16>().prop_map(|bits| bits & !0xf800);
    (labels(), qtype, qclass, bits, any::<u16>(), opt).prop_map(
        |(name, qtype, qclass, bits, id, opt)| Ask {
            id,
            bits,
            name,
            qtype,
            qclass,
            opt,
        },
    )
}

fn limit(transport: ClientTransport, query: &Ask) -> usize {
    match (transport, &query.opt) {
        (ClientTransport::Tcp, _) => 65_535,
        (ClientTransport::Udp, None) => 512,
        (ClientTransport::Udp, Some(opt)) => usize::from(opt.size).clamp(512, 1232),
    }
}

/// A valid reply to `octets`, or the silence that rule 1 asks for.
fn valid(octets: &[u8], reply: Option<&[u8]>) -> Result<(), TestCaseError> {
    let silent = octets.len() < 12 || octets[2] & 0x80 != 0;
    prop_assert_eq!(reply.is_none(), silent);
    let Some(reply) = reply else { return Ok(()) };
    prop_assert_eq!(&reply[..2], &octets[..2]);
    prop_assert_eq!(
        reply[2] & 0xf8,
        0x80 | (octets[2] & 0x78),
        "QR and the opcode"
    );
    prop_assert!(Message::from_vec(reply).is_ok(), "{:02x?}", reply);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn rule_78_any_octets_get_a_valid_reply_or_silence(
        octets in prop::collection::vec(any::<u8>(), 0..600),
        transport in transport(),
    ) {
        let reply = w1().raw(&octets, transport, |_| Err(Failure::Timeout));
        valid(&octets, reply.as_ref().map(|reply| reply.octets.as_slice()))?;
    }

    #[test]
    fn rule_78_a_query_with_octets_changed_gets_a_valid_reply_or_silence(
        query in query(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
        upstream in upstream(),
        transport in transport(),
    ) {
        let mut octets = query.octets();
        for (at, value) in changes {
            let at = at.index(octets.len());
            octets[at] = value;
        }
        if cuts {
            octets.truncate(cut.index(octets.len()));
        }
        let reply = w1().raw(&octets, transport, |_| upstream.clone());
        valid(&octets, reply.as_ref().map(|reply| reply.octets.as_slice()))?;
    }

    #[test]
    fn rule_62_no_reply_exceeds_its_limit_and_tc_stays_off_tcp(
        query in query(),
        upstream in upstream(),
        transport in transport(),
    ) {
        for world in [w0(), w1(), unread()] {
            let reply = world.reply(&query, transport, |_| upstream.clone());
            prop_assert!(reply.octets.len() <= limit(transport, &query));
            let tc = reply.octets[2] & 0x02 != 0;
            prop_assert_eq!(tc, reply.truncated);
            prop_assert!(!(tc && transport == ClientTransport::Tcp));
        }
    }

    #[test]
    fn rule_11_every_local_negative_answer_has_one_soa(query in query(), transport in transport()) {
        let reply = w1().reply(&query, transport, |_| Err(Failure::Timeout));
        let message = Message::from_vec(&reply.octets).unwrap();
        let rcode = u16::from(message.metadata.response_code);
        let aliases_alone = message.answers.iter().all(|record| record.record_type() == RecordType::CNAME);
        // Asked for itself, or leading out of all zones, an alias is an answer.
        let alias_answers = matches!(query.qtype, 5 | 255) || {
            let outside = hickory("host.example.org");
            message.answers.iter().any(|record| matches!(&record.data, RData::CNAME(target) if target.0 == outside))
        };
        let no_data = rcode == 0
            && message.metadata.authoritative
            && aliases_alone
            && (message.answers.is_empty() || !alias_answers)
            && !reply.truncated;
        let soas = message.authorities.iter().filter(|record| record.record_type() == RecordType::SOA).count();
        if rcode == 3 || no_data {
            prop_assert!(reply.truncated || soas == 1, "{}", message);
            prop_assert!(message.authorities.iter().all(|record| record.ttl == 5));
        } else {
            prop_assert_eq!(soas, 0);
        }
    }

    #[test]
    fn rule_2_only_names_of_our_zones_get_more_than_a_refusal(query in query()) {
        let reply = w1().reply(&query, ClientTransport::Udp, |_| Err(Failure::Timeout));
        let qname = tsunaro_model::name::DnsName::from_wire(&query.name).unwrap();
        if !qname.is_within(&name("Z")) && !qname.is_within(&name("E")) {
            let message = Message::from_vec(&reply.octets).unwrap();
            prop_assert_ne!(u16::from(message.metadata.response_code), 0);
            prop_assert!(!message.metadata.authoritative && message.answers.is_empty());
            prop_assert!(reply.octets.len() <= ask("x", 1).octets().len() + query.name.len() + 16);
        }
    }
}
