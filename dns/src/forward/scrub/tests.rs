use hickory_proto::rr::rdata::{NS, TXT};
use proptest::prelude::*;

use super::super::fixtures::{a, cname, dname, name, primary, question, raw, reply_to, rrsig, soa};
use super::*;

const ADDRESS: [u8; 4] = [198, 51, 100, 9];

fn scrubbed(
    question: &Question,
    rcode: ResponseCode,
    answers: Vec<Record>,
    authorities: Vec<Record>,
) -> Reply {
    try_scrub(question, rcode, answers, authorities).unwrap()
}

fn try_scrub(
    question: &Question,
    rcode: ResponseCode,
    answers: Vec<Record>,
    authorities: Vec<Record>,
) -> Result<Reply, Unusable> {
    let mut reply = reply_to(question, 1, rcode);
    reply.answers = answers;
    reply.authorities = authorities;
    scrub(&reply, question, &primary(), 100)
}

fn owners(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .map(|record| format!("{} {}", record.name, record.record_type()))
        .collect()
}

fn with_do(mut question: Question) -> Question {
    question.dnssec_ok = true;
    question
}

// Holds rule 54.
#[test]
fn only_the_chain_and_the_final_rrset_stay_whatever_their_order() {
    let asked = question("www.corp.example.", RecordType::A);
    let reply = scrubbed(
        &asked,
        ResponseCode::NoError,
        vec![
            a("web.corp.example.", 60, ADDRESS),
            a("evil.example.org.", 60, [203, 0, 113, 66]),
            a("web.prod.example.", 60, [203, 0, 113, 66]),
            cname("lb.corp.example.", 20, "web.corp.example."),
            a("web.corp.example.", 60, [198, 51, 100, 10]),
            cname("www.corp.example.", 60, "LB.corp.example."),
            soa("corp.example.", 60, 60),
        ],
        vec![soa("corp.example.", 60, 60)],
    );
    assert_eq!(
        owners(&reply.answer),
        [
            "www.corp.example. CNAME",
            "lb.corp.example. CNAME",
            "web.corp.example. A",
            "web.corp.example. A"
        ]
    );
    assert_eq!((reply.links, reply.lifetime), (2, Lifetime::Positive(20)));
    assert!(
        reply.authority.is_empty(),
        "a positive answer has no authority"
    );
}

// Holds rule 56.
#[test]
fn positive_ttls_are_clamped_and_the_least_decides_the_lifetime() {
    let asked = question("www.corp.example.", RecordType::A);
    for (alias, data, expected) in [
        (60, 60, Lifetime::Positive(30)),
        (60, 5, Lifetime::Positive(5)),
        (7, 60, Lifetime::Positive(7)),
        (0, 60, Lifetime::Uncacheable),
        (60, 0, Lifetime::Uncacheable),
        (60, u32::MAX, Lifetime::Uncacheable),
    ] {
        let answers = vec![
            cname("www.corp.example.", alias, "web.corp.example."),
            a("web.corp.example.", data, ADDRESS),
        ];
        let reply = scrubbed(&asked, ResponseCode::NoError, answers, vec![]);
        assert_eq!(
            reply.lifetime, expected,
            "alias TTL {alias}, data TTL {data}"
        );
        assert!(reply.answer.iter().all(|record| record.ttl <= 30));
    }
}

// Holds rules 54 and 56.
#[test]
fn a_negative_answer_keeps_its_soa_alone_and_lives_by_it() {
    let asked = question("nx.corp.example.", RecordType::A);
    let ns = Record::from_rdata(
        name("corp.example."),
        60,
        RData::NS(NS(name("ns.corp.example."))),
    );
    for rcode in [ResponseCode::NXDomain, ResponseCode::NoError] {
        let reply = scrubbed(
            &asked,
            rcode,
            vec![],
            vec![ns.clone(), soa("corp.example.", 60, 60)],
        );
        assert_eq!(owners(&reply.authority), ["corp.example. SOA"]);
        assert_eq!(
            (reply.rcode, reply.lifetime),
            (rcode, Lifetime::Negative(10))
        );
        assert_eq!(reply.authority[0].ttl, 10);
    }
}

