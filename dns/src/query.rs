//! From the octets of a message to a query, to an error reply that is ready, or to silence.
//!
//! Parsed by hand, in the order that rule 1 of the DNS contract sets, because the errors that
//! matter (two OPTs, an unknown opcode, two questions) are those a message library hides.

use tsunaro_model::name::DnsName;

use crate::forwarding::ClientTransport;
use crate::reply::{self, Builder, Written};
use crate::wire::{self, CLASS_IN, HEADER, PLAIN_UDP_SIZE, Rcode, TYPE_OPT, ede, option, u16_at};

/// What to do with an incoming message.
#[derive(Debug)]
pub enum Incoming {
    /// Nothing: no reply may be sent.
    Drop,
    /// Send this; the message asks nothing that a zone could answer.
    Reply(Written),
    /// A question for the zones.
    Query(Query),
}

/// A well-formed question of class IN for a data type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The message's ID.
    pub(crate) id: u16,
    /// RD, AD and CD as sent.
    pub(crate) flags: QueryFlags,
    /// The question section as sent: name, type and class.
    pub(crate) question: Box<[u8]>,
    /// The name in canonical form.
    pub(crate) name: DnsName,
    /// The type's IANA number.
    pub(crate) qtype: u16,
    /// The OPT record, if there was one.
    pub(crate) edns: Option<Edns>,
    /// How the query came.
    pub(crate) transport: ClientTransport,
}

/// The bits of a query's header that a reply or a forwarded question depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryFlags {
    /// RD (RFC 1035).
    pub recursion_desired: bool,
    /// AD (RFC 6840 §5.7).
    pub authentic_data: bool,
    /// CD (RFC 4035).
    pub checking_disabled: bool,
}

/// What a query's OPT record says (RFC 6891).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edns {
    /// UDP payload size the client can take, as sent.
    pub udp_size: u16,
    /// DO.
    pub dnssec_ok: bool,
    /// The client asks how long it may leave the connection open (RFC 7828).
    pub keepalive: bool,
    version: u8,
}

impl Query {
    /// The name in canonical form.
    pub fn name(&self) -> &DnsName {
        &self.name
    }

    /// The type's IANA number.
    pub fn qtype(&self) -> u16 {
        self.qtype
    }

    /// The name as sent, uncompressed.
    pub fn name_as_sent(&self) -> &[u8] {
        self.question
            .get(..self.question.len().saturating_sub(4))
            .unwrap_or_default()
    }

    /// The most octets that a reply may have (rule 62).
    pub(crate) fn reply_limit(&self) -> usize {
        reply_limit(self.transport, self.edns)
    }
}

/// The most octets that a reply may have (rule 62).
pub(crate) fn reply_limit(transport: ClientTransport, edns: Option<Edns>) -> usize {
    match (transport, edns) {
        (ClientTransport::Tcp, _) => usize::from(u16::MAX),
        (ClientTransport::Udp, None) => usize::from(PLAIN_UDP_SIZE),
        (ClientTransport::Udp, Some(edns)) => {
            usize::from(edns.udp_size.clamp(PLAIN_UDP_SIZE, wire::EDNS_SIZE))
        }
    }
}

/// Reads a message.
pub fn parse(message: &[u8], transport: ClientTransport) -> Incoming {
    let Some(header) = message.get(..HEADER) else {
        return Incoming::Drop;
    };
    let (Some(id), Some(bits)) = (u16_at(header, 0), u16_at(header, 2)) else {
        return Incoming::Drop;
    };
    if bits & reply::QR != 0 {
        return Incoming::Drop;
    }
    if bits & reply::OPCODE != 0 {
        return Incoming::Reply(reply::header_only(id, bits, Rcode::NotImp));
    }
    let Some(parsed) = Parsed::read(message) else {
        return Incoming::Reply(reply::header_only(id, bits, Rcode::FormErr));
    };
    let refusal = parsed.refusal();
    let Ok(name) = DnsName::from_wire(parsed.name()) else {
        return Incoming::Reply(reply::header_only(id, bits, Rcode::FormErr));
    };
    let Parsed {
        question,
        qtype,
        qclass: _,
        edns,
    } = parsed;
    let flags = QueryFlags {
        recursion_desired: bits & reply::RD != 0,
        authentic_data: bits & reply::AD != 0,
        checking_disabled: bits & reply::CD != 0,
    };
    let query = Query {
        id,
        flags,
        question: question.into(),
        name,
        qtype,
        edns,
        transport,
    };
    match refusal {
        Some((rcode, error)) => {
            let mut builder = Builder::new(&query);
            if let Some(code) = error {
                builder.extended_error(code, "");
            }
            Incoming::Reply(builder.finish(rcode))
        }
        None => Incoming::Query(query),
    }
}

