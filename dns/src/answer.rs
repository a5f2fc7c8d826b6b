//! From a query and a snapshot to a reply, or to a job for the forwarder. Pure: no I/O, no clock,
//! no randomness.
//!
//! [`Snapshot::resolve`] decides; this module turns decisions into messages.

use std::sync::Arc;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RecordType};
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::{End, MAX_LINKS, Records, Resolution, Snapshot, ZoneRef};

use crate::forwarding::{ClientTransport, ExtendedError, Failure, Forwarded, Question};
use crate::query::Query;
use crate::reply::{AA, AD, Builder, CD, Data, RA, TC, Written, wire_name};
use crate::wire::{Rcode, ede};

/// What becomes of a query.
#[derive(Debug)]
pub enum Answer {
    /// The reply is ready.
    Reply(Reply),
    /// Upstreams have to be asked first; [`finish`] completes the job.
    Forward(Box<Job>),
}

/// A reply, and what the metrics want to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The message.
    pub octets: Vec<u8>,
    /// Its response code.
    pub rcode: Rcode,
    /// TC is set.
    pub truncated: bool,
    /// The zone of the question name.
    pub zone: ZoneKind,
}

/// The zone that a question name belongs to, as the metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZoneKind {
    /// The authoritative zone.
    Primary,
    /// An extra zone.
    Extra,
    /// None of ours, or no question at all.
    None,
}

/// A query that waits for upstreams. It holds the snapshot it started with, so that one reply
/// never mixes generations.
#[derive(Debug)]
pub struct Job {
    snapshot: Arc<Snapshot>,
    query: Query,
    rotation: usize,
    parts: Vec<Part>,
    links: usize,
    zone: usize,
    /// The name to ask for, as it is to be sent.
    name: Name,
}

/// A stretch of the alias chain that is known already.
#[derive(Debug)]
enum Part {
    Alias { owner: DnsName, target: DnsName },
    Forwarded(Forwarded),
}

impl Reply {
    fn new(written: Written, zone: ZoneKind) -> Self {
        let Written {
            octets,
            rcode,
            truncated,
        } = written;
        Self {
            octets,
            rcode,
            truncated,
            zone,
        }
    }

    /// A reply to a message that asked nothing a zone could answer.
    pub fn without_zone(written: Written) -> Self {
        Self::new(written, ZoneKind::None)
    }

    /// SERVFAIL without any data: something broke inside.
    pub(crate) fn broken(query: &Query, zone: ZoneKind) -> Self {
        let mut builder = Builder::new(query);
        builder.extended_error(ede::OTHER, "");
        Self::new(builder.finish(Rcode::ServFail), zone)
    }
}

impl Job {
    /// The apex of the extra zone whose upstreams are to be asked.
    pub fn zone(&self) -> &DnsName {
        self.snapshot.apex_of(ZoneRef::Extra(self.zone))
    }

    /// The query that waits.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// What to ask the upstreams.
    pub fn question(&self) -> Question {
        Question {
            name: self.name.clone(),
            qtype: self.query.qtype.into(),
            dnssec_ok: self.query.edns.is_some_and(|edns| edns.dnssec_ok),
            checking_disabled: self.query.flags.checking_disabled,
            recursion_desired: self.query.flags.recursion_desired,
            authentic_data: self.query.flags.authentic_data,
            transport: self.query.transport,
        }
    }
}

/// Answers a query from a snapshot. `rotation` picks the first record of an RRset (rule 36).
pub fn answer(snapshot: &Arc<Snapshot>, query: Query, rotation: usize) -> Answer {
    let resolution = snapshot.resolve(&query.name, query.qtype);
    if let End::Forward(zone) = resolution.end {
        let parts = aliases(&query.name, &resolution.chain).collect();
        let name = match resolution.chain.last() {
            Some(target) => hickory_name(target.as_wire()),
            None => hickory_name(query.name_as_sent()),
        };
        let links = resolution.chain.len();
        let snapshot = Arc::clone(snapshot);
        return Answer::Forward(Box::new(Job {
            snapshot,
            query,
            rotation,
            parts,
            links,
            zone,
            name,
        }));
    }
    Answer::Reply(
        Compose {
            snapshot,
            query: &query,
            rotation,
            parts: &[],
        }
        .local(&query.name, &resolution),
    )
}

