//! The names of one zone in few octets: a million of them in some thirty megabytes, the names
//! above them for five octets each.
//!
//! All names stand in one buffer, without the zone's own name at their end, as
//! `labels, 0, kind, value`. A slot of the hash table is where a name begins in it. The slot of an
//! empty non-terminal points into the middle of a name below it, for a suffix of a wire-format
//! name is its ancestor.

use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

use hashbrown::HashTable;

use crate::name::parent;

/// Addresses kept per name and family; more are cut with a warning.
const MAX_ADDRESSES: usize = 1024;

/// Marks the slots of empty non-terminals.
const EMPTY_NON_TERMINAL: u32 = 1 << 31;

/// Octets after a name's end: its kind, and a number whose meaning depends on it.
const PAYLOAD: usize = 5;

/// No earlier link.
const NONE: u32 = u32::MAX;

/// What a name is; the number in brackets is what its value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An alias (its index).
    Alias = 0,
    /// One static IPv4 address (it itself).
    StaticOne = 1,
    /// Static addresses (where they are).
    StaticSet = 2,
    /// One dynamic IPv4 address (it itself).
    DynamicOne = 3,
    /// Dynamic addresses (where they are).
    DynamicSet = 4,
}

/// A name that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node<'a> {
    /// Nothing but an ancestor of others.
    EmptyNonTerminal,
    /// An alias, by its index.
    Alias(usize),
    /// Addresses of static records.
    Static(Addresses<'a>),
    /// Addresses of the hosts file.
    Dynamic(Addresses<'a>),
}

/// Addresses of one name, one RRset per family, without repetition, in file order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses<'a> {
    pub(super) v4: &'a [[u8; 4]],
    pub(super) v6: &'a [[u8; 16]],
}

/// The finished table.
#[derive(Clone, Default)]
pub(super) struct Table {
    names: Vec<u8>,
    slots: HashTable<u32>,
    /// Per set: the numbers of IPv4 and IPv6 addresses in two octets each, then they.
    sets: Vec<u8>,
    /// Seeded at random: names are chosen by tenants.
    hasher: foldhash::fast::RandomState,
}

/// What became of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// It is there now, or was before.
    Kept,
    /// There is no room.
    Full,
    /// A static record stands at this name.
    Shadowed,
}

/// A table in the making.
#[derive(Default)]
pub(super) struct TableBuilder {
    table: Table,
    /// Addresses of sets, chained from the last one back.
    links: Vec<Link>,
    /// Where the payloads of sets are.
    set_payloads: Vec<usize>,
    dynamic_names: usize,
}

struct Link {
    previous: u32,
    address: IpAddr,
}

impl Table {
    /// The node at a name relative to the zone, in canonical wire format without its end.
    pub(super) fn get(&self, name: &[u8]) -> Option<Node<'_>> {
        let slot = self.find(name)?;
        if slot & EMPTY_NON_TERMINAL != 0 {
            return Some(Node::EmptyNonTerminal);
        }
        let (kind, value) = self.payload(payload_at(slot, name))?;
        Some(match kind {
            Kind::Alias => Node::Alias(as_usize(u32::from_le_bytes(*value))),
            Kind::StaticOne => Node::Static(one(value)),
            Kind::DynamicOne => Node::Dynamic(one(value)),
            Kind::StaticSet => Node::Static(self.set(value)?),
            Kind::DynamicSet => Node::Dynamic(self.set(value)?),
        })
    }

    /// True when the name exists.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &[u8]) -> Option<u32> {
        self.slots
            .find(hash(&self.hasher, name), |slot| {
                is_at(&self.names, *slot, name)
            })
            .copied()
    }

    fn payload(&self, at: usize) -> Option<(Kind, &[u8; 4])> {
        let (kind, rest) = self.names.get(at..at + PAYLOAD)?.split_first()?;
        let kind = [
            Kind::Alias,
            Kind::StaticOne,
            Kind::StaticSet,
            Kind::DynamicOne,
            Kind::DynamicSet,
        ]
        .into_iter()
        .find(|known| *known as u8 == *kind)?;
        Some((kind, rest.first_chunk()?))
    }

    fn set(&self, value: &[u8; 4]) -> Option<Addresses<'_>> {
        let set = self.sets.get(as_usize(u32::from_le_bytes(*value))..)?;
        let (counts, rest) = set.split_first_chunk::<4>()?;
        let [a, b, c, d] = *counts;
        let v4 = 4 * usize::from(u16::from_le_bytes([a, b]));
        let v6 = 16 * usize::from(u16::from_le_bytes([c, d]));
        let (v4, rest) = rest.split_at_checked(v4)?;
        Some(Addresses {
            v4: v4.as_chunks().0,
            v6: rest.get(..v6)?.as_chunks().0,
        })
    }

    fn set_payload(&mut self, at: usize, kind: Kind, value: [u8; 4]) {
        if let Some((slot, rest)) = self
            .names
            .get_mut(at..at + PAYLOAD)
            .and_then(<[u8]>::split_first_mut)
        {
            *slot = kind as u8;
            rest.copy_from_slice(&value);
        }
    }

    /// Makes a name exist with a payload of its own, and everything between it and the zone
    /// (RFC 4592 §2.2.2). None when the buffer is full. The name must not have a payload yet.
    fn insert(&mut self, name: &[u8], kind: Kind, value: [u8; 4]) -> Option<usize> {
        let at = u32::try_from(self.names.len())
            .ok()
            .filter(|at| at + 512 < EMPTY_NON_TERMINAL)?;
        self.names.extend_from_slice(name);
        self.names.extend([0, kind as u8]);
        self.names.extend(value);
        let Self {
            names,
            slots,
            sets: _,
            hasher,
        } = self;
        let mut below = at;
        let mut suffix = name;
        loop {
            let hashed = hash(hasher, suffix);
            let known = slots.find_mut(hashed, |slot| is_at(names, *slot, suffix));
            match known {
                Some(slot) if below == at => {
                    // It was an empty non-terminal, so everything above it exists.
                    *slot = at;
                    break;
                }
                Some(_) => break,
                None => {}
            }
            slots.insert_unique(hashed, below, |slot| hash(hasher, name_at(names, *slot)));
            let Some(above) = parent(suffix).filter(|above| !above.is_empty()) else {
                break;
            };
            below = EMPTY_NON_TERMINAL
                | (at + u32::try_from(name.len() - above.len()).unwrap_or_default());
            suffix = above;
        }
        Some(payload_at(at, name))
    }
}

