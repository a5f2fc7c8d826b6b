//! Messages as they are on the wire, and the parts of them that we read.

use libc::{RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE, RTM_NEWRULE};
use netlink_packet_core::{
    DecodeError, Emitable, NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkDeserializable,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator, Parseable,
    parse_string, parse_u32,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkFlags, LinkHeader};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;

use crate::netconf::{self, Netconf};

// Types of messages in linux/rtnetlink.h that libc does not name.
pub(crate) const RTM_NEWNETCONF: u16 = 80;
pub(crate) const RTM_DELNETCONF: u16 = 81;
const RTM_GETNETCONF: u16 = 82;

/// `struct ifinfomsg`.
const LINK_HEADER_LEN: usize = 16;
// Attributes of links in linux/if_link.h.
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;

/// What we ask.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    /// A message of netlink-packet-route.
    Route(RouteNetlinkMessage),
    /// Netconf of IPv4 for all interfaces.
    Netconf,
}

impl NetlinkSerializable for Request {
    fn message_type(&self) -> u16 {
        match self {
            Self::Route(message) => message.message_type(),
            Self::Netconf => RTM_GETNETCONF,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Self::Route(message) => Emitable::buffer_len(message),
            Self::Netconf => netconf::REQUEST_IPV4.len(),
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            Self::Route(message) => message.emit(buffer),
            Self::Netconf => buffer.copy_from_slice(&netconf::REQUEST_IPV4),
        }
    }
}

/// Whether a request asks for one object or a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    One,
    All,
}

/// The request as octets, ready to send.
pub(crate) fn encode(request: Request, extent: Extent, sequence: u32) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.sequence_number = sequence;
    header.flags = match extent {
        Extent::One => NLM_F_REQUEST,
        Extent::All => NLM_F_REQUEST | NLM_F_DUMP,
    };
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// What we are told.
#[derive(Debug)]
pub(crate) enum Reply {
    Link(LinkReply),
    Address(AddressMessage),
    Route(RouteMessage),
    Rule(RuleMessage),
    Netconf(Netconf),
    /// Something we did not ask for.
    Other,
}

/// A link. Only these attributes are decoded, so that an exotic kind of interface whose own
/// attributes nobody here knows cannot spoil the view.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LinkReply {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) flags: LinkFlags,
    pub(crate) mtu: u32,
}

impl NetlinkDeserializable for Reply {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(match header.message_type {
            RTM_NEWLINK => Self::Link(LinkReply::parse(payload)?),
            RTM_NEWADDR => Self::Address(AddressMessage::parse(payload)?),
            RTM_NEWROUTE => Self::Route(RouteMessage::parse(payload)?),
            RTM_NEWRULE => Self::Rule(RuleMessage::parse(payload)?),
            RTM_NEWNETCONF => Netconf::parse(payload)?.map_or(Self::Other, Self::Netconf),
            _ => Self::Other,
        })
    }
}

impl LinkReply {
    fn parse(payload: &[u8]) -> Result<Self, DecodeError> {
        let header = LinkHeader::parse(payload)?;
        let (mut name, mut mtu) = (None, None);
        for attribute in NlasIterator::new(payload.get(LINK_HEADER_LEN..).unwrap_or_default()) {
            let attribute = attribute?;
            match attribute.kind() {
                IFLA_IFNAME => name = Some(parse_string(attribute.value())?),
                IFLA_MTU => mtu = Some(parse_u32(attribute.value())?),
                _ => {}
            }
        }
        match (name, mtu) {
            (Some(name), Some(mtu)) => Ok(Self {
                index: header.index,
                name,
                flags: header.flags,
                mtu,
            }),
            _ => Err(DecodeError::from(format!(
                "link {} without name or MTU",
                header.index
            ))),
        }
    }
}

/// The messages in one datagram, each with its header. The rest of a datagram after a length that
/// cannot be true is an error.
pub(crate) fn split(datagram: &[u8]) -> Split<'_> {
    Split { rest: datagram }
}

/// Iterator of [`split`].
pub(crate) struct Split<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Split<'a> {
    type Item = Result<&'a [u8], DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        let length = match NetlinkBuffer::new_checked(rest) {
            Ok(buffer) => buffer.length() as usize,
            Err(error) => return Some(Err(error)),
        };
        // Messages are aligned to NLMSG_ALIGNTO (4 octets); the last one may lack its padding.
        self.rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        rest.get(..length).map(Ok)
    }
}

#[cfg(test)]
mod tests;
