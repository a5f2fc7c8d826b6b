use std::time::Instant;

use hickory_proto::rr::RecordType;
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::{Name, RData, Record};
use proptest::prelude::*;
use std::sync::Arc;
use tsunaro_model::config::{DnsConfig, ExtraZoneConfig};
use tsunaro_model::zone::{HostsInput, Snapshot};

use super::super::fixtures::{a, cname, dns_name, primary, reply_to, soa};
use super::super::question::Question;
use super::super::scrub::scrub;
use super::super::{ForwardConfig, Forwarder, lock};
use super::*;
use crate::answer::{self, Answer};
use crate::fast;
use crate::forwarding::ClientTransport;
use crate::query::{Incoming, parse};

fn snapshot() -> Arc<Snapshot> {
    let config = DnsConfig {
        zone: primary(),
        addresses: vec![],
        static_records: vec![],
        wildcard_address: None,
        extra_zones: vec![ExtraZoneConfig {
            zone: dns_name("corp.example"),
            upstreams: vec!["198.51.100.53:53".parse().unwrap()],
        }],
        ttl: 30,
        negative_ttl: 5,
    };
    Arc::new(Snapshot::build(&config, HostsInput::NotConfigured, 1, 1).0)
}

fn names() -> impl Strategy<Value = Name> {
    let names = [
        "www.corp.example.",
        "WWW.corp.example.",
        "lb.Corp.example.",
        "deep.lb.corp.example.",
        "cdn.example.net.",
        "web.prod.example.",
        "corp.example.",
    ];
    prop::sample::select(names.to_vec()).prop_map(|name| Name::from_ascii(name).unwrap())
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let record = prop_oneof![
        3 => (names(), 0u32..100, any::<[u8; 4]>())
            .prop_map(|(owner, ttl, octets)| a(&owner.to_ascii(), ttl, octets)),
        2 => (names(), 0u32..100, names())
            .prop_map(|(owner, ttl, to)| cname(&owner.to_ascii(), ttl, &to.to_ascii())),
        1 => (names(), 1u32..100, 0usize..250).prop_map(|(owner, ttl, length)| {
            Record::from_rdata(owner, ttl, RData::TXT(TXT::new(vec!["x".repeat(length)])))
        }),
    ];
    prop::collection::vec(record, 0..8)
}

fn message(question: &Question, upper: u64, bits: u16, edns: Option<(u16, u16)>) -> Vec<u8> {
    let count = u16::from(edns.is_some());
    let mut octets: Vec<u8> = [7, bits, 1, 0, 0, count]
        .into_iter()
        .flat_map(u16::to_be_bytes)
        .collect();
    let name = super::super::question::canonical(&question.name);
    octets.extend(name.as_wire().iter().enumerate().map(|(at, octet)| {
        match upper >> (at % 64) & 1 {
            1 => octet.to_ascii_uppercase(),
            _ => *octet,
        }
    }));
    octets.extend(u16::from(question.qtype).to_be_bytes());
    octets.extend([0, 1]);
    if let Some((size, flags)) = edns {
        octets.extend([0, 0, 41]);
        octets.extend(size.to_be_bytes());
        octets.extend([0, 0]);
        octets.extend(flags.to_be_bytes());
        octets.extend([0, 0]);
    }
    octets
}

