//! The decision what answers a question: one walk over one snapshot.

use super::table::{Addresses, Node};
use super::{HostsState, Snapshot, Source, ZoneRef, rtype};
use crate::name::{DnsName, parent};

/// The wildcard's name, relative to the apex.
const WILDCARD: &[u8] = b"\x01*";

/// CNAME links followed for one question, upstream's included; more is a loop.
pub const MAX_LINKS: usize = 8;

/// What answers a question: the aliases followed, then how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution<'a> {
    /// The zone of the question name.
    pub zone: Option<ZoneRef>,
    /// Targets of the CNAMEs followed, in order; the first one is the question name's target.
    pub chain: Vec<&'a DnsName>,
    /// What stands at the end: at the last target, or at the question name itself.
    pub end: End<'a>,
}

/// How a resolution ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End<'a> {
    /// The question name lies in no zone: REFUSED.
    NotOurs,
    /// Only the hosts file could tell, and it was never read: SERVFAIL with EDE 14.
    HostsUnread,
    /// One RRset.
    Records(Records<'a>, Source),
    /// The name exists and has no such type: NODATA with the SOA of the zone.
    NoData(ZoneRef, Source),
    /// No such name: NXDOMAIN with the SOA of the primary zone.
    NoSuchName,
    /// The upstreams of the extra zone with this index decide.
    Forward(usize),
    /// The last alias points outside all zones: the alias alone is the answer.
    Outside,
    /// More than [`MAX_LINKS`] aliases, or a circle: SERVFAIL.
    AliasLoop,
}