/// A message with one question, as it lies in its octets. Both the fast path and [`parse`] read
/// messages with it and nothing else.
pub(crate) struct Parsed<'a> {
    /// Name, type and class as sent.
    pub(crate) question: &'a [u8],
    pub(crate) qtype: u16,
    qclass: u16,
    pub(crate) edns: Option<Edns>,
}

impl<'a> Parsed<'a> {
    /// None is FORMERR (rule 65).
    pub(crate) fn read(message: &'a [u8]) -> Option<Self> {
        let count = |at| u16_at(message, at);
        if count(4)? != 1 {
            return None;
        }
        let name_end = wire::whole_name(message, HEADER)?;
        let qtype = u16_at(message, name_end)?;
        let qclass = u16_at(message, name_end + 2)?;
        let question = message.get(HEADER..name_end + 4)?;
        let mut at = name_end + 4;
        for _ in 0..u32::from(count(6)?) + u32::from(count(8)?) {
            let record = RawRecord::read(message, at)?;
            if record.rtype == TYPE_OPT {
                return None;
            }
            at = record.end;
        }
        let mut edns = None;
        for _ in 0..count(10)? {
            let record = RawRecord::read(message, at)?;
            if record.rtype == TYPE_OPT {
                // A root owner is one octet; two OPTs are an error (RFC 6891 §6.1.1).
                if record.fixed != at + 1 || edns.is_some() {
                    return None;
                }
                edns = Some(Edns::read(message, &record)?);
            }
            at = record.end;
        }
        Some(Self {
            question,
            qtype,
            qclass,
            edns,
        })
    }

    /// The question name as sent.
    pub(crate) fn name(&self) -> &'a [u8] {
        self.question
            .get(..self.question.len().saturating_sub(4))
            .unwrap_or_default()
    }

    /// The RCODE, and perhaps the extended error, for a well-formed message that the zones have
    /// nothing to do with.
    pub(crate) fn refusal(&self) -> Option<(Rcode, Option<u16>)> {
        if self.edns.is_some_and(|edns| edns.version != 0) {
            return Some((Rcode::BadVers, None));
        }
        if self.qclass != CLASS_IN {
            return Some((Rcode::Refused, Some(ede::NOT_SUPPORTED)));
        }
        refusal_of(self.qtype)
    }
}

/// The RCODE, and perhaps the extended error, for types that are no question for the zones.
pub(crate) fn refusal_of(qtype: u16) -> Option<(Rcode, Option<u16>)> {
    // IANA's meta types; ANY (255) is a question for the zones.
    const NXNAME: u16 = 128;
    const TKEY: u16 = 249;
    const TSIG: u16 = 250;
    const IXFR: u16 = 251;
    const AXFR: u16 = 252;
    const MAILB: u16 = 253;
    const MAILA: u16 = 254;
    match qtype {
        AXFR | IXFR => Some((Rcode::Refused, Some(ede::NOT_SUPPORTED))),
        MAILA | MAILB | TKEY => Some((Rcode::NotImp, None)),
        TYPE_OPT | TSIG | NXNAME => Some((Rcode::FormErr, None)),
        _ => None,
    }
}

/// Where the parts of a record lie.
struct RawRecord<'a> {
    /// Offset of TYPE.
    fixed: usize,
    rtype: u16,
    rdata: &'a [u8],
    end: usize,
}

impl<'a> RawRecord<'a> {
    fn read(message: &'a [u8], at: usize) -> Option<Self> {
        let fixed = wire::skip_name(message, at)?;
        let rtype = u16_at(message, fixed)?;
        let rdata_at = fixed + 10;
        let end = rdata_at + usize::from(u16_at(message, fixed + 8)?);
        Some(Self {
            fixed,
            rtype,
            rdata: message.get(rdata_at..end)?,
            end,
        })
    }
}

impl Edns {
    fn read(message: &[u8], record: &RawRecord<'_>) -> Option<Self> {
        let udp_size = u16_at(message, record.fixed + 2)?;
        let version = *message.get(record.fixed + 5)?;
        let flags = u16_at(message, record.fixed + 6)?;
        let mut keepalive = false;
        let mut at = 0;
        while at < record.rdata.len() {
            let code = u16_at(record.rdata, at)?;
            at += 4 + usize::from(u16_at(record.rdata, at + 2)?);
            keepalive |= code == option::TCP_KEEPALIVE;
        }
        if at > record.rdata.len() {
            return None;
        }
        Some(Self {
            udp_size,
            dnssec_ok: flags & 0x8000 != 0,
            keepalive,
            version,
        })
    }
}

#[cfg(test)]
mod tests;