fn question_of(octets: &[u8], snapshot: &Arc<Snapshot>) -> Question {
    let Incoming::Query(query) = parse(octets, ClientTransport::Udp) else {
        panic!("a query");
    };
    match answer::answer(snapshot, query, 0) {
        Answer::Forward(job) => job.question(),
        Answer::Reply(reply) => panic!("{reply:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    // Holds rules 54, 56 and 64 for answers that the fast path takes from the cache.
    #[test]
    fn a_cached_answer_has_the_same_octets_on_both_paths(
        records in records(),
        with_soa in any::<bool>(),
        missing in any::<bool>(),
        authentic in any::<bool>(),
        qtype in prop::sample::select(vec![RecordType::A, RecordType::CNAME, RecordType::TXT, RecordType::ANY]),
        bits in any::<u16>().prop_map(|bits| bits & 0x07ff),
        edns in prop::option::of((prop_oneof![Just(1232u16), any::<u16>()], any::<u16>())),
        cases in any::<[u64; 2]>(),
        age in 0u64..4,
    ) {
        let snapshot = snapshot();
        let mut asked = super::super::fixtures::question("www.corp.example.", qtype);
        asked.dnssec_ok = edns.is_some_and(|(_, flags)| flags & 0x8000 != 0);
        let first = message(&asked, cases[0], bits, edns);
        let question = question_of(&first, &snapshot);
        let rcode = if missing { ResponseCode::NXDomain } else { ResponseCode::NoError };
        let mut upstream = reply_to(&question, 1, rcode);
        upstream.answers = records;
        upstream.metadata.authentic_data = authentic;
        if with_soa {
            upstream.authorities = vec![soa("corp.example.", 60, 60)];
        }
        let Ok(reply) = scrub(&upstream, &question, &primary(), 100) else {
            return Ok(());
        };
        let config = ForwardConfig {
            primary: primary(),
            zones: vec![(dns_name("corp.example"), vec!["198.51.100.53:53".parse().unwrap()])],
        };
        let forwarder = Forwarder::new(&config);
        let Some(arrived) = Instant::now().checked_sub(Duration::from_secs(age)) else {
            return Ok(());
        };
        {
            let generation = forwarder.core.generation.load();
            let key = question.key().cache;
            lock(&generation.cache).insert(key, Arc::new(reply), arrived);
        }
        // Another client, who writes the name in another case.
        let second = message(&asked, cases[1], bits, edns);
        let mut out = [0; 1232];
        let Some(fast) = fast::answer(&snapshot, &forwarder, &second, 0, &mut out) else {
            return Ok(());
        };
        let Incoming::Query(query) = parse(&second, ClientTransport::Udp) else {
            panic!("a query");
        };
        let Answer::Forward(job) = answer::answer(&snapshot, query, 0) else {
            panic!("a question for upstreams");
        };
        let known = forwarder.resolve_from_cache(&job.question()).unwrap();
        let Answer::Reply(slow) = answer::finish(*job, known) else {
            panic!("the fast path answered what goes on elsewhere");
        };
        prop_assert_eq!(&out[..fast.length], slow.octets.as_slice());
        prop_assert_eq!((fast.rcode, fast.zone, false), (slow.rcode, slow.zone, slow.truncated));
    }
}

// Holds rule 56.
#[test]
fn a_plain_answer_in_the_cache_is_the_fast_paths() {
    let snapshot = snapshot();
    let asked = super::super::fixtures::question("www.corp.example.", RecordType::A);
    let octets = message(&asked, 0x5555_5555, 0x0100, Some((1232, 0)));
    let forwarder = Forwarder::new(&ForwardConfig {
        primary: primary(),
        zones: vec![],
    });
    let mut out = [0; 1232];
    assert_eq!(
        fast::answer(&snapshot, &forwarder, &octets, 0, &mut out),
        None
    );
    let question = question_of(&octets, &snapshot);
    let mut upstream = reply_to(&question, 1, ResponseCode::NoError);
    upstream.answers = vec![
        cname("www.corp.example.", 20, "lb.corp.example."),
        a("lb.corp.example.", 60, [198, 51, 100, 9]),
    ];
    let reply = scrub(&upstream, &question, &primary(), 100).unwrap();
    let Some(arrived) = Instant::now().checked_sub(Duration::from_secs(3)) else {
        panic!("the clock has just begun");
    };
    {
        let generation = forwarder.core.generation.load();
        lock(&generation.cache).insert(question.key().cache, Arc::new(reply), arrived);
    }
    let fast = fast::answer(&snapshot, &forwarder, &octets, 0, &mut out).unwrap();
    let message = hickory_proto::op::Message::from_vec(&out[..fast.length]).unwrap();
    let ttls: Vec<u32> = message.answers.iter().map(|record| record.ttl).collect();
    assert_eq!(ttls, [17, 27]);
    assert_eq!(forwarder.metrics().snapshot().cache_hits, 1);
}
