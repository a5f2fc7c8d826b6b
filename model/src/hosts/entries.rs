//! The entries of a hosts file in one buffer: a million of them are a million small objects
//! otherwise.

use std::fmt;
use std::net::IpAddr;

use super::HostEntry;
use crate::name::DnsName;

/// Entries in file order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// One after the other: the name in canonical wire format, which ends itself, the octets of
    /// the address counted in one octet, and they.
    octets: Vec<u8>,
    len: usize,
}

impl Entries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Octets that they take.
    pub(crate) fn octets(&self) -> usize {
        self.octets.len()
    }

    /// The entries in file order.
    pub fn iter(&self) -> impl Iterator<Item = HostEntry> {
        self.wire().filter_map(|(name, address)| {
            let name = DnsName::from_wire(name).ok()?;
            Some(HostEntry { name, address })
        })
    }

    /// The entries in file order, the names in canonical wire format.
    pub fn wire(&self) -> impl Iterator<Item = (&[u8], IpAddr)> {
        let mut rest = self.octets.as_slice();
        std::iter::from_fn(move || {
            let mut end = 0;
            loop {
                match *rest.get(end)? {
                    0 => break,
                    label => end += usize::from(label) + 1,
                }
            }
            let (name, after) = rest.split_at_checked(end + 1)?;
            let (length, after) = after.split_first()?;
            let (address, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            let address = match address {
                [a, b, c, d] => IpAddr::from([*a, *b, *c, *d]),
                sixteen => IpAddr::from(<[u8; 16]>::try_from(sixteen).ok()?),
            };
            Some((name, address))
        })
    }

    /// Makes room for so many octets.
    pub(super) fn reserve(&mut self, octets: usize) {
        self.octets.reserve_exact(octets);
    }

    /// Appends one; the name in canonical wire format.
    pub(super) fn push(&mut self, name: &[u8], address: IpAddr) {
        self.octets.extend_from_slice(name);
        match address {
            IpAddr::V4(v4) => {
                self.octets.push(4);
                self.octets.extend(v4.octets());
            }
            IpAddr::V6(v6) => {
                self.octets.push(16);
                self.octets.extend(v6.octets());
            }
        }
        self.len += 1;
    }
}

impl FromIterator<HostEntry> for Entries {
    fn from_iter<T: IntoIterator<Item = HostEntry>>(entries: T) -> Self {
        let mut all = Self::default();
        for HostEntry { name, address } in entries {
            all.push(name.as_wire(), address);
        }
        all
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
