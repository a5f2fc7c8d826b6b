use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tsunaro_model::config::{DnsConfig, ExtraZoneConfig, StaticData, StaticRecord};
use tsunaro_model::hosts::{HostEntry, Hosts};
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::HostsInput;

use super::*;
use crate::answer::{self, Answer};
use crate::forwarding::{Failure, Forwarded, Question};
use crate::query::{Incoming, parse};

/// Upstreams of which nothing is known.
struct NothingCached;

impl Resolve for NothingCached {
    fn resolve_from_cache(&self, _: &Question) -> Option<Result<Forwarded, Failure>> {
        None
    }

    async fn resolve(&self, _: &DnsName, _: &Question) -> Result<Forwarded, Failure> {
        Err(Failure::NotConfigured)
    }
}

/// Questions asked of each random zone.
const QUESTIONS: usize = 50;

/// A hundred thousand questions in all; `PROPTEST_CASES=200000` makes them ten million.
fn zones() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(2000)
}

const EXTRA: &str = "e.example";

fn name(text: &str) -> DnsName {
    DnsName::parse_query(text).unwrap()
}

/// Few labels, so that names collide, nest and miss each other closely.
const LABELS: [&str; 4] = ["a", "b", "ab", "long-label-with-some-octets-in-it"];

fn labels(longest: usize) -> impl Strategy<Value = String> {
    let label = prop::sample::select(LABELS.to_vec());
    prop::collection::vec(label, 0..=longest).prop_map(|labels| labels.join("."))
}

fn in_zone(labels: &str, zone: &str) -> DnsName {
    match labels {
        "" => name(zone),
        some => name(&format!("{some}.{zone}")),
    }
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        3 => any::<u8>().prop_map(|last| IpAddr::from([192, 0, 2, last])),
        1 => any::<u8>().prop_map(|last| {
            IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
        }),
    ]
}

#[derive(Debug, Clone)]
enum Static {
    Addresses(Vec<IpAddr>),
    AliasIn(String),
    AliasExtra,
    AliasOut,
}

#[derive(Debug, Clone)]
struct Zone {
    apex: &'static str,
    static_records: Vec<(String, Static)>,
    hosts: Vec<(String, bool, IpAddr)>,
    many: usize,
    wildcard: bool,
    unread: bool,
    ttls: (u32, u32),
}

fn zone() -> impl Strategy<Value = Zone> {
    let apex = prop::sample::select(vec!["z.example", "z.invalid", "z.nobody.invalid", "z"]);
    let data = prop_oneof![
        prop::collection::vec(address(), 1..4).prop_map(Static::Addresses),
        labels(2).prop_map(Static::AliasIn),
        Just(Static::AliasExtra),
        Just(Static::AliasOut),
    ];
    let static_records = prop::collection::btree_map(labels(3), data, 0..4);
    let hosts = prop::collection::vec((labels(3), any::<bool>(), address()), 0..12);
    let many = prop_oneof![4 => Just(0usize), 1 => 20usize..90];
    (
        apex,
        static_records,
        hosts,
        many,
        any::<bool>(),
        prop::bool::weighted(0.1),
        (1u32..3600, 1u32..3600),
    )
        .prop_map(
            |(apex, statics, hosts, many, wildcard, unread, ttls)| Zone {
                apex,
                static_records: statics.into_iter().collect(),
                hosts,
                many,
                wildcard,
                unread,
                ttls,
            },
        )
}

