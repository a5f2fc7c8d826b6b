use hickory_proto::rr::RecordType;
use hickory_proto::rr::rdata::opt::OPT;
use proptest::prelude::*;

use super::super::fixtures::{a, name, question, reply_to};
use super::*;

const ID: u16 = 0x1234;

fn asked() -> Question {
    question("Www.corp.example.", RecordType::A)
}

fn good() -> Message {
    let mut reply = reply_to(&asked(), ID, ResponseCode::NoError);
    reply.add_answer(a("www.corp.example.", 60, [198, 51, 100, 7]));
    reply
}

fn classified(change: impl FnOnce(&mut Message)) -> Match {
    let mut message = good();
    change(&mut message);
    classify(&message.to_vec().unwrap(), ID, &asked())
}

// Holds rule 49.
#[test]
fn the_reply_matches_whatever_the_case_of_its_question() {
    assert!(matches!(classified(|_| {}), Match::Reply(_)));
    assert!(matches!(
        classified(|m| m.queries = vec![Query::query(name("WWW.CORP.example."), RecordType::A)]),
        Match::Reply(_)
    ));
}

type Change = Box<dyn FnOnce(&mut Message)>;

// Holds rule 49.
#[test]
fn anything_else_is_ignored() {
    let other = |n: &str, t| vec![Query::query(name(n), t)];
    let cases: Vec<(&str, Change)> = vec![
        ("another id", Box::new(|m| m.metadata.id = ID + 1)),
        (
            "a query",
            Box::new(|m| m.metadata.message_type = MessageType::Query),
        ),
        (
            "another opcode",
            Box::new(|m| m.metadata.op_code = OpCode::Notify),
        ),
        (
            "another name",
            Box::new(move |m| m.queries = other("wwx.corp.example.", RecordType::A)),
        ),
        (
            "another type",
            Box::new(move |m| m.queries = other("www.corp.example.", RecordType::AAAA)),
        ),
        (
            "another class",
            Box::new(|m| m.queries[0].query_class = DNSClass::CH),
        ),
        ("no question", Box::new(|m| m.queries.clear())),
        (
            "two questions",
            Box::new(|m| m.queries.push(m.queries[0].clone())),
        ),
    ];
    for (what, change) in cases {
        assert!(matches!(classified(change), Match::Ignored), "{what}");
    }
    assert!(matches!(classify(&[], ID, &asked()), Match::Ignored));
}

#[test]
fn a_format_error_may_come_without_question() {
    let reply = classified(|m| {
        m.metadata.response_code = ResponseCode::FormErr;
        m.queries.clear();
        m.answers.clear();
    });
    assert!(
        matches!(reply, Match::Reply(message) if message.metadata.response_code == ResponseCode::FormErr)
    );
}

#[test]
fn what_follows_a_matching_question_may_be_broken() {
    let mut octets = good().to_vec().unwrap();
    octets.truncate(octets.len() - 1);
    assert!(matches!(classify(&octets, ID, &asked()), Match::Malformed));
    // The same, cut off on purpose.
    octets[2] |= 0x02;
    assert!(matches!(
        classify(&octets, ID, &asked()),
        Match::Truncated(None)
    ));
    assert!(matches!(
        classified(|m| m.metadata.truncation = true),
        Match::Truncated(Some(_))
    ));
}

// Holds rule 47.
#[test]
fn the_query_carries_our_edns_and_the_clients_bits() {
    for (dnssec_ok, checking_disabled, recursion_desired, authentic_data) in [
        (false, false, true, false),
        (true, true, false, true),
        (true, false, true, false),
    ] {
        let question = Question {
            dnssec_ok,
            checking_disabled,
            recursion_desired,
            authentic_data,
            ..asked()
        };
        let query = Message::from_vec(&encode(&question, ID).unwrap()).unwrap();
        let edns = query.edns.as_ref().unwrap();
        assert_eq!(
            (edns.max_payload(), edns.version(), edns.flags().dnssec_ok),
            (1232, 0, dnssec_ok)
        );
        assert_eq!(edns.options(), &OPT::new(vec![]));
        assert_eq!(query.metadata.checking_disabled, checking_disabled);
        assert_eq!(query.metadata.recursion_desired, recursion_desired);
        assert_eq!(query.metadata.authentic_data, authentic_data);
        assert_eq!(
            (query.metadata.id, query.metadata.message_type),
            (ID, MessageType::Query)
        );
        assert!(
            query.queries[0].name().eq_case(&question.name),
            "the case received is kept"
        );
    }
}

#[test]
fn the_text_of_an_extended_error_is_made_safe_and_short() {
    let with = |data: Vec<u8>| {
        let mut message = good();
        let mut edns = Edns::new();
        edns.options_mut()
            .insert(EdnsOption::Unknown(EDE_OPTION, data));
        message.set_edns(edns);
        extended_error(&Message::from_vec(&message.to_vec().unwrap()).unwrap())
    };
    let text = |code: u16, text: &[u8]| {
        let mut data = code.to_be_bytes().to_vec();
        data.extend(text);
        with(data)
    };
    assert_eq!(
        text(6, b"bad\x1b[2J sig"),
        Some(ExtendedError {
            code: 6,
            text: "bad[2J sig".to_owned()
        })
    );
    assert_eq!(
        text(6, b""),
        Some(ExtendedError {
            code: 6,
            text: String::new()
        })
    );
    assert_eq!(
        text(6, "ü".repeat(200).as_bytes()).unwrap().text.len(),
        MAX_EDE_TEXT
    );
    assert_eq!(text(6, &[0xff, 0xfe]).unwrap().text, "\u{fffd}\u{fffd}");
    assert_eq!(with(vec![6]), None);
    assert_eq!(extended_error(&good()), None);
}

proptest! {
    // Holds rule 49.
    #[test]
    fn arbitrary_octets_are_never_the_reply(octets in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(matches!(classify(&octets, ID, &asked()), Match::Ignored));
    }

    // Holds rule 78.
    #[test]
    fn arbitrary_octets_after_a_matching_question_do_no_harm(
        counts in any::<[u8; 6]>(),
        flags: u8,
        tail in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut octets = reply_to(&asked(), ID, ResponseCode::NoError).to_vec().unwrap();
        octets[3] = flags;
        octets[6..12].copy_from_slice(&counts);
        octets.extend(tail);
        if let Match::Reply(message) = classify(&octets, ID, &asked()) {
            let _ = super::super::scrub::scrub(&message, &asked(), &super::super::fixtures::primary(), octets.len());
            let _ = extended_error(&message);
        }
    }

    // Holds rule 49.
    #[test]
    fn one_changed_octet_in_header_or_question_never_passes_for_another_reply(at in 0_usize..2, flip in 1_u8..) {
        let mut octets = good().to_vec().unwrap();
        octets[at] ^= flip;
        prop_assert!(matches!(classify(&octets, ID, &asked()), Match::Ignored));
    }
}
