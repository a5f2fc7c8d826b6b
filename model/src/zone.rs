//! The zone as one immutable snapshot, and the decision what answers a question.
//!
//! [`Snapshot::build`] merges static records, the hosts file and the wildcard into one tree;
//! [`Snapshot::resolve`] decides. Both are pure; the server and `explain` share them.

mod build;
mod resolve;
mod table;

use std::fmt;
use std::net::SocketAddr;

pub use build::{Builder, Census, HostsInput};
pub use resolve::{End, MAX_LINKS, Records, Resolution};

use crate::name::{DnsName, relative_to};
use table::Table;

/// Record types that the zone decides about, by their IANA numbers.
pub mod rtype {
    /// IPv4 address (RFC 1035).
    pub const A: u16 = 1;
    /// Name server (RFC 1035).
    pub const NS: u16 = 2;
    /// Alias (RFC 1035).
    pub const CNAME: u16 = 5;
    /// Start of authority (RFC 1035).
    pub const SOA: u16 = 6;
    /// IPv6 address (RFC 3596).
    pub const AAAA: u16 = 28;
    /// Any type (RFC 8482).
    pub const ANY: u16 = 255;
}

/// Where a name's data comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The apex itself: SOA and NS.
    Apex,
    /// `dns.staticRecords`.
    Static,
    /// The hosts file, inside the zone.
    Dynamic,
    /// `dns.wildcardAddress`.
    Wildcard,
    /// The hosts file, inside an extra zone.
    Override,
    /// Nothing of its own: an ancestor of names that exist.
    EmptyNonTerminal,
}

/// Which zone a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZoneRef {
    /// The authoritative zone.
    Primary,
    /// An extra zone, by its place in [`Snapshot::extra_zones`].
    Extra(usize),
}

/// Whether the hosts file is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostsState {
    /// The config names none: there are no dynamic names.
    NotConfigured,
    /// The config names one that was never read well: dynamic names are unknown.
    Unread,
    /// Read.
    Read,
}

/// A zone whose names are forwarded unless overridden.
#[derive(Clone)]
pub struct ExtraZone {
    /// Its apex.
    pub apex: DnsName,
    /// Servers in order of preference.
    pub upstreams: Vec<SocketAddr>,
    overrides: Table,
}

/// Everything that answers depend on, of one generation; immutable.
#[derive(Clone)]
pub struct Snapshot {
    generation: u64,
    serial: u32,
    ttl: u32,
    negative_ttl: u32,
    apex: DnsName,
    wildcard: Option<[u8; 4]>,
    /// Names relative to the apex.
    names: Table,
    aliases: Vec<DnsName>,
    extra_zones: Vec<ExtraZone>,
    hosts: HostsState,
}

impl Snapshot {
    /// Counts up by one per snapshot of this process.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// SOA serial (RFC 1982 arithmetic).
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// TTL of positive answers in seconds.
    pub fn ttl(&self) -> u32 {
        self.ttl
    }

    /// TTL of negative answers and MINIMUM of the SOA, in seconds.
    pub fn negative_ttl(&self) -> u32 {
        self.negative_ttl
    }

    /// Apex of the authoritative zone.
    pub fn apex(&self) -> &DnsName {
        &self.apex
    }

    /// The extra zones in the config's order.
    pub fn extra_zones(&self) -> &[ExtraZone] {
        &self.extra_zones
    }

    /// Apex of the zone referred to; the primary one's if there is no such extra zone.
    pub fn apex_of(&self, zone: ZoneRef) -> &DnsName {
        match zone {
            ZoneRef::Primary => &self.apex,
            ZoneRef::Extra(index) => self
                .extra_zones
                .get(index)
                .map_or(&self.apex, |zone| &zone.apex),
        }
    }

    /// The zone that a name belongs to, by whole labels.
    pub fn zone_of(&self, name: &DnsName) -> Option<ZoneRef> {
        self.place(name.as_wire()).map(|(zone, _)| zone)
    }

    /// The zone of a name, and the name relative to that zone's apex.
    fn place<'a>(&self, name: &'a [u8]) -> Option<(ZoneRef, &'a [u8])> {
        if let Some(relative) = relative_to(name, self.apex.as_wire()) {
            return Some((ZoneRef::Primary, relative));
        }
        self.extra_zones
            .iter()
            .enumerate()
            .find_map(|(index, zone)| {
                let relative = relative_to(name, zone.apex.as_wire())?;
                Some((ZoneRef::Extra(index), relative))
            })
    }

    /// Whether dynamic names are known.
    pub fn hosts(&self) -> HostsState {
        self.hosts
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} generation {})", self.apex, self.generation)
    }
}

/// The serial of new content: the time in seconds since 1970, or one more than the last serial
/// when that is not later in RFC 1982 arithmetic.
pub fn next_serial(now: u32, previous: Option<u32>) -> u32 {
    match previous {
        // RFC 1982 §3.2: `now` is greater when it lies in the half circle ahead.
        Some(last) if !(1..0x8000_0000).contains(&now.wrapping_sub(last)) => last.wrapping_add(1),
        _ => now,
    }
}

#[cfg(test)]
mod tests;