/// Completes a job with what the upstreams said. When their alias chain comes back by way of our
/// zone, this can be another job; there are at most [`MAX_LINKS`] of them.
pub fn finish(job: Job, result: Result<Forwarded, Failure>) -> Answer {
    let Job {
        snapshot,
        query,
        rotation,
        mut parts,
        mut links,
        zone: _,
        name: _,
    } = job;
    let forwarded = match result {
        Ok(forwarded) if forwarded.truncated && query.transport == ClientTransport::Tcp => {
            // Rule 48: the rest could not be had, and "ask over TCP" is no answer over TCP.
            Err(Failure::Upstream {
                rcode: forwarded.rcode,
                extended: None,
            })
        }
        other => other,
    };
    let compose = |parts| Compose {
        snapshot: &snapshot,
        query: &query,
        rotation,
        parts,
    };
    let forwarded = match forwarded {
        Ok(forwarded) => forwarded,
        Err(failure) => return Answer::Reply(compose(&parts).failure(&failure)),
    };
    links += forwarded.links;
    if links > MAX_LINKS {
        return Answer::Reply(compose(&parts).alias_loop());
    }
    let target = forwarded
        .continue_at
        .as_ref()
        .and_then(|name| DnsName::from_wire(&wire_name(name)).ok());
    let Some(target) = target else {
        return Answer::Reply(compose(&parts).forwarded(&forwarded));
    };
    parts.push(Part::Forwarded(forwarded));
    let resolution = snapshot.resume(&target, query.qtype, links);
    let repeated = std::iter::once(&target).chain(resolution.chain.iter().copied());
    if repeated.into_iter().any(|name| is_owner(&parts, name)) {
        return Answer::Reply(compose(&parts).alias_loop());
    }
    let End::Forward(zone) = resolution.end else {
        return Answer::Reply(compose(&parts).local(&target, &resolution));
    };
    links += resolution.chain.len();
    let name = hickory_name(
        resolution
            .chain
            .last()
            .copied()
            .unwrap_or(&target)
            .as_wire(),
    );
    parts.extend(aliases(&target, &resolution.chain));
    Answer::Forward(Box::new(Job {
        snapshot,
        query,
        rotation,
        parts,
        links,
        zone,
        name,
    }))
}

/// Everything a reply is made from, but its end.
struct Compose<'a> {
    snapshot: &'a Snapshot,
    query: &'a Query,
    rotation: usize,
    parts: &'a [Part],
}

