//! What a client asks, as far as an upstream needs to know.

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

/// What answers are kept and shared under (rule 56 of the DNS contract). The class is always IN.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    name: DnsName,
    qtype: u16,
    dnssec_ok: bool,
    checking_disabled: bool,
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
        FlightKey {
            cache: Key {
                name: canonical(&self.name),
                qtype: self.qtype.into(),
                dnssec_ok: self.dnssec_ok,
                checking_disabled: self.checking_disabled,
            },
            recursion_desired: self.recursion_desired,
        }
    }
}

/// The canonical form of a hickory name. Both types hold at most 255 octets, so it cannot fail;
/// the root stands in for the impossible.
pub(super) fn canonical(name: &Name) -> DnsName {
    DnsName::from_labels(name.iter()).unwrap_or_else(|_| DnsName::root())
}