// Holds rule 56.
#[test]
fn a_negative_answer_without_a_fitting_soa_is_sent_on_and_not_kept() {
    let asked = question("nx.corp.example.", RecordType::A);
    for authorities in [
        vec![],
        vec![soa("example.org.", 60, 60)],
        vec![soa("a.nx.corp.example.", 60, 60)],
    ] {
        let reply = scrubbed(&asked, ResponseCode::NXDomain, vec![], authorities);
        assert_eq!(
            (reply.rcode, reply.lifetime),
            (ResponseCode::NXDomain, Lifetime::Uncacheable)
        );
        assert!(reply.authority.is_empty() && reply.answer.is_empty());
    }
}

#[test]
fn the_soa_of_an_aliased_negative_belongs_to_the_end_of_the_chain() {
    let asked = question("www.corp.example.", RecordType::AAAA);
    let reply = scrubbed(
        &asked,
        ResponseCode::NXDomain,
        vec![cname("www.corp.example.", 3, "gone.example.net.")],
        vec![soa("corp.example.", 60, 60), soa("example.net.", 60, 60)],
    );
    assert_eq!(owners(&reply.answer), ["www.corp.example. CNAME"]);
    assert_eq!(owners(&reply.authority), ["example.net. SOA"]);
    assert_eq!(
        (reply.rcode, reply.lifetime),
        (ResponseCode::NXDomain, Lifetime::Negative(3))
    );
}

// Holds rule 55.
#[test]
fn a_chain_into_the_primary_zone_is_cut_there() {
    let asked = question("www.corp.example.", RecordType::A);
    let reply = scrubbed(
        &asked,
        ResponseCode::NXDomain,
        vec![
            cname("www.corp.example.", 60, "in.corp.example."),
            cname("in.corp.example.", 60, "Web.Prod.example."),
            a("web.prod.example.", 60, [203, 0, 113, 66]),
        ],
        vec![soa("example.", 60, 60)],
    );
    assert_eq!(
        owners(&reply.answer),
        ["www.corp.example. CNAME", "in.corp.example. CNAME"]
    );
    assert_eq!(reply.continue_at, Some(name("Web.Prod.example.")));
    assert_eq!((reply.rcode, reply.links), (ResponseCode::NoError, 2));
    assert_eq!(reply.lifetime, Lifetime::Positive(30));
    assert!(reply.authority.is_empty() && !reply.authentic_data);
}

#[test]
fn the_alias_itself_is_data_when_it_is_asked_for() {
    let alias = cname("www.corp.example.", 60, "web.prod.example.");
    for qtype in [RecordType::CNAME, RecordType::ANY] {
        let reply = scrubbed(
            &question("www.corp.example.", qtype),
            ResponseCode::NoError,
            vec![alias.clone()],
            vec![],
        );
        assert_eq!(owners(&reply.answer), ["www.corp.example. CNAME"]);
        assert_eq!((reply.links, reply.continue_at), (0, None));
    }
}

// Holds rule 51.
#[test]
fn aliases_without_end_are_unusable() {
    let asked = question("l0.corp.example.", RecordType::A);
    let circle = vec![
        cname("l0.corp.example.", 60, "l1.corp.example."),
        cname("l1.corp.example.", 60, "l0.corp.example."),
    ];
    assert_eq!(
        try_scrub(&asked, ResponseCode::NoError, circle, vec![]),
        Err(Unusable::AliasLoop)
    );
    let chain = |links: usize| -> Vec<Record> {
        let mut records: Vec<Record> = (0..links)
            .map(|i| {
                cname(
                    &format!("l{i}.corp.example."),
                    60,
                    &format!("l{}.corp.example.", i + 1),
                )
            })
            .collect();
        records.push(a(&format!("l{links}.corp.example."), 60, ADDRESS));
        records
    };
    assert_eq!(
        try_scrub(&asked, ResponseCode::NoError, chain(MAX_LINKS + 1), vec![]),
        Err(Unusable::AliasLoop)
    );
    assert_eq!(
        scrubbed(&asked, ResponseCode::NoError, chain(MAX_LINKS), vec![]).links,
        MAX_LINKS
    );
}