/// The RRset that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records<'a> {
    /// A: the octets of IPv4 addresses in file order.
    A(&'a [[u8; 4]]),
    /// AAAA: the octets of IPv6 addresses in file order.
    Aaaa(&'a [[u8; 16]]),
    /// The alias itself, asked for as CNAME or ANY.
    Cname(&'a DnsName),
    /// The primary zone's SOA.
    Soa,
    /// The primary zone's NS.
    Ns,
}

impl Snapshot {
    /// Decides what answers `qname`, `qtype` (class IN).
    pub fn resolve<'a>(&'a self, qname: &DnsName, qtype: u16) -> Resolution<'a> {
        self.resolve_wire(qname.as_wire(), qtype)
    }

    /// As [`Snapshot::resolve`], for a name in canonical wire format. Allocates nothing unless
    /// there are aliases.
    pub fn resolve_wire<'a>(&'a self, qname: &[u8], qtype: u16) -> Resolution<'a> {
        self.follow(qname, qtype, 0).unwrap_or(Resolution {
            zone: None,
            chain: Vec::new(),
            end: End::NotOurs,
        })
    }

    /// Goes on where an upstream's alias entered the primary zone, after `links` aliases.
    pub fn resume<'a>(&'a self, name: &DnsName, qtype: u16, links: usize) -> Resolution<'a> {
        self.follow(name.as_wire(), qtype, links)
            .unwrap_or(Resolution {
                zone: None,
                chain: Vec::new(),
                end: End::Outside,
            })
    }

    /// None when the name itself lies in no zone.
    fn follow<'a>(&'a self, qname: &[u8], qtype: u16, links: usize) -> Option<Resolution<'a>> {
        let (place, name) = self.place(qname)?;
        let zone = Some(place);
        let mut target = match self.step(place, name, qtype) {
            Step::End(end) => {
                let chain = Vec::new();
                return Some(Resolution { zone, chain, end });
            }
            Step::Alias(target) => target,
        };
        let mut chain: Vec<&'a DnsName> = Vec::new();
        let end = loop {
            let repeated = target.as_wire() == qname || chain.contains(&target);
            if links + chain.len() >= MAX_LINKS || repeated {
                break End::AliasLoop;
            }
            chain.push(target);
            let Some((zone, name)) = self.place(target.as_wire()) else {
                break End::Outside;
            };
            match self.step(zone, name, qtype) {
                Step::End(end) => break end,
                Step::Alias(next) => target = next,
            }
        };
        Some(Resolution { zone, chain, end })
    }

    /// `name` is relative to the zone's apex.
    fn step<'a>(&'a self, zone: ZoneRef, name: &[u8], qtype: u16) -> Step<'a> {
        match zone {
            ZoneRef::Primary => self.step_in_primary(name, qtype),
            ZoneRef::Extra(index) => Step::End(self.end_in_extra(index, name, qtype)),
        }
    }

    /// `name` is relative to the apex.
    fn step_in_primary<'a>(&'a self, name: &[u8], qtype: u16) -> Step<'a> {
        let at_apex = name.is_empty();
        if at_apex && matches!(qtype, rtype::SOA | rtype::ANY) {
            return Step::End(End::Records(Records::Soa, Source::Apex));
        }
        if at_apex && qtype == rtype::NS {
            return Step::End(End::Records(Records::Ns, Source::Apex));
        }
        let unread = self.hosts == HostsState::Unread;
        let node = match self.names.get(name) {
            None if at_apex => Some(Node::EmptyNonTerminal),
            node => node,
        };
        Step::End(match node {
            Some(Node::Alias(index)) => match self.aliases.get(index) {
                Some(target) if matches!(qtype, rtype::CNAME | rtype::ANY) => {
                    End::Records(Records::Cname(target), Source::Static)
                }
                Some(target) => return Step::Alias(target),
                // Cannot be: the index was given out with the alias.
                None => End::AliasLoop,
            },
            Some(Node::Static(addresses)) => addresses.end(qtype, ZoneRef::Primary, Source::Static),
            Some(Node::Dynamic(addresses)) => {
                addresses.end(qtype, ZoneRef::Primary, Source::Dynamic)
            }
            // A dynamic name could stand here, and would change the answer for its types only.
            Some(Node::EmptyNonTerminal) if unread && is_address_type(qtype) => End::HostsUnread,
            Some(Node::EmptyNonTerminal) => {
                let source = if at_apex {
                    Source::Apex
                } else {
                    Source::EmptyNonTerminal
                };
                End::NoData(ZoneRef::Primary, source)
            }
            None if unread => End::HostsUnread,
            None => self.end_of_missing(name, qtype),
        })
    }

    /// RFC 4592: the wildcard stands for a missing name when its closest encloser is the apex.
    fn end_of_missing(&self, name: &[u8], qtype: u16) -> End<'_> {
        let Some(address) = &self.wildcard else {
            return End::NoSuchName;
        };
        let enclosed = std::iter::successors(parent(name), |name| parent(name))
            .filter(|name| !name.is_empty())
            .any(|name| name == WILDCARD || self.names.contains(name));
        if enclosed {
            return End::NoSuchName;
        }
        match qtype {
            rtype::A | rtype::ANY => {
                End::Records(Records::A(std::slice::from_ref(address)), Source::Wildcard)
            }
            _ => End::NoData(ZoneRef::Primary, Source::Wildcard),
        }
    }

    /// `name` is relative to the extra zone's apex.
    fn end_in_extra(&self, index: usize, name: &[u8], qtype: u16) -> End<'_> {
        if !is_address_type(qtype) {
            return End::Forward(index);
        }
        if self.hosts == HostsState::Unread {
            // Forwarding could leak past an override that is not known yet.
            return End::HostsUnread;
        }
        match self
            .extra_zones
            .get(index)
            .and_then(|zone| zone.overrides.get(name))
        {
            Some(Node::Dynamic(addresses)) => {
                addresses.end(qtype, ZoneRef::Extra(index), Source::Override)
            }
            // The names above an override are forwarded (rule 46).
            _ => End::Forward(index),
        }
    }
}

enum Step<'a> {
    Alias(&'a DnsName),
    End(End<'a>),
}

/// The types that a line of the hosts file can answer.
fn is_address_type(qtype: u16) -> bool {
    matches!(qtype, rtype::A | rtype::AAAA | rtype::ANY)
}

impl<'a> Addresses<'a> {
    fn end(self, qtype: u16, zone: ZoneRef, source: Source) -> End<'a> {
        match qtype {
            rtype::A | rtype::ANY if !self.v4.is_empty() => {
                End::Records(Records::A(self.v4), source)
            }
            rtype::AAAA | rtype::ANY if !self.v6.is_empty() => {
                End::Records(Records::Aaaa(self.v6), source)
            }
            _ => End::NoData(zone, source),
        }
    }
}