impl Zone {
    fn build(&self) -> Arc<Snapshot> {
        let Self {
            apex,
            static_records,
            hosts,
            many,
            wildcard,
            unread,
            ttls,
        } = self;
        let record = |(labels, data): &(String, Static)| {
            let data = match data {
                Static::Addresses(set) => StaticData::Addresses(set.clone()),
                Static::AliasIn(target) => StaticData::Alias(in_zone(target, apex)),
                Static::AliasExtra => StaticData::Alias(in_zone("a", EXTRA)),
                Static::AliasOut => StaticData::Alias(name("www.example.org")),
            };
            StaticRecord {
                name: in_zone(labels, apex),
                data,
            }
        };
        let config = DnsConfig {
            zone: name(apex),
            addresses: vec![],
            static_records: static_records.iter().map(record).collect(),
            wildcard_address: wildcard.then(|| "192.0.2.200".parse().unwrap()),
            extra_zones: vec![ExtraZoneConfig {
                zone: name(EXTRA),
                upstreams: vec!["198.51.100.53:53".parse().unwrap()],
            }],
            ttl: ttls.0,
            negative_ttl: ttls.1,
        };
        let one = |(labels, extra, address): &(String, bool, IpAddr)| HostEntry {
            name: in_zone(labels, if *extra { EXTRA } else { apex }),
            address: *address,
        };
        let big = (0..*many).map(|last| HostEntry {
            name: in_zone("b", apex),
            address: IpAddr::from([198, 51, 100, u8::try_from(last).unwrap()]),
        });
        let hosts = Hosts {
            entries: hosts.iter().map(one).chain(big).collect(),
            ..Hosts::default()
        };
        let input = if *unread {
            HostsInput::Unread
        } else {
            HostsInput::Read(&hosts)
        };
        Arc::new(Snapshot::build(&config, input, 1, 4_000_000_000).0)
    }
}

/// A question, drawn by a cheap generator: there are millions of them.
#[derive(Debug)]
struct Ask {
    labels: String,
    place: u8,
    qtype: u16,
    qclass: u16,
    bits: u16,
    id: u16,
    upper: u64,
    opt: Option<(u16, u8, u16, Vec<u8>)>,
    change: Option<(usize, u8)>,
    trailing: u8,
    rotation: usize,
}

fn one_of<T: Clone>(random: &mut SmallRng, choice: &[T]) -> T {
    choice[random.random_range(0..choice.len())].clone()
}

fn ask(random: &mut SmallRng) -> Ask {
    let count = random.random_range(0..=4);
    let labels: Vec<&str> = (0..count).map(|_| one_of(random, &LABELS)).collect();
    let qtype = match random.random_range(0..17) {
        0..12 => one_of(random, &[1u16, 28]),
        12..16 => one_of(random, &[16u16, 255, 5, 6, 2, 65]),
        _ => random.random(),
    };
    let options = match random.random_range(0..9) {
        0..5 => vec![],
        5 | 6 => vec![0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8],
        7 => vec![0, 11, 0, 0],
        _ => (0..random.random_range(0..9))
            .map(|_| random.random())
            .collect(),
    };
    let size = if random.random() {
        1232
    } else {
        random.random()
    };
    let version = if random.random_ratio(1, 20) {
        random.random()
    } else {
        0
    };
    let opt = (size, version, random.random(), options);
    Ask {
        labels: labels.join("."),
        place: random.random_range(0..5),
        qtype,
        qclass: if random.random_ratio(1, 30) {
            random.random()
        } else {
            1
        },
        bits: match random.random_range(0..7) {
            0..4 => 0x0100,
            4 | 5 => random.random::<u16>() & 0x07ff,
            _ => random.random(),
        },
        id: random.random(),
        upper: random.random(),
        opt: random.random::<bool>().then_some(opt),
        change: random
            .random_ratio(1, 10)
            .then(|| (random.random_range(0..1000), random.random())),
        trailing: if random.random_ratio(1, 8) {
            random.random()
        } else {
            0
        },
        rotation: random.random_range(0..200),
    }
}

impl Ask {
    fn octets(&self, apex: &str) -> Vec<u8> {
        let qname = match self.place {
            0 => in_zone(&self.labels, EXTRA),
            1 if self.labels.len() < 60 => in_zone(&self.labels, "example.org"),
            _ => in_zone(&self.labels, apex),
        };
        let count = u16::from(self.opt.is_some());
        let mut octets: Vec<u8> = [self.id, self.bits, 1, 0, 0, count]
            .into_iter()
            .flat_map(u16::to_be_bytes)
            .collect();
        octets.extend(qname.as_wire().iter().enumerate().map(|(at, octet)| {
            // Length octets are no letters.
            if self.upper >> (at % 64) & 1 == 1 {
                octet.to_ascii_uppercase()
            } else {
                *octet
            }
        }));
        octets.extend(self.qtype.to_be_bytes());
        octets.extend(self.qclass.to_be_bytes());
        if let Some((size, version, flags, options)) = &self.opt {
            octets.extend([0, 0, 41]);
            octets.extend(size.to_be_bytes());
            octets.extend([0, *version]);
            octets.extend(flags.to_be_bytes());
            octets.extend(u16::try_from(options.len()).unwrap().to_be_bytes());
            octets.extend(options);
        }
        if let Some((at, value)) = self.change {
            let at = at % octets.len();
            octets[at] = value;
        }
        octets.extend(vec![self.trailing; usize::from(self.trailing)]);
        octets
    }
}

