//! Random zones and questions against a slow, obvious reading of RFC 1034 §4.3.2 and RFC 4592.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use tsunaro_model::config::{DnsConfig, StaticData, StaticRecord};
use tsunaro_model::hosts::{HostEntry, Hosts};

use crate::fixture::{World, config, world};
use crate::message::name;
use crate::message::rtype::{A, AAAA, CNAME, TXT};

const WILDCARD: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 200);

/// A name below the apex as labels from the apex down: easy to take ancestors of.
type Path = Vec<&'static str>;

#[derive(Debug, Clone)]
enum Data {
    Addresses(Vec<IpAddr>),
    Alias(Path),
}

/// The zone as a plain list of what was configured.
#[derive(Debug, Clone)]
struct Reference {
    records: Vec<(Path, Data)>,
    wildcard: bool,
}

impl Reference {
    /// RFC 4592 §2.2.2 and §2.2.3: a name exists if it or anything below it has data.
    fn exists(&self, path: &[&str]) -> bool {
        let below = |owner: &Path| owner.len() >= path.len() && owner[..path.len()] == *path;
        path.is_empty()
            || self.records.iter().any(|(owner, _)| below(owner))
            || (self.wildcard && path == ["*"])
    }

    /// RFC 4592 §3.3.1: the longest existing ancestor.
    fn closest_encloser<'a>(&self, path: &'a [&'static str]) -> &'a [&'static str] {
        (0..path.len())
            .rev()
            .map(|len| &path[..len])
            .find(|ancestor| self.exists(ancestor))
            .unwrap()
    }

    fn answer(&self, path: &Path, qtype: u16) -> String {
        let mut out = String::new();
        let mut path = path.clone();
        let mut seen = BTreeSet::from([path.clone()]);
        loop {
            let data = self
                .records
                .iter()
                .find(|(owner, _)| *owner == path)
                .map(|(_, data)| data.clone());
            let data = match data {
                Some(data) => data,
                None if path == ["*"] && self.wildcard => Data::Addresses(vec![WILDCARD.into()]),
                None if self.exists(&path) => Data::Addresses(vec![]),
                None if self.wildcard && self.closest_encloser(&path).is_empty() => {
                    Data::Addresses(vec![WILDCARD.into()])
                }
                None => return format!("NXDOMAIN aa:{out} / [Z 5 SOA Z 5]"),
            };
            match data {
                Data::Alias(target) => {
                    out += &format!(" [{} 30 CNAME {}]", text(&path), text(&target));
                    if qtype == CNAME {
                        return format!("NOERROR aa:{out}");
                    }
                    if !seen.insert(target.clone()) || seen.len() > 9 {
                        return "SERVFAIL: ede 0".to_owned();
                    }
                    path = target;
                }
                Data::Addresses(set) => {
                    let wanted = |address: &&IpAddr| match qtype {
                        A => address.is_ipv4(),
                        AAAA => address.is_ipv6(),
                        _ => false,
                    };
                    let set: Vec<_> = set.iter().filter(wanted).collect();
                    if set.is_empty() {
                        return format!("NOERROR aa:{out} / [Z 5 SOA Z 5]");
                    }
                    for address in set {
                        let mnemonic = if address.is_ipv4() { "A" } else { "AAAA" };
                        out += &format!(" [{} 30 {mnemonic} {address}]", text(&path));
                    }
                    return format!("NOERROR aa:{out}");
                }
            }
        }
    }

    /// The same zone, built by the product: aliases are static, addresses dynamic.
    fn build(&self) -> World {
        let mut static_records = vec![];
        let mut entries = vec![];
        for (path, data) in &self.records {
            let owner = name(&text(path));
            match data {
                Data::Alias(target) => {
                    static_records.push(StaticRecord {
                        name: owner,
                        data: StaticData::Alias(name(&text(target))),
                    });
                }
                Data::Addresses(set) => {
                    let entry = |address: &IpAddr| HostEntry {
                        name: owner.clone(),
                        address: *address,
                    };
                    entries.extend(set.iter().map(entry));
                }
            }
        }
        let config = DnsConfig {
            static_records,
            ..config(self.wildcard)
        };
        world(
            &config,
            &Hosts {
                entries: entries.into_iter().collect(),
                ..Hosts::default()
            },
        )
    }
}

fn text(path: &[&str]) -> String {
    path.iter()
        .rev()
        .map(|label| format!("{label}."))
        .collect::<String>()
        + "Z"
}

/// Few labels, so that names collide, nest and miss each other closely.
fn path(longest: usize) -> impl Strategy<Value = Path> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 1..=longest)
}

fn data() -> impl Strategy<Value = Data> {
    prop_oneof![
        3 => Just(Data::Addresses(vec!["192.0.2.7".parse().unwrap()])),
        1 => Just(Data::Addresses(vec!["2001:db8::7".parse().unwrap()])),
        1 => Just(Data::Addresses(vec!["192.0.2.8".parse().unwrap(), "2001:db8::8".parse().unwrap()])),
        2 => path(3).prop_map(Data::Alias),
    ]
}

fn zone() -> impl Strategy<Value = Reference> {
    let records = prop::collection::btree_map(path(3), data(), 0..8);
    (records, any::<bool>()).prop_map(|(records, wildcard)| Reference {
        records: records.into_iter().collect(),
        wildcard,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn rule_12_random_zones_answer_as_rfc_4592_says(
        zone in zone(),
        questions in prop::collection::vec(
            (
                prop_oneof![
                    8 => path(4),
                    1 => Just(vec!["*"]),
                    1 => Just(vec!["*", "x"]),
                    1 => Just(vec!["a", "*"]),
                ],
                prop::sample::select(vec![A, AAAA, TXT, CNAME]),
            ),
            1..24,
        ),
    ) {
        let world = zone.build();
        for (path, qtype) in questions {
            prop_assert_eq!(world.ask(&text(&path), qtype), zone.answer(&path, qtype), "{} {}", text(&path), qtype);
        }
    }
}