impl TableBuilder {
    /// For about this many names, which take about this many octets: growing would copy them, and
    /// touch fresh memory each time.
    pub(super) fn with_capacity(names: usize, octets: usize) -> Self {
        let mut builder = Self::default();
        builder.table.names = Vec::with_capacity(octets);
        builder.table.slots = HashTable::with_capacity(names);
        builder
    }

    /// Puts an alias at a name; whatever stood there is gone.
    pub(super) fn alias(&mut self, name: &[u8], index: usize) {
        let index = u32::try_from(index).unwrap_or(NONE);
        self.put(name, Kind::Alias, index.to_le_bytes());
    }

    /// Puts addresses at a name; whatever stood there is gone.
    pub(super) fn static_addresses(&mut self, name: &[u8], addresses: &[IpAddr]) {
        let payload = match addresses {
            [IpAddr::V4(only)] => self.put(name, Kind::StaticOne, only.octets()),
            _ => self.put(name, Kind::StaticSet, NONE.to_le_bytes()),
        };
        let Some(payload) = payload else { return };
        if self.kind_at(payload) == Some(Kind::StaticSet) {
            self.set_payloads.push(payload);
            for address in addresses {
                self.add_link(payload, Kind::StaticSet, *address);
            }
        }
    }

    /// Adds an address of the hosts file to a name.
    pub(super) fn add_dynamic(&mut self, name: &[u8], address: IpAddr) -> Added {
        let known = self
            .table
            .find(name)
            .filter(|slot| slot & EMPTY_NON_TERMINAL == 0)
            .map(|slot| payload_at(slot, name));
        let Some(payload) = known else {
            return self.first_dynamic(name, address);
        };
        let Some((kind, value)) = self.table.payload(payload) else {
            return Added::Full;
        };
        match kind {
            Kind::Alias | Kind::StaticOne | Kind::StaticSet => Added::Shadowed,
            Kind::DynamicOne => {
                let first = IpAddr::from(*value);
                if first == address {
                    return Added::Kept;
                }
                self.table
                    .set_payload(payload, Kind::DynamicSet, NONE.to_le_bytes());
                self.set_payloads.push(payload);
                self.add_link(payload, Kind::DynamicSet, first);
                self.add_link(payload, Kind::DynamicSet, address)
            }
            Kind::DynamicSet => self.add_link(payload, Kind::DynamicSet, address),
        }
    }

    /// Names with addresses of the hosts file.
    pub(super) fn dynamic_names(&self) -> usize {
        self.dynamic_names
    }

