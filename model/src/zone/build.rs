//! Merging static records, dynamic names and overrides into one tree.

use std::net::IpAddr;

use super::table::{Added, Table, TableBuilder};
use super::{ExtraZone, HostsState, Snapshot, ZoneRef};
use crate::config::{DnsConfig, ExtraZoneConfig, StaticData, StaticRecord};
use crate::hosts::Hosts;
use crate::name::{DnsName, relative_to};

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
        let mut builder = match hosts {
            HostsInput::NotConfigured => Builder::new(dns, HostsState::NotConfigured),
            HostsInput::Unread => Builder::new(dns, HostsState::Unread),
            HostsInput::Read(Hosts { entries, .. }) => {
                Builder::with_capacity(dns, entries.len(), entries.octets())
            }
        };
        if let HostsInput::Read(Hosts { entries, .. }) = hosts {
            for (name, address) in entries.wire() {
                builder.add(name, address);
            }
        }
        builder.finish(generation, serial)
    }
}

/// A snapshot in the making, for a hosts file whose names nobody keeps.
pub struct Builder {
    snapshot: Snapshot,
    tables: Tables,
    census: Census,
}

impl Builder {
    /// For a hosts file that was read and has no entries yet: [`Builder::add`]. `names` and
    /// `octets` are about what its entries and they come to.
    pub fn with_capacity(dns: &DnsConfig, names: usize, octets: usize) -> Self {
        Self::begin(dns, HostsState::Read, names, octets)
    }

    /// Without entries of a hosts file.
    pub fn new(dns: &DnsConfig, hosts: HostsState) -> Self {
        Self::begin(dns, hosts, 0, 0)
    }

    fn begin(dns: &DnsConfig, hosts: HostsState, names: usize, octets: usize) -> Self {
        let DnsConfig {
            zone,
            addresses: _,
            static_records,
            wildcard_address,
            extra_zones,
            ttl,
            negative_ttl,
        } = dns;
        let mut builder = Self {
            snapshot: Snapshot {
                generation: 0,
                serial: 0,
                ttl: *ttl,
                negative_ttl: *negative_ttl,
                apex: zone.clone(),
                wildcard: wildcard_address.map(|address| address.octets()),
                names: Table::default(),
                aliases: Vec::new(),
                extra_zones: extra_zones.iter().map(empty_extra_zone).collect(),
                hosts,
            },
            tables: Tables {
                names: TableBuilder::with_capacity(names + static_records.len(), octets),
                overrides: extra_zones
                    .iter()
                    .map(|_| TableBuilder::default())
                    .collect(),
            },
            census: Census {
                static_names: static_records.len(),
                ..Census::default()
            },
        };
        for record in static_records {
            builder.add_static(record);
        }
        builder
    }

    fn add_static(&mut self, record: &StaticRecord) {
        let StaticRecord { name, data } = record;
        let Self {
            snapshot, tables, ..
        } = self;
        let Some(name) = relative_to(name.as_wire(), snapshot.apex.as_wire()) else {
            return;
        };
        match data {
            StaticData::Alias(target) => {
                tables.names.alias(name, snapshot.aliases.len());
                snapshot.aliases.push(target.clone());
            }
            StaticData::Addresses(addresses) => tables.names.static_addresses(name, addresses),
        }
    }

    /// Adds an entry of the hosts file; the name in canonical wire format.
    pub fn add(&mut self, name: &[u8], address: IpAddr) {
        let Self {
            snapshot,
            tables,
            census,
        } = self;
        let added = match snapshot.place(name) {
            None => {
                census.foreign_entries += 1;
                return;
            }
            Some((ZoneRef::Extra(index), name)) => match tables.overrides.get_mut(index) {
                Some(table) => table.add_dynamic(name, address),
                None => return,
            },
            Some((ZoneRef::Primary, name)) => tables.names.add_dynamic(name, address),
        };
        let remarked = match added {
            Added::Kept => return,
            Added::Full => &mut census.cut,
            Added::Shadowed => &mut census.shadowed,
        };
        // A file may repeat one such name a million times.
        if remarked.last().map(DnsName::as_wire) != Some(name) {
            remarked.extend(DnsName::from_wire(name));
        }
    }

    /// The snapshot of one generation, as [`Snapshot::build`] has it.
    pub fn finish(self, generation: u64, serial: u32) -> (Snapshot, Census) {
        let Self {
            mut snapshot,
            tables: Tables { names, overrides },
            mut census,
        } = self;
        census.dynamic_names = names.dynamic_names();
        census.overrides = overrides.iter().map(TableBuilder::dynamic_names).sum();
        snapshot.generation = generation;
        snapshot.serial = serial;
        snapshot.names = names.finish();
        for (zone, table) in snapshot.extra_zones.iter_mut().zip(overrides) {
            zone.overrides = table.finish();
        }
        for names in [&mut census.shadowed, &mut census.cut] {
            names.sort_unstable();
            names.dedup();
        }
        (snapshot, census)
    }
}

/// The tables of all zones, in the making.
struct Tables {
    names: TableBuilder,
    overrides: Vec<TableBuilder>,
}

fn empty_extra_zone(config: &ExtraZoneConfig) -> ExtraZone {
    let ExtraZoneConfig { zone, upstreams } = config;
    ExtraZone {
        apex: zone.clone(),
        upstreams: upstreams.clone(),
        overrides: Table::default(),
    }
}