/// What the general path says; none is silence, or a question for upstreams.
fn general(snapshot: &Arc<Snapshot>, message: &[u8], rotation: usize) -> Option<answer::Reply> {
    match parse(message, ClientTransport::Udp) {
        Incoming::Drop => None,
        Incoming::Reply(written) => Some(answer::Reply::without_zone(written)),
        Incoming::Query(query) => match answer::answer(snapshot, query, rotation) {
            Answer::Reply(reply) => Some(reply),
            Answer::Forward(_) => None,
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: zones(), ..ProptestConfig::default() })]

    // Holds rules 6, 7, 10, 60, 62, 63, 64, 70 for the fast path as for the general one.
    #[test]
    fn the_fast_path_writes_the_octets_of_the_general_one(
        zone in zone(),
        seed in any::<u64>(),
    ) {
        let mut random = SmallRng::seed_from_u64(seed);
        let snapshot = zone.build();
        let mut out = [0xee; 1232];
        for _ in 0..QUESTIONS {
            let question = ask(&mut random);
            let message = question.octets(zone.apex);
            let slow = general(&snapshot, &message, question.rotation);
            let Some(fast) = answer(&snapshot, &NothingCached, &message, question.rotation, &mut out) else {
                continue;
            };
            let Some(slow) = slow else {
                return Err(TestCaseError::fail(format!("the general path is silent: {fast:?}")));
            };
            prop_assert_eq!(&out[..fast.length], slow.octets.as_slice(), "{:?}", question);
            prop_assert_eq!((fast.rcode, fast.zone, false), (slow.rcode, slow.zone, slow.truncated));
        }
    }
}

/// The usual questions are the fast path's: it cannot be equal by doing nothing.
#[test]
fn the_fast_path_takes_addresses_denials_and_refusals() {
    let zone = Zone {
        apex: "z.example",
        static_records: vec![("alias".to_owned(), Static::AliasIn("a".to_owned()))],
        hosts: vec![
            ("a".to_owned(), false, "192.0.2.1".parse().unwrap()),
            ("a".to_owned(), false, "2001:db8::1".parse().unwrap()),
            ("b.c".to_owned(), false, "192.0.2.2".parse().unwrap()),
            ("a".to_owned(), true, "192.0.2.3".parse().unwrap()),
        ],
        many: 0,
        wildcard: false,
        unread: false,
        ttls: (30, 5),
    };
    let snapshot = zone.build();
    let opt = [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0];
    for (text, qtype, taken) in [
        ("a.z.example", 1, true),
        ("a.z.example", 28, true),
        ("a.z.example", 16, true),
        ("c.z.example", 1, true),
        ("b.z.example", 1, true),
        ("x.a.z.example", 65, true),
        ("z.example", 1, true),
        ("a.e.example", 1, true),
        ("a.e.example", 28, true),
        ("www.example.org", 1, true),
        ("alias.z.example", 1, false),
        ("z.example", 6, false),
        ("b.e.example", 1, false),
    ] {
        for opt in [&[][..], &opt] {
            let count = u8::from(!opt.is_empty());
            let mut message = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, count];
            message.extend(name(text).as_wire());
            message.extend([0, u8::try_from(qtype).unwrap(), 0, 1]);
            message.extend(opt);
            let fast = answer(&snapshot, &NothingCached, &message, 0, &mut [0; 1232]);
            assert_eq!(fast.is_some(), taken, "{text} type {qtype}");
        }
    }
}