    /// The table; its sets are written now that they are complete.
    pub(super) fn finish(self) -> Table {
        let Self {
            mut table,
            links,
            set_payloads,
            dynamic_names: _,
        } = self;
        for payload in set_payloads {
            let Some((kind, last)) = table.payload(payload) else {
                continue;
            };
            let chain = chain(&links, u32::from_le_bytes(*last));
            let (mut v4, mut v6) = (Vec::new(), Vec::new());
            for address in chain {
                match address {
                    IpAddr::V4(address) => v4.push(address.octets()),
                    IpAddr::V6(address) => v6.push(address.octets()),
                }
            }
            v4.reverse();
            v6.reverse();
            let at = u32::try_from(table.sets.len()).unwrap_or(NONE);
            for count in [v4.len(), v6.len()] {
                let count = u16::try_from(count).unwrap_or_default();
                table.sets.extend(count.to_le_bytes());
            }
            table.sets.extend_from_slice(v4.as_flattened());
            table.sets.extend_from_slice(v6.as_flattened());
            table.set_payload(payload, kind, at.to_le_bytes());
        }
        table.names.shrink_to_fit();
        table.sets.shrink_to_fit();
        let Table {
            names,
            slots,
            sets: _,
            hasher,
        } = &mut table;
        if slots.capacity() / 4 > slots.len() {
            slots.shrink_to_fit(|slot| hash(hasher, name_at(names, *slot)));
        }
        table
    }

    fn put(&mut self, name: &[u8], kind: Kind, value: [u8; 4]) -> Option<usize> {
        match self.table.find(name) {
            Some(slot) if slot & EMPTY_NON_TERMINAL == 0 => {
                let payload = payload_at(slot, name);
                self.set_payloads.retain(|known| *known != payload);
                self.table.set_payload(payload, kind, value);
                Some(payload)
            }
            _ => self.table.insert(name, kind, value),
        }
    }

    fn first_dynamic(&mut self, name: &[u8], address: IpAddr) -> Added {
        let (kind, value) = match address {
            IpAddr::V4(only) => (Kind::DynamicOne, only.octets()),
            IpAddr::V6(_) => (Kind::DynamicSet, NONE.to_le_bytes()),
        };
        let Some(payload) = self.table.insert(name, kind, value) else {
            return Added::Full;
        };
        self.dynamic_names += 1;
        if kind == Kind::DynamicSet {
            self.set_payloads.push(payload);
            return self.add_link(payload, kind, address);
        }
        Added::Kept
    }

    fn add_link(&mut self, payload: usize, kind: Kind, address: IpAddr) -> Added {
        let last = self
            .table
            .payload(payload)
            .map_or(NONE, |(_, value)| u32::from_le_bytes(*value));
        let mut of_family = 0;
        for known in chain(&self.links, last) {
            if known == address {
                return Added::Kept;
            }
            of_family += usize::from(known.is_ipv4() == address.is_ipv4());
        }
        let Some(index) = u32::try_from(self.links.len())
            .ok()
            .filter(|index| *index != NONE && of_family < MAX_ADDRESSES)
        else {
            return Added::Full;
        };
        self.links.push(Link {
            previous: last,
            address,
        });
        self.table.set_payload(payload, kind, index.to_le_bytes());
        Added::Kept
    }

    fn kind_at(&self, payload: usize) -> Option<Kind> {
        self.table.payload(payload).map(|(kind, _)| kind)
    }
}

/// The addresses of a chain, the last one first.
fn chain(links: &[Link], last: u32) -> impl Iterator<Item = IpAddr> {
    let link = |index: u32| links.get(as_usize(index));
    std::iter::successors(link(last), move |one| link(one.previous)).map(|link| link.address)
}

fn hash(hasher: &foldhash::fast::RandomState, name: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(name);
    state.finish()
}

/// Compares the name that begins at a slot. Octets before the end being equal, so are the labels.
fn is_at(names: &[u8], slot: u32, name: &[u8]) -> bool {
    let at = as_usize(slot & !EMPTY_NON_TERMINAL);
    let Some(rest) = names.get(at..) else {
        return false;
    };
    rest.starts_with(name) && rest.get(name.len()) == Some(&0)
}

fn name_at(names: &[u8], slot: u32) -> &[u8] {
    let rest = names
        .get(as_usize(slot & !EMPTY_NON_TERMINAL)..)
        .unwrap_or_default();
    let mut end = 0;
    while let Some(label @ 1..) = rest.get(end) {
        end += usize::from(*label) + 1;
    }
    rest.get(..end).unwrap_or_default()
}

fn payload_at(slot: u32, name: &[u8]) -> usize {
    as_usize(slot) + name.len() + 1
}

fn one(value: &[u8; 4]) -> Addresses<'_> {
    Addresses {
        v4: std::slice::from_ref(value),
        v6: &[],
    }
}

fn as_usize(number: u32) -> usize {
    // Pointers have 32 bits at least where this runs.
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