impl Compose<'_> {
    /// The end stands in the snapshot, at `name` or at the end of the aliases from there.
    fn local(&self, name: &DnsName, resolution: &Resolution<'_>) -> Reply {
        let Resolution {
            zone: _,
            chain,
            end,
        } = resolution;
        let ttl = self.snapshot.ttl();
        let mut builder = self.start();
        match end {
            End::NotOurs => builder.extended_error(ede::NOT_AUTHORITATIVE, ""),
            End::HostsUnread => {
                builder.extended_error(ede::NOT_READY, "the hosts file was not read yet");
            }
            End::AliasLoop => return self.alias_loop(),
            End::Records(..)
            | End::NoData(..)
            | End::NoSuchName
            | End::Outside
            | End::Forward(_) => {}
        }
        let ours = match self.parts.first() {
            Some(Part::Alias { .. }) => true,
            Some(Part::Forwarded(_)) => false,
            None => !chain.is_empty() || !matches!(end, End::NotOurs | End::HostsUnread),
        };
        if ours {
            builder.set(AA);
        }
        if !self.parts.is_empty() {
            self.copy_checking_disabled(&mut builder);
        }
        self.write_parts(&mut builder);
        let mut owner = name;
        for target in chain {
            builder.answer(owner.as_wire(), ttl, Data::Cname(target.as_wire()));
            owner = target;
        }
        let rcode = match end {
            End::Records(records, _) => {
                self.write_records(&mut builder, owner, records);
                Rcode::NoError
            }
            End::NoData(zone, _) => {
                self.write_negative_soa(&mut builder, *zone);
                Rcode::NoError
            }
            End::NoSuchName => {
                self.write_negative_soa(&mut builder, ZoneRef::Primary);
                Rcode::NxDomain
            }
            End::Outside => Rcode::NoError,
            End::NotOurs => Rcode::Refused,
            End::HostsUnread | End::AliasLoop | End::Forward(_) => Rcode::ServFail,
        };
        Reply::new(builder.finish(rcode), self.zone())
    }

    /// The end stands in an upstream's answer.
    fn forwarded(&self, forwarded: &Forwarded) -> Reply {
        let mut builder = self.start();
        let rcode = match forwarded.rcode {
            ResponseCode::NoError => Rcode::NoError,
            ResponseCode::NXDomain => Rcode::NxDomain,
            _ => Rcode::ServFail,
        };
        if forwarded.stale {
            builder.extended_error(ede::STALE, "");
        }
        match self.parts.first() {
            Some(Part::Alias { .. }) => builder.set(AA),
            Some(Part::Forwarded(_)) => {}
            None if forwarded.authentic_data => builder.set(AD),
            None => {}
        }
        self.copy_checking_disabled(&mut builder);
        if forwarded.truncated {
            builder.set(TC);
        }
        self.write_parts(&mut builder);
        for record in &forwarded.answer {
            builder.foreign_answer(record);
        }
        if !forwarded.truncated {
            for record in &forwarded.authority {
                builder.foreign_authority(record);
            }
        }
        Reply::new(builder.finish(rcode), self.zone())
    }

    /// Upstreams failed: what is known of the chain stays (rule 28).
    fn failure(&self, failure: &Failure) -> Reply {
        let mut builder = self.start();
        let ExtendedError { code, text } = failure.extended_error();
        builder.extended_error(code, &text);
        if matches!(self.parts.first(), Some(Part::Alias { .. })) {
            builder.set(AA);
        }
        self.copy_checking_disabled(&mut builder);
        self.write_parts(&mut builder);
        Reply::new(builder.finish(Rcode::ServFail), self.zone())
    }

    /// Rule 30: SERVFAIL with an empty answer section.
    fn alias_loop(&self) -> Reply {
        let mut builder = self.start();
        builder.extended_error(ede::OTHER, "alias loop, or more than 8 aliases");
        Reply::new(builder.finish(Rcode::ServFail), self.zone())
    }

    fn start(&self) -> Builder {
        let mut builder = Builder::new(self.query);
        if self.zone() == ZoneKind::Extra {
            builder.set(RA);
        }
        builder
    }

    /// Rule 70: CD is copied to what was forwarded.
    fn copy_checking_disabled(&self, builder: &mut Builder) {
        if self.zone() == ZoneKind::Extra && self.query.flags.checking_disabled {
            builder.set(CD);
        }
    }

    fn zone(&self) -> ZoneKind {
        match self.snapshot.zone_of(&self.query.name) {
            Some(ZoneRef::Primary) => ZoneKind::Primary,
            Some(ZoneRef::Extra(_)) => ZoneKind::Extra,
            None => ZoneKind::None,
        }
    }

    fn write_parts(&self, builder: &mut Builder) {
        for part in self.parts {
            match part {
                Part::Alias { owner, target } => {
                    builder.answer(
                        owner.as_wire(),
                        self.snapshot.ttl(),
                        Data::Cname(target.as_wire()),
                    );
                }
                Part::Forwarded(forwarded) => {
                    for record in &forwarded.answer {
                        builder.foreign_answer(record);
                    }
                }
            }
        }
    }

    fn write_records(&self, builder: &mut Builder, owner: &DnsName, records: &Records<'_>) {
        let (owner, ttl) = (owner.as_wire(), self.snapshot.ttl());
        match records {
            Records::A(set) => {
                for address in rotated(set, self.rotation) {
                    builder.answer(owner, ttl, Data::Address(address));
                }
            }
            Records::Aaaa(set) => {
                for address in rotated(set, self.rotation) {
                    builder.answer(owner, ttl, Data::Address(address));
                }
            }
            Records::Cname(target) => builder.answer(owner, ttl, Data::Cname(target.as_wire())),
            Records::Soa => builder.answer(owner, ttl, self.soa(ZoneRef::Primary)),
            Records::Ns => builder.answer(owner, ttl, Data::Ns(self.snapshot.apex().as_wire())),
        }
    }

    fn write_negative_soa(&self, builder: &mut Builder, zone: ZoneRef) {
        let ttl = self.snapshot.ttl().min(self.snapshot.negative_ttl());
        builder.authority(self.snapshot.apex_of(zone).as_wire(), ttl, self.soa(zone));
    }

    fn soa(&self, zone: ZoneRef) -> Data<'_> {
        Data::Soa {
            apex: self.snapshot.apex_of(zone).as_wire(),
            serial: self.snapshot.serial(),
            minimum: self.snapshot.negative_ttl(),
        }
    }
}

/// The alias records from `name` along `chain`.
fn aliases<'a>(
    name: &'a DnsName,
    chain: &'a [&'a DnsName],
) -> impl Iterator<Item = Part> + use<'a> {
    std::iter::once(name)
        .chain(chain.iter().copied())
        .zip(chain)
        .map(|(owner, target)| Part::Alias {
            owner: owner.clone(),
            target: (*target).clone(),
        })
}

fn is_owner(parts: &[Part], name: &DnsName) -> bool {
    parts.iter().any(|part| match part {
        Part::Alias { owner, target: _ } => owner == name,
        Part::Forwarded(forwarded) => forwarded.answer.iter().any(|record| {
            record.record_type() == RecordType::CNAME
                && wire_name(&record.name).eq_ignore_ascii_case(name.as_wire())
        }),
    })
}

fn rotated<T>(set: &[T], rotation: usize) -> impl Iterator<Item = &T> {
    let (before, after) = set.split_at(rotation.checked_rem(set.len()).unwrap_or_default());
    after.iter().chain(before)
}

/// A name for the forwarder, from valid uncompressed wire format.
pub(crate) fn hickory_name(wire: &[u8]) -> Name {
    let labels = std::iter::successors(Some(wire), |wire| tsunaro_model::name::parent(wire))
        .filter_map(|wire| wire.get(1..=usize::from(*wire.first()?)))
        .filter(|label| !label.is_empty());
    let mut name = Name::from_labels(labels).unwrap_or_default();
    name.set_fqdn(true);
    name
}

#[cfg(test)]
mod tests;
