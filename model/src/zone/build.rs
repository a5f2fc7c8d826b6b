//! Merging static records, dynamic names and overrides into one tree.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use super::{Addresses, ExtraZone, HostsState, Node, Snapshot, ZoneRef};
use crate::config::{DnsConfig, ExtraZoneConfig, StaticData, StaticRecord};
use crate::hosts::{HostEntry, Hosts};
use crate::name::DnsName;

/// Addresses kept per name and family; more are cut with a warning.
const MAX_ADDRESSES: usize = 1024;

/// What the caller knows of the hosts file.
#[derive(Debug, Clone, Copy)]
pub enum HostsInput<'a> {
    /// The config names none.
    NotConfigured,
    /// Named, but never read well.
    Unread,
    /// Its last good content.
    Read(&'a Hosts),
}

/// Counts and remarks of a build, for the log, the metrics and the status report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Names with static data.
    pub static_names: usize,
    /// Names with dynamic data that is served.
    pub dynamic_names: usize,
    /// Overridden names of extra zones.
    pub overrides: usize,
    /// Entries of the hosts file that lie in no zone of ours.
    pub foreign_entries: usize,
    /// Dynamic names hidden by a static record of the same name, sorted.
    pub shadowed: Vec<DnsName>,
    /// Names of which addresses beyond 1024 per family were cut, sorted.
    pub cut: Vec<DnsName>,
}

impl Snapshot {
    /// Builds the snapshot of one generation. `generation` and `serial` come from the caller,
    /// since they need memory and a clock.
    pub fn build(
        dns: &DnsConfig,
        hosts: HostsInput<'_>,
        generation: u64,
        serial: u32,
    ) -> (Self, Census) {
        let DnsConfig {
            zone,
            addresses: _,
            static_records,
            wildcard_address,
            extra_zones,
            ttl,
            negative_ttl,
        } = dns;
        let mut census = Census {
            static_names: static_records.len(),
            ..Census::default()
        };
        let mut snapshot = Self {
            generation,
            serial,
            ttl: *ttl,
            negative_ttl: *negative_ttl,
            apex: zone.clone(),
            wildcard: wildcard_address.and_then(|address| {
                Some((
                    DnsName::from_labels([b"*".as_slice()])
                        .ok()?
                        .below(zone)
                        .ok()?,
                    address,
                ))
            }),
            nodes: HashMap::new(),
            extra_zones: extra_zones.iter().map(empty_extra_zone).collect(),
            hosts: match hosts {
                HostsInput::NotConfigured => HostsState::NotConfigured,
                HostsInput::Unread => HostsState::Unread,
                HostsInput::Read(_) => HostsState::Read,
            },
        };
        snapshot.nodes.insert(zone.clone(), Node::EmptyNonTerminal);
        for record in static_records {
            snapshot.add_static(record);
        }
        if let HostsInput::Read(Hosts { entries, .. }) = hosts {
            for entry in entries {
                snapshot.add_dynamic(entry, &mut census);
            }
        }
        census.dynamic_names = snapshot
            .nodes
            .values()
            .filter(|node| matches!(node, Node::Dynamic(_)))
            .count();
        census.overrides = snapshot
            .extra_zones
            .iter()
            .map(|zone| zone.overrides.len())
            .sum();
        for names in [&mut census.shadowed, &mut census.cut] {
            names.sort_unstable();
            names.dedup();
        }
        (snapshot, census)
    }

    fn add_static(&mut self, record: &StaticRecord) {
        let StaticRecord { name, data } = record;
        let node = match data {
            StaticData::Alias(target) => Node::Alias(target.clone()),
            StaticData::Addresses(addresses) => {
                let mut node = Addresses::default();
                for address in addresses {
                    add_address(&mut node, *address);
                }
                Node::Static(node)
            }
        };
        self.nodes.insert(name.clone(), node);
        self.add_ancestors(name);
    }

    fn add_dynamic(&mut self, entry: &HostEntry, census: &mut Census) {
        let HostEntry { name, address } = entry;
        let addresses = match self.zone_of(name) {
            None => {
                census.foreign_entries += 1;
                return;
            }
            Some(ZoneRef::Extra(index)) => match self.extra_zones.get_mut(index) {
                Some(zone) => zone.overrides.entry(name.clone()).or_default(),
                None => return,
            },
            Some(ZoneRef::Primary) => {
                let node = match self.nodes.entry(name.clone()) {
                    Entry::Occupied(node) => node.into_mut(),
                    Entry::Vacant(vacant) => {
                        vacant.insert(Node::EmptyNonTerminal);
                        self.add_ancestors(name);
                        let Some(node) = self.nodes.get_mut(name) else {
                            return;
                        };
                        node
                    }
                };
                if matches!(node, Node::EmptyNonTerminal) {
                    *node = Node::Dynamic(Addresses::default());
                }
                match node {
                    Node::Dynamic(addresses) => addresses,
                    Node::Alias(_) | Node::Static(_) | Node::EmptyNonTerminal => {
                        census.shadowed.push(name.clone());
                        return;
                    }
                }
            }
        };
        if !add_address(addresses, *address) {
            census.cut.push(name.clone());
        }
    }

    /// Makes every name between `name` and the apex exist (RFC 4592 §2.2.2).
    fn add_ancestors(&mut self, name: &DnsName) {
        for suffix in name.suffixes().skip(1) {
            if suffix.len() <= self.apex.as_wire().len() || self.nodes.contains_key(suffix) {
                return;
            }
            if let Ok(ancestor) = DnsName::from_wire(suffix) {
                self.nodes.insert(ancestor, Node::EmptyNonTerminal);
            }
        }
    }
}

fn empty_extra_zone(config: &ExtraZoneConfig) -> ExtraZone {
    let ExtraZoneConfig { zone, upstreams } = config;
    ExtraZone {
        apex: zone.clone(),
        upstreams: upstreams.clone(),
        overrides: HashMap::new(),
    }
}

/// Adds an address unless it is there; false when the RRset is full.
fn add_address(addresses: &mut Addresses, address: IpAddr) -> bool {
    fn push<T: PartialEq>(set: &mut Vec<T>, address: T) -> bool {
        if set.contains(&address) {
            return true;
        }
        if set.len() >= MAX_ADDRESSES {
            return false;
        }
        set.push(address);
        true
    }
    match address {
        IpAddr::V4(v4) => push(&mut addresses.v4, v4),
        IpAddr::V6(v6) => push(&mut addresses.v6, v6),
    }
}
