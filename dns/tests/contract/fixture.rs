//! The zone that the rules are tried on, and ways to ask it.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, CNAME, SOA};
use hickory_proto::rr::{RData, Record};
use tsunaro_dns::answer::{Answer, Reply, answer, finish};
use tsunaro_dns::forwarding::{ClientTransport, Failure, Forwarded, Question};
use tsunaro_dns::query::{Incoming, parse};
use tsunaro_model::config::{DnsConfig, ExtraZoneConfig, StaticData, StaticRecord};
use tsunaro_model::hosts::{HostEntry, Hosts};
use tsunaro_model::zone::{HostsInput, Snapshot};

use crate::message::{Ask, ask, assert_mirrors, hickory, line, name};

pub(crate) const SERIAL: u32 = 4_000_000_000;

pub(crate) fn config(wildcard: bool) -> DnsConfig {
    let address = |text: &str, a: &str| StaticRecord {
        name: name(text),
        data: StaticData::Addresses(vec![a.parse().unwrap()]),
    };
    let alias = |from: &str, to: &str| StaticRecord {
        name: name(from),
        data: StaticData::Alias(name(to)),
    };
    DnsConfig {
        zone: name("Z"),
        addresses: vec![],
        static_records: vec![
            address("static.Z", "192.0.2.1"),
            address("both.Z", "192.0.2.117"),
            address("deep.ent.static.Z", "192.0.2.2"),
            alias("alias.Z", "web.Z"),
            alias("chain1.Z", "chain2.Z"),
            alias("chain2.Z", "alias.Z"),
            alias("dangling.Z", "nothere.Z"),
            alias("aliasout.Z", "host.example.org"),
            alias("aliasextra.Z", "svc.E"),
            alias("aliasfwd.Z", "fwd.E"),
            alias("aliasmany.Z", "many.Z"),
            alias("back.Z", "aliasfwd.Z"),
        ],
        wildcard_address: wildcard.then(|| "192.0.2.200".parse().unwrap()),
        extra_zones: vec![ExtraZoneConfig {
            zone: name("E"),
            upstreams: vec![
                "198.51.100.53:53".parse().unwrap(),
                "198.51.100.54:53".parse().unwrap(),
            ],
        }],
        ttl: 30,
        negative_ttl: 5,
    }
}

pub(crate) fn hosts() -> Hosts {
    let mut entries: Vec<(String, &str)> = [
        ("192.0.2.10", "web.Z"),
        ("192.0.2.11", "db.Z"),
        ("2001:db8::11", "db.Z"),
        ("2001:db8::12", "six.Z"),
        ("192.0.2.15", "a.b.Z"),
        ("192.0.2.17", "both.Z"),
        ("192.0.2.18", "multi.Z"),
        ("192.0.2.19", "multi.Z"),
        ("192.0.2.20", "multi.Z"),
        ("192.0.2.21", "Z"),
        ("198.51.100.30", "svc.E"),
        ("2001:db8::31", "six.E"),
        ("203.0.113.40", "outside.example.org"),
    ]
    .map(|(address, text)| (address.to_owned(), text))
    .into();
    entries.extend((1..=200).map(|i| (format!("198.51.100.{i}"), "many.Z")));
    let entries = entries.into_iter().map(|(address, text)| HostEntry {
        name: name(text),
        address: address.parse::<IpAddr>().unwrap(),
    });
    Hosts {
        entries: entries.collect(),
        ..Hosts::default()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct World(pub(crate) Arc<Snapshot>);

/// Without a wildcard.
pub(crate) fn w0() -> World {
    static WORLD: LazyLock<World> = LazyLock::new(|| world(&config(false), &hosts()));
    WORLD.clone()
}

/// With the wildcard 192.0.2.200.
pub(crate) fn w1() -> World {
    static WORLD: LazyLock<World> = LazyLock::new(|| world(&config(true), &hosts()));
    WORLD.clone()
}

pub(crate) fn world(config: &DnsConfig, hosts: &Hosts) -> World {
    World(Arc::new(
        Snapshot::build(config, HostsInput::Read(hosts), 1, SERIAL).0,
    ))
}

/// A hosts file is configured and was never read.
pub(crate) fn unread() -> World {
    World(Arc::new(
        Snapshot::build(&config(true), HostsInput::Unread, 1, SERIAL).0,
    ))
}

impl World {
    /// The reply's line, for a query over UDP that no upstream is needed for.
    pub(crate) fn ask(&self, text: &str, qtype: u16) -> String {
        self.put(&ask(text, qtype))
    }

    /// As [`World::ask`], for any query.
    pub(crate) fn put(&self, query: &Ask) -> String {
        let reply = self.reply(query, ClientTransport::Udp, |question| {
            panic!("forwarded: {question:?}")
        });
        line(&reply.octets)
    }

    /// As [`World::ask`], with an upstream.
    pub(crate) fn forward(
        &self,
        query: &Ask,
        upstream: impl FnMut(&Question) -> Result<Forwarded, Failure>,
    ) -> String {
        line(&self.reply(query, ClientTransport::Udp, upstream).octets)
    }

    pub(crate) fn reply(
        &self,
        query: &Ask,
        transport: ClientTransport,
        upstream: impl FnMut(&Question) -> Result<Forwarded, Failure>,
    ) -> Reply {
        let reply = self
            .raw(&query.octets(), transport, upstream)
            .expect("a reply");
        assert_mirrors(query, &reply.octets);
        reply
    }

    /// Any octets; none is silence.
    pub(crate) fn raw(
        &self,
        octets: &[u8],
        transport: ClientTransport,
        mut upstream: impl FnMut(&Question) -> Result<Forwarded, Failure>,
    ) -> Option<Reply> {
        let query = match parse(octets, transport) {
            Incoming::Drop => return None,
            Incoming::Reply(written) => return Some(Reply::without_zone(written)),
            Incoming::Query(query) => query,
        };
        let mut next = answer(&self.0, query, 0);
        loop {
            match next {
                Answer::Reply(reply) => return Some(reply),
                Answer::Forward(job) => {
                    assert_eq!(job.zone(), &name("E"));
                    let result = upstream(&job.question());
                    next = finish(*job, result);
                }
            }
        }
    }

    pub(crate) fn check(&self, cases: &[(&str, u16, &str)]) {
        for (text, qtype, expected) in cases {
            assert_eq!(&self.ask(text, *qtype), expected, "{text} type {qtype}");
        }
    }
}

pub(crate) fn forwarded(answer: Vec<Record>) -> Forwarded {
    let links = answer
        .iter()
        .filter(|record| matches!(record.data, RData::CNAME(_)))
        .count();
    Forwarded {
        rcode: ResponseCode::NoError,
        answer,
        authority: vec![],
        authentic_data: false,
        truncated: false,
        stale: false,
        continue_at: None,
        links,
    }
}

pub(crate) fn a(owner: &str, address: &str) -> Record {
    Record::from_rdata(hickory(owner), 20, RData::A(A(address.parse().unwrap())))
}

pub(crate) fn cname(owner: &str, target: &str) -> Record {
    Record::from_rdata(hickory(owner), 20, RData::CNAME(CNAME(hickory(target))))
}

pub(crate) fn soa(owner: &str) -> Record {
    let soa = SOA::new(hickory("ns.E"), hickory("admin.E"), 7, 1, 2, 3, 10);
    Record::from_rdata(hickory(owner), 10, RData::SOA(soa))
}
