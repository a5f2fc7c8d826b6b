//! Numbers and small readers of the DNS message format (RFC 1035 §4).

/// Octets of the header (RFC 1035 §4.1.1).
pub const HEADER: usize = 12;

/// CLASS IN (RFC 1035).
pub const CLASS_IN: u16 = 1;

/// Our receive size, advertised in OPT: what fits the IPv6 minimum MTU (DNS Flag Day 2020).
pub const EDNS_SIZE: u16 = 1232;

/// UDP limit without EDNS (RFC 1035 §4.2.1).
pub const PLAIN_UDP_SIZE: u16 = 512;

/// Type of the OPT pseudo-record (RFC 6891).
pub const TYPE_OPT: u16 = 41;

/// EDNS options we know, by code.
pub mod option {
    /// edns-tcp-keepalive (RFC 7828).
    pub const TCP_KEEPALIVE: u16 = 11;
    /// Extended DNS error (RFC 8914).
    pub const EXTENDED_ERROR: u16 = 15;
}

/// Extended DNS errors we send (RFC 8914 §4).
pub mod ede {
    /// Other Error.
    pub const OTHER: u16 = 0;
    /// Stale Answer.
    pub const STALE: u16 = 3;
    /// Not Ready.
    pub const NOT_READY: u16 = 14;
    /// Not Authoritative.
    pub const NOT_AUTHORITATIVE: u16 = 20;
    /// Not Supported.
    pub const NOT_SUPPORTED: u16 = 21;
    /// No Reachable Authority.
    pub const NO_REACHABLE_AUTHORITY: u16 = 22;
    /// Network Error.
    pub const NETWORK_ERROR: u16 = 23;
}

/// Response codes we send (IANA registry; above 15 they need an OPT).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rcode {
    /// NOERROR.
    NoError,
    /// FORMERR.
    FormErr,
    /// SERVFAIL.
    ServFail,
    /// NXDOMAIN.
    NxDomain,
    /// NOTIMP.
    NotImp,
    /// REFUSED.
    Refused,
    /// BADVERS (RFC 6891 §9).
    BadVers,
}

impl Rcode {
    /// All of them, in the order of [`Rcode::index`].
    pub const ALL: [Self; 7] = [
        Self::NoError,
        Self::FormErr,
        Self::ServFail,
        Self::NxDomain,
        Self::NotImp,
        Self::Refused,
        Self::BadVers,
    ];

    /// The IANA number.
    pub const fn number(self) -> u16 {
        match self {
            Self::NoError => 0,
            Self::FormErr => 1,
            Self::ServFail => 2,
            Self::NxDomain => 3,
            Self::NotImp => 4,
            Self::Refused => 5,
            Self::BadVers => 16,
        }
    }

    /// The place in [`Rcode::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::BadVers => 6,
            other => other.number() as usize,
        }
    }

    /// The mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoError => "NOERROR",
            Self::FormErr => "FORMERR",
            Self::ServFail => "SERVFAIL",
            Self::NxDomain => "NXDOMAIN",
            Self::NotImp => "NOTIMP",
            Self::Refused => "REFUSED",
            Self::BadVers => "BADVERS",
        }
    }
}

/// Reads a big-endian u16.
pub fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    match octets.get(at..at + 2)? {
        [high, low] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

/// The end of the possibly compressed name at `at` (RFC 1035 §4.1.4): structure only, pointers
/// are not followed.
pub fn skip_name(octets: &[u8], at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        let length = *octets.get(at)?;
        at += 1;
        match length {
            0 => return Some(at),
            1..=63 => at += usize::from(length),
            // 0b01 and 0b10 were never given a meaning that survived (RFC 6891 §5).
            64..=191 => return None,
            192.. => return octets.get(at).map(|_| at + 1),
        }
    }
}

/// The end of the name at `at`, if it is whole: no pointer, at most 255 octets (RFC 1035 §2.3.4).
/// In the first name of a message a pointer could only lead into the header or to itself.
pub fn whole_name(octets: &[u8], at: usize) -> Option<usize> {
    const MAX_NAME: usize = 255;
    const MAX_LABEL: u8 = 63;
    let start = at;
    let mut at = at;
    loop {
        let length = *octets.get(at)?;
        at += 1;
        match length {
            0 => return (at - start <= MAX_NAME).then_some(at),
            1..=MAX_LABEL => at += usize::from(length),
            _ => return None,
        }
    }
}