#[test]
fn nxdomain_with_the_data_asked_for_is_unusable() {
    let asked = question("www.corp.example.", RecordType::A);
    let answers = vec![a("www.corp.example.", 60, ADDRESS)];
    assert_eq!(
        try_scrub(&asked, ResponseCode::NXDomain, answers, vec![]),
        Err(Unusable::Contradiction)
    );
}

#[test]
fn a_dname_stays_when_the_alias_was_made_from_it() {
    let asked = question("a.old.corp.example.", RecordType::A);
    let answers = vec![
        dname("old.corp.example.", 60, "new.corp.example"),
        dname("corp.example.", 60, "elsewhere.example"),
        cname("a.old.corp.example.", 60, "a.new.corp.example."),
        a("a.new.corp.example.", 60, ADDRESS),
    ];
    let reply = scrubbed(&asked, ResponseCode::NoError, answers, vec![]);
    assert_eq!(
        owners(&reply.answer),
        [
            "old.corp.example. DNAME",
            "a.old.corp.example. CNAME",
            "a.new.corp.example. A"
        ]
    );
    assert_eq!(reply.links, 1);
}

// Holds rule 54.
#[test]
fn signatures_and_proofs_come_only_with_do() {
    let plain = question("www.corp.example.", RecordType::A);
    let answers = vec![
        cname("www.corp.example.", 60, "web.corp.example."),
        rrsig("www.corp.example.", 60, RecordType::CNAME),
        rrsig("www.corp.example.", 60, RecordType::TXT),
        a("web.corp.example.", 60, ADDRESS),
        rrsig("web.corp.example.", 60, RecordType::A),
    ];
    assert_eq!(
        owners(&scrubbed(&plain, ResponseCode::NoError, answers.clone(), vec![]).answer),
        ["www.corp.example. CNAME", "web.corp.example. A"]
    );
    assert_eq!(
        owners(&scrubbed(&with_do(plain), ResponseCode::NoError, answers, vec![]).answer),
        [
            "www.corp.example. CNAME",
            "www.corp.example. RRSIG",
            "web.corp.example. A",
            "web.corp.example. RRSIG"
        ]
    );

    let plain = question("nx.corp.example.", RecordType::A);
    let denial = vec![
        soa("corp.example.", 60, 60),
        rrsig("corp.example.", 60, RecordType::SOA),
        rrsig("corp.example.", 60, RecordType::NS),
        raw("a.corp.example.", 60, RecordType::NSEC, &[0]),
        rrsig("a.corp.example.", 60, RecordType::NSEC),
        raw("example.org.", 60, RecordType::NSEC, &[0]),
    ];
    let reply = scrubbed(&plain, ResponseCode::NXDomain, vec![], denial.clone());
    assert_eq!(owners(&reply.authority), ["corp.example. SOA"]);
    let reply = scrubbed(&with_do(plain), ResponseCode::NXDomain, vec![], denial);
    assert_eq!(
        owners(&reply.authority)[1..],
        [
            "corp.example. RRSIG",
            "a.corp.example. NSEC",
            "a.corp.example. RRSIG"
        ]
    );
    assert!(reply.authority.iter().all(|record| record.ttl == 10));
}

fn any_name() -> impl Strategy<Value = Name> {
    prop::sample::select(vec![
        "q.corp.example.",
        "Q.corp.example.",
        "b.corp.example.",
        "c.b.corp.example.",
        "corp.example.",
        "example.",
        ".",
        "web.prod.example.",
        "prod.example.",
        "evil.example.org.",
    ])
    .prop_map(name)
}

