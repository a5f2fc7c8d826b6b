//! Netconf messages: settings of one interface, or of all of them, as in
//! `/proc/sys/net/ipv4/conf`. netlink-packet-route has no such messages.

use netlink_packet_core::{DecodeError, ErrorContext, NlasIterator, parse_i32, parse_u8};

/// `struct netconfmsg`: one octet of family, padded to NLMSG_ALIGNTO.
const HEADER_LEN: usize = 4;

// Attributes in linux/netconf.h.
const NETCONFA_IFINDEX: u16 = 1;
const NETCONFA_FORWARDING: u16 = 2;
const NETCONFA_RP_FILTER: u16 = 3;

/// The payload of a request for all netconf of IPv4.
pub(crate) const REQUEST_IPV4: [u8; HEADER_LEN] = [libc::AF_INET as u8, 0, 0, 0];

/// Whom a netconf message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// `conf/all`.
    All,
    /// `conf/default`: what new interfaces start with.
    Default,
    /// One interface by index.
    Link(u32),
}

/// The settings that one message carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Netconf {
    pub(crate) scope: Scope,
    pub(crate) forwarding: Option<bool>,
    pub(crate) rp_filter: Option<u32>,
}

impl Netconf {
    /// Decodes the payload of an RTM_NEWNETCONF. None for another family than IPv4.
    pub(crate) fn parse(payload: &[u8]) -> Result<Option<Self>, DecodeError> {
        let (family, attributes) = match (payload.first(), payload.get(HEADER_LEN..)) {
            (Some(family), Some(attributes)) => (*family, attributes),
            _ => return Err(DecodeError::buffer_too_small(payload.len(), HEADER_LEN)),
        };
        if i32::from(family) != libc::AF_INET {
            return Ok(None);
        }
        let (mut scope, mut forwarding, mut rp_filter) = (None, None, None);
        for attribute in NlasIterator::new(attributes) {
            let attribute = attribute?;
            match attribute.kind() {
                NETCONFA_IFINDEX => {
                    scope = Some(scope_of(
                        int(attribute.value()).context("interface index")?,
                    )?);
                }
                NETCONFA_FORWARDING => {
                    forwarding = Some(int(attribute.value()).context("forwarding")? != 0);
                }
                NETCONFA_RP_FILTER => {
                    rp_filter = u32::try_from(int(attribute.value()).context("rp_filter")?).ok();
                }
                _ => {}
            }
        }
        let scope = scope.ok_or_else(|| DecodeError::from("netconf without an interface index"))?;
        Ok(Some(Self {
            scope,
            forwarding,
            rp_filter,
        }))
    }
}

/// NETCONFA_IFINDEX_ALL is -1, NETCONFA_IFINDEX_DEFAULT is -2.
fn scope_of(index: i32) -> Result<Scope, DecodeError> {
    match index {
        -1 => Ok(Scope::All),
        -2 => Ok(Scope::Default),
        index => u32::try_from(index)
            .map(Scope::Link)
            .map_err(|_| DecodeError::from(format!("netconf of interface {index}"))),
    }
}

/// Integers of netconf have four octets; newer attributes may have one.
fn int(value: &[u8]) -> Result<i32, DecodeError> {
    if value.len() == 1 {
        parse_u8(value).map(i32::from)
    } else {
        parse_i32(value)
    }
}

#[cfg(test)]
mod tests;
