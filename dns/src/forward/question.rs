//! What a client asks, as far as an upstream needs to know.

use std::borrow::Borrow;

use hickory_proto::rr::{Name, RecordType};
use tsunaro_model::name::DnsName;

/// How the client asked: decides what becomes of an answer that did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTransport {
    /// May be told to ask again over TCP.
    Udp,
    /// Must get the whole answer or none.
    Tcp,
}

/// One question of class IN for a name in an extra zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name in the case received; upstreams and the answer see that case (RFC 4343).
    pub name: Name,
    /// The type asked for.
    pub qtype: RecordType,
    /// DO of the client's OPT (RFC 3225).
    pub dnssec_ok: bool,
    /// CD of the client's header (RFC 4035 §3.2.2).
    pub checking_disabled: bool,
    /// RD of the client's header.
    pub recursion_desired: bool,
    /// AD of the client's header: it understands AD in the answer (RFC 6840 §5.7).
    pub authentic_data: bool,
    /// How it came.
    pub transport: ClientTransport,
}

/// What answers are kept and shared under (rule 56 of the DNS contract): name, type, DO and CD in
/// one string of octets, so that the fast path can ask without building one. The class is always
/// IN.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key(Box<[u8]>);

/// Octets of the longest key.
pub(crate) const MAX_KEY: usize = 255 + 3;

/// Writes a key to the beginning of `out`; `name` is in canonical wire format. None when there is
/// no room.
pub(crate) fn write_key<'a>(
    out: &'a mut [u8; MAX_KEY],
    name: &[u8],
    qtype: u16,
    dnssec_ok: bool,
    checking_disabled: bool,
) -> Option<&'a [u8]> {
    let [high, low] = qtype.to_be_bytes();
    let flags = u8::from(dnssec_ok) | u8::from(checking_disabled) << 1;
    let (place, rest) = out.split_at_mut_checked(name.len())?;
    place.copy_from_slice(name);
    rest.get_mut(..3)?.copy_from_slice(&[high, low, flags]);
    out.get(..name.len() + 3)
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// What questions in flight are shared under: RD too, since a recursive server answers a question
/// without it from what it happens to know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FlightKey {
    pub(super) cache: Key,
    pub(super) recursion_desired: bool,
}

impl Question {
    pub(super) fn key(&self) -> FlightKey {
        let mut room = [0; MAX_KEY];
        // No name is longer than the room that is there for it.
        let key = write_key(
            &mut room,
            canonical(&self.name).as_wire(),
            self.qtype.into(),
            self.dnssec_ok,
            self.checking_disabled,
        )
        .unwrap_or_default();
        FlightKey {
            cache: Key(key.into()),
            recursion_desired: self.recursion_desired,
        }
    }
}

/// The canonical form of a hickory name. Both types hold at most 255 octets, so it cannot fail;
/// the root stands in for the impossible.
pub(super) fn canonical(name: &Name) -> DnsName {
    DnsName::from_labels(name.iter()).unwrap_or_else(|_| DnsName::root())
}