fn any_record() -> impl Strategy<Value = Record> {
    let data = prop_oneof![
        any::<[u8; 4]>().prop_map(|address| a("x.", 0, address).data),
        any_name().prop_map(|target| cname("x.", 0, &target.to_ascii()).data),
        any::<u32>().prop_map(|minimum| soa("x.", 0, minimum).data),
        Just(RData::TXT(TXT::new(vec!["text".to_owned()]))),
        any::<bool>().prop_map(|a| rrsig(
            "x.",
            0,
            if a { RecordType::A } else { RecordType::CNAME }
        )
        .data),
        any_name().prop_map(|target| dname("x.", 0, &target.to_ascii()).data),
    ];
    let class = prop_oneof![9 => Just(DNSClass::IN), 1 => Just(DNSClass::CH)];
    (any_name(), any::<u32>(), data, class).prop_map(|(owner, ttl, data, class)| {
        let mut record = Record::from_rdata(owner, ttl, data);
        record.dns_class = class;
        record
    })
}

proptest! {
    // Holds rule 54.
    #[test]
    fn no_record_outside_the_chain_survives(
        answers in prop::collection::vec(any_record(), 0..12),
        authorities in prop::collection::vec(any_record(), 0..6),
        additionals in prop::collection::vec(any_record(), 0..3),
        qtype in prop::sample::select(vec![RecordType::A, RecordType::TXT, RecordType::CNAME, RecordType::ANY, RecordType::SOA]),
        nxdomain: bool,
        dnssec_ok: bool,
    ) {
        let mut asked = question("q.corp.example.", qtype);
        asked.dnssec_ok = dnssec_ok;
        let mut reply = reply_to(&asked, 1, if nxdomain { ResponseCode::NXDomain } else { ResponseCode::NoError });
        reply.answers = answers;
        reply.authorities = authorities;
        reply.additionals = additionals;
        let Ok(kept) = scrub(&reply, &asked, &primary(), 0) else { return Ok(()) };

        let mut at = canonical(&asked.name);
        let mut links = 0;
        for record in &kept.answer {
            let owner = canonical(&record.name);
            prop_assert!(!owner.is_within(&primary()));
            prop_assert!(record.ttl <= 30);
            prop_assert!(record.record_type() != RecordType::RRSIG || dnssec_ok);
            if record.record_type() == RecordType::DNAME && qtype != RecordType::ANY {
                prop_assert!(at.is_within(&owner));
            } else if record.record_type() == RecordType::RRSIG {
                prop_assert!(reply.answers.iter().any(|original| original.data == record.data));
            } else if let (RData::CNAME(target), false) = (&record.data, matches!(qtype, RecordType::CNAME | RecordType::ANY)) {
                prop_assert_eq!(&owner, &at);
                at = canonical(&target.0);
                links += 1;
            } else {
                prop_assert_eq!(&owner, &at);
                prop_assert!(qtype == RecordType::ANY || record.record_type() == qtype);
            }
        }
        prop_assert_eq!(links, kept.links);
        prop_assert_eq!(kept.continue_at.is_some(), at.is_within(&primary()));
        for record in &kept.authority {
            prop_assert!(record.ttl <= 10);
            prop_assert!(record.record_type() == RecordType::SOA || dnssec_ok);
            if record.record_type() == RecordType::SOA {
                prop_assert!(at.is_within(&canonical(&record.name)));
            }
        }
        if let Lifetime::Positive(seconds) | Lifetime::Negative(seconds) = kept.lifetime {
            prop_assert!((1..=30).contains(&seconds));
        }
    }
}

// Holds rule 51.
#[test]
fn rule_51_records_of_other_names_alone_are_no_answer_and_no_denial() {
    let asked = question("www.corp.example.", RecordType::A);
    let foreign = || vec![a("evil.example.org.", 60, ADDRESS)];
    assert_eq!(
        try_scrub(&asked, ResponseCode::NoError, foreign(), vec![]),
        Err(Unusable::Foreign)
    );
    let denied = scrubbed(
        &asked,
        ResponseCode::NoError,
        foreign(),
        vec![soa("corp.example.", 60, 60)],
    );
    assert!(denied.answer.is_empty() && denied.authority.len() == 1);
    // NODATA without a SOA, as some servers send it, stays what it is.
    let bare = scrubbed(&asked, ResponseCode::NoError, vec![], vec![]);
    assert_eq!(bare.lifetime, Lifetime::Uncacheable);
    let missing = scrubbed(&asked, ResponseCode::NXDomain, foreign(), vec![]);
    assert!(missing.answer.is_empty());
}
