//! IP addresses as people write them in files, and why a text is none that we serve.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::finding::quoted;

/// Why a text is no address of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadAddress {
    /// `fe80::1%eth0`: the interface means nothing to who asks.
    ScopeId,
    /// `192.0.2.010`, which some programs read as octal; with the address in decimal.
    LeadingZeros(Ipv4Addr),
    /// `192.0.2.1/32`; with the address alone.
    PrefixLength(IpAddr),
    /// `192.0.2.1:53`; with the address alone.
    Port(IpAddr),
    /// `0.0.0.0` or `::`.
    Unspecified,
    /// 224.0.0.0/4 or ff00::/8.
    Multicast,
    /// Something else.
    NotAnAddress,
}

impl BadAddress {
    /// The whole remark, without a final period.
    pub(crate) fn what(self, text: &str) -> String {
        let text = quoted(text);
        match self {
            Self::ScopeId => {
                format!("{text} has a scope id, which means nothing on another machine")
            }
            Self::LeadingZeros(_) => {
                format!("{text} has leading zeros, which some programs read as octal")
            }
            Self::PrefixLength(_) => format!("{text} is a prefix, not an address"),
            Self::Port(_) => format!("{text} has a port, where only an address belongs"),
            Self::Unspecified => format!("{text} is the unspecified address, which no host has"),
            Self::Multicast => format!("{text} is a multicast address, which no single host has"),
            Self::NotAnAddress => format!("{text} is not an IP address"),
        }
    }

    /// What to write instead.
    pub(crate) fn fix(self) -> String {
        match self {
            Self::ScopeId => "write an address that is reachable from other networks".to_owned(),
            Self::LeadingZeros(address) => format!("write `{address}`"),
            Self::PrefixLength(address) | Self::Port(address) => format!("write `{address}`"),
            Self::Unspecified | Self::Multicast => "write the address of one host".to_owned(),
            Self::NotAnAddress => {
                "write an IPv4 address such as `192.0.2.1` or an IPv6 address such as `2001:db8::1`"
                    .to_owned()
            }
        }
    }
}

/// Reads the address of a host; an IPv4-mapped IPv6 address becomes IPv4.
pub(crate) fn parse_host_address(text: &str) -> Result<IpAddr, BadAddress> {
    let Ok(address) = text.parse::<IpAddr>() else {
        return Err(explain(text));
    };
    let address = address.to_canonical();
    if address.is_unspecified() {
        return Err(BadAddress::Unspecified);
    }
    if address.is_multicast() {
        return Err(BadAddress::Multicast);
    }
    Ok(address)
}

fn explain(text: &str) -> BadAddress {
    if let Some((address, _scope)) = text.split_once('%')
        && address.parse::<IpAddr>().is_ok()
    {
        return BadAddress::ScopeId;
    }
    if let Some((address, _length)) = text.split_once('/')
        && let Ok(address) = address.parse()
    {
        return BadAddress::PrefixLength(address);
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return BadAddress::Port(socket.ip());
    }
    match decimal_quad(text) {
        Some(address) => BadAddress::LeadingZeros(address),
        None => BadAddress::NotAnAddress,
    }
}

/// Four decimal numbers up to 255, leading zeros allowed.
fn decimal_quad(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}
