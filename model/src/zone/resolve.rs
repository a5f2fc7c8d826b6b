//! The decision what answers a question: one walk over one snapshot.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Addresses, HostsState, Node, Snapshot, Source, ZoneRef, rtype};
use crate::name::DnsName;

/// CNAME links followed for one question, upstream's included; more is a loop.
pub const MAX_LINKS: usize = 8;

/// What answers a question: the aliases followed, then how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution<'a> {
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
    /// A, in file order.
    A(&'a [Ipv4Addr]),
    /// AAAA, in file order.
    Aaaa(&'a [Ipv6Addr]),
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
        match self.zone_of(qname) {
            Some(zone) => self.follow(qname, qtype, zone, 0),
            None => Resolution {
                chain: Vec::new(),
                end: End::NotOurs,
            },
        }
    }

    /// Goes on where an upstream's alias entered the primary zone, after `links` aliases.
    pub fn resume<'a>(&'a self, name: &DnsName, qtype: u16, links: usize) -> Resolution<'a> {
        match self.zone_of(name) {
            Some(zone) => self.follow(name, qtype, zone, links),
            None => Resolution {
                chain: Vec::new(),
                end: End::Outside,
            },
        }
    }

    fn follow<'a>(
        &'a self,
        qname: &DnsName,
        qtype: u16,
        zone: ZoneRef,
        links: usize,
    ) -> Resolution<'a> {
        let mut chain: Vec<&'a DnsName> = Vec::new();
        let mut zone = zone;
        loop {
            let name = chain.last().copied().unwrap_or(qname);
            let target = match zone {
                ZoneRef::Extra(index) => {
                    let end = self.end_in_extra(index, name, qtype);
                    return Resolution { chain, end };
                }
                ZoneRef::Primary => match self.step(name, qtype) {
                    Step::End(end) => return Resolution { chain, end },
                    Step::Alias(target) => target,
                },
            };
            if links + chain.len() >= MAX_LINKS || target == qname || chain.contains(&target) {
                return Resolution {
                    chain,
                    end: End::AliasLoop,
                };
            }
            chain.push(target);
            match self.zone_of(target) {
                Some(next) => zone = next,
                None => {
                    return Resolution {
                        chain,
                        end: End::Outside,
                    };
                }
            }
        }
    }

    fn step<'a>(&'a self, name: &DnsName, qtype: u16) -> Step<'a> {
        let at_apex = *name == self.apex;
        if at_apex && matches!(qtype, rtype::SOA | rtype::ANY) {
            return Step::End(End::Records(Records::Soa, Source::Apex));
        }
        if at_apex && qtype == rtype::NS {
            return Step::End(End::Records(Records::Ns, Source::Apex));
        }
        let unread = self.hosts == HostsState::Unread;
        Step::End(match self.nodes.get(name) {
            Some(Node::Alias(target)) if matches!(qtype, rtype::CNAME | rtype::ANY) => {
                End::Records(Records::Cname(target), Source::Static)
            }
            Some(Node::Alias(target)) => return Step::Alias(target),
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
    fn end_of_missing(&self, name: &DnsName, qtype: u16) -> End<'_> {
        let Some((wildcard_name, address)) = &self.wildcard else {
            return End::NoSuchName;
        };
        let encloser = name
            .suffixes()
            .skip(1)
            .find(|suffix| self.nodes.contains_key(*suffix) || *suffix == wildcard_name.as_wire());
        if encloser != Some(self.apex.as_wire()) {
            return End::NoSuchName;
        }
        match qtype {
            rtype::A | rtype::ANY => {
                End::Records(Records::A(std::slice::from_ref(address)), Source::Wildcard)
            }
            _ => End::NoData(ZoneRef::Primary, Source::Wildcard),
        }
    }

    fn end_in_extra(&self, index: usize, name: &DnsName, qtype: u16) -> End<'_> {
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
            Some(addresses) => addresses.end(qtype, ZoneRef::Extra(index), Source::Override),
            None => End::Forward(index),
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

impl Addresses {
    fn end(&self, qtype: u16, zone: ZoneRef, source: Source) -> End<'_> {
        match qtype {
            rtype::A | rtype::ANY if !self.v4.is_empty() => {
                End::Records(Records::A(&self.v4), source)
            }
            rtype::AAAA | rtype::ANY if !self.v6.is_empty() => {
                End::Records(Records::Aaaa(&self.v6), source)
            }
            _ => End::NoData(zone, source),
        }
    }
}
