//! Writing replies: header, the question as sent, records that fit, OPT last.
//!
//! An encoder of our own because rules 60 to 64 of the DNS contract decide about single octets:
//! the question's case, whole records under the UDP limit, an OPT that is last and empty.

mod names;

use hickory_proto::rr::{Name, RData, Record};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder, NameEncoding};
use tsunaro_model::zone::rtype;

use crate::forwarding::ClientTransport;
use crate::query::Query;
use crate::wire::{CLASS_IN, EDNS_SIZE, HEADER, Rcode, TYPE_OPT, option};
use names::Names;

/// QR: a response.
pub(crate) const QR: u16 = 0x8000;
/// The OPCODE field.
pub(crate) const OPCODE: u16 = 0x7800;
/// AA.
pub(crate) const AA: u16 = 0x0400;
/// TC.
pub(crate) const TC: u16 = 0x0200;
/// RD.
pub(crate) const RD: u16 = 0x0100;
/// RA.
pub(crate) const RA: u16 = 0x0080;
/// AD.
pub(crate) const AD: u16 = 0x0020;
/// CD.
pub(crate) const CD: u16 = 0x0010;

/// Seconds for which a TCP connection may idle; announced to clients that ask (RFC 7828).
pub const TCP_IDLE_SECONDS: u16 = 10;

/// EXTRA-TEXT beyond this is cut: it is for people, and ours to bound.
const MAX_ERROR_TEXT: usize = 128;

/// Refresh, retry and expire of the synthetic SOA in seconds (rule 41); nobody transfers the zone.
pub(crate) const SOA_TIMERS: [u32; 3] = [7200, 1800, 86_400];

/// RNAME of the synthetic SOA, in wire format: there is no mailbox to write to.
pub(crate) const SOA_RNAME: &[u8] = b"\x06nobody\x07invalid\x00";

/// A finished message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The message.
    pub octets: Vec<u8>,
    /// Its response code.
    pub rcode: Rcode,
    /// TC is set.
    pub truncated: bool,
}

/// RDATA to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Data<'a> {
    /// The octets of an IPv4 or IPv6 address.
    Address(&'a [u8]),
    /// Target in wire format.
    Cname(&'a [u8]),
    /// Server in wire format.
    Ns(&'a [u8]),
    /// The synthetic SOA of a zone.
    Soa {
        apex: &'a [u8],
        serial: u32,
        minimum: u32,
    },
    /// Whatever an upstream sent.
    Foreign(&'a RData),
}

/// The reply to a message whose question is unusable: the header alone.
pub(crate) fn header_only(id: u16, query_bits: u16, rcode: Rcode) -> Written {
    let bits = QR | (query_bits & (OPCODE | RD)) | (rcode.number() & 0x000f);
    let mut octets = vec![0; HEADER];
    for (slot, octet) in octets
        .iter_mut()
        .zip(id.to_be_bytes().into_iter().chain(bits.to_be_bytes()))
    {
        *slot = octet;
    }
    Written {
        octets,
        rcode,
        truncated: false,
    }
}

/// A reply in the making. Records go in in order: answers, then authority.
#[derive(Debug)]
pub(crate) struct Builder {
    octets: Vec<u8>,
    names: Names,
    id: u16,
    bits: u16,
    question: usize,
    transport: ClientTransport,
    /// Octets that records may use: the limit less the OPT.
    room: usize,
    limit: usize,
    opt: Option<Opt>,
    answers: u16,
    authorities: u16,
    overflown: bool,
}

#[derive(Debug)]
struct Opt {
    dnssec_ok: bool,
    keepalive: bool,
    error: Option<(u16, String)>,
}

impl Opt {
    fn len(&self) -> usize {
        let keepalive = if self.keepalive { 6 } else { 0 };
        11 + keepalive + self.error.as_ref().map_or(0, |(_, text)| 6 + text.len())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Answer,
    Authority,
}

impl Builder {
    pub(crate) fn new(query: &Query) -> Self {
        let opt = query.edns.map(|edns| Opt {
            dnssec_ok: edns.dnssec_ok,
            keepalive: edns.keepalive && query.transport == ClientTransport::Tcp,
            error: None,
        });
        let limit = query.reply_limit();
        let mut octets = Vec::with_capacity(512);
        octets.resize(HEADER, 0);
        octets.extend_from_slice(&query.question);
        let mut names = Names::default();
        names.add(HEADER, query.name_as_sent(), query.name_as_sent().len());
        Self {
            question: octets.len(),
            octets,
            names,
            id: query.id,
            bits: QR | if query.flags.recursion_desired { RD } else { 0 },
            transport: query.transport,
            room: limit - opt.as_ref().map_or(0, Opt::len),
            limit,
            opt,
            answers: 0,
            authorities: 0,
            overflown: false,
        }
    }

    /// A message for this question without regard to a client, as large as a reply over UDP may
    /// be: only its records are of use.
    pub(crate) fn for_question(question: &[u8]) -> Self {
        let mut octets = vec![0; HEADER];
        octets.extend_from_slice(question);
        let mut names = Names::default();
        let name = question
            .get(..question.len().saturating_sub(4))
            .unwrap_or_default();
        names.add(HEADER, name, name.len());
        let limit = usize::from(EDNS_SIZE);
        Self {
            question: octets.len(),
            octets,
            names,
            id: 0,
            bits: 0,
            transport: ClientTransport::Udp,
            room: limit,
            limit,
            opt: None,
            answers: 0,
            authorities: 0,
            overflown: false,
        }
    }

    /// Sets bits of the header: [`AA`], [`RA`], [`AD`], [`CD`], [`TC`].
    pub(crate) fn set(&mut self, bits: u16) {
        self.bits |= bits;
    }

    /// Adds an extended error (RFC 8914), if the client speaks EDNS. Before any record.
    pub(crate) fn extended_error(&mut self, code: u16, text: &str) {
        if let Some(opt) = &mut self.opt {
            let mut end = text.len().min(MAX_ERROR_TEXT);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            opt.error = Some((code, text.get(..end).unwrap_or_default().to_owned()));
            self.room = self.limit - opt.len();
        }
    }

    /// Adds a record to the answer section; when it does not fit, the reply is truncated there.
    pub(crate) fn answer(&mut self, owner: &[u8], ttl: u32, data: Data<'_>) {
        self.record(Section::Answer, owner, ttl, data);
    }

    /// Adds a record to the authority section; when it does not fit, the section is left out and
    /// the reply is truncated.
    pub(crate) fn authority(&mut self, owner: &[u8], ttl: u32, data: Data<'_>) {
        self.record(Section::Authority, owner, ttl, data);
    }

    /// Adds an upstream's record to the answer section.
    pub(crate) fn foreign_answer(&mut self, record: &Record) {
        self.answer(
            &wire_name(&record.name),
            record.ttl,
            Data::Foreign(&record.data),
        );
    }

    /// Adds an upstream's record to the authority section.
    pub(crate) fn foreign_authority(&mut self, record: &Record) {
        self.authority(
            &wire_name(&record.name),
            record.ttl,
            Data::Foreign(&record.data),
        );
    }

    /// Completes the message.
    pub(crate) fn finish(mut self, rcode: Rcode) -> Written {
        let mut rcode = rcode;
        if self.overflown && self.transport == ClientTransport::Tcp {
            // Rule 62: TC means "ask over TCP", so it cannot stand in a TCP reply.
            self.octets.truncate(self.question);
            (self.answers, self.authorities, self.overflown) = (0, 0, false);
            self.bits &= !AA;
            rcode = Rcode::ServFail;
        }
        if self.overflown {
            self.bits |= TC;
        }
        let mut additionals = 0u16;
        if let Some(opt) = self.opt.take() {
            self.opt(&opt, rcode);
            additionals = 1;
        }
        let bits = self.bits | (rcode.number() & 0x000f);
        let header = [
            self.id,
            bits,
            1,
            self.answers,
            self.authorities,
            additionals,
        ];
        for (slot, octet) in self
            .octets
            .iter_mut()
            .zip(header.into_iter().flat_map(u16::to_be_bytes))
        {
            *slot = octet;
        }
        Written {
            octets: self.octets,
            rcode,
            truncated: self.bits & TC != 0,
        }
    }

    fn record(&mut self, section: Section, owner: &[u8], ttl: u32, data: Data<'_>) {
        if self.overflown {
            return;
        }
        let (start, known) = (self.octets.len(), self.names.len());
        let written = self.write_record(owner, ttl, data);
        if written.is_some() && self.octets.len() <= self.room {
            match section {
                Section::Answer => self.answers += 1,
                Section::Authority => self.authorities += 1,
            }
            return;
        }
        self.octets.truncate(start);
        self.names.truncate(known);
        self.overflown = true;
        if section == Section::Authority {
            self.drop_authority();
        }
    }

    /// Takes back authority records that fitted before one that did not.
    fn drop_authority(&mut self) {
        let mut at = self.question;
        for _ in 0..self.answers {
            let Some(fixed) = crate::wire::skip_name(&self.octets, at) else {
                return;
            };
            let Some(length) = crate::wire::u16_at(&self.octets, fixed + 8) else {
                return;
            };
            at = fixed + 10 + usize::from(length);
        }
        self.octets.truncate(at);
        self.authorities = 0;
    }

    /// None when the record cannot be written at all.
    fn write_record(&mut self, owner: &[u8], ttl: u32, data: Data<'_>) -> Option<()> {
        self.name(owner);
        self.u16(data.rtype());
        self.u16(CLASS_IN);
        self.u32(ttl);
        let length_at = self.octets.len();
        self.u16(0);
        self.rdata(data)?;
        let length = u16::try_from(self.octets.len() - length_at - 2).ok()?;
        self.octets
            .get_mut(length_at..length_at + 2)?
            .copy_from_slice(&length.to_be_bytes());
        Some(())
    }

    fn rdata(&mut self, data: Data<'_>) -> Option<()> {
        match data {
            Data::Address(octets) => self.octets.extend_from_slice(octets),
            Data::Cname(name) | Data::Ns(name) => self.name(name),
            Data::Soa {
                apex,
                serial,
                minimum,
            } => {
                self.name(apex);
                self.name(SOA_RNAME);
                let [refresh, retry, expire] = SOA_TIMERS;
                for number in [serial, refresh, retry, expire, minimum] {
                    self.u32(number);
                }
            }
            Data::Foreign(RData::CNAME(target)) => self.name(&wire_name(target)),
            Data::Foreign(RData::SOA(soa)) => {
                self.name(&wire_name(&soa.mname));
                self.name(&wire_name(&soa.rname));
                self.u32(soa.serial);
                for number in [soa.refresh, soa.retry, soa.expire] {
                    self.u32(number.cast_unsigned());
                }
                self.u32(soa.minimum);
            }
            Data::Foreign(other) => {
                let mut octets = Vec::new();
                let mut encoder = BinEncoder::new(&mut octets);
                encoder.set_name_encoding(NameEncoding::Uncompressed);
                other.emit(&mut encoder).ok()?;
                self.octets.extend(octets);
            }
        }
        Some(())
    }

    /// Writes a name, with a pointer to the longest suffix that was written before
    /// (RFC 1035 §4.1.4), letters compared without case (RFC 4343).
    fn name(&mut self, wire: &[u8]) {
        let start = self.octets.len();
        let found = self.names.find(wire);
        let literal = found.map_or(wire.len(), |(literal, _)| literal);
        self.octets
            .extend_from_slice(wire.get(..literal).unwrap_or(wire));
        if let Some((_, target)) = found {
            self.u16(0xc000 | target);
        }
        self.names.add(start, wire, literal);
    }

    fn opt(&mut self, opt: &Opt, rcode: Rcode) {
        let mut options = Vec::new();
        let mut put = |code: u16, value: &[u8]| {
            options.extend(code.to_be_bytes());
            options.extend(u16::try_from(value.len()).unwrap_or_default().to_be_bytes());
            options.extend_from_slice(value);
        };
        if opt.keepalive {
            // In units of 100 ms.
            put(
                option::TCP_KEEPALIVE,
                &(TCP_IDLE_SECONDS * 10).to_be_bytes(),
            );
        }
        if let Some((code, text)) = &opt.error {
            let mut value = code.to_be_bytes().to_vec();
            value.extend(text.as_bytes());
            put(option::EXTENDED_ERROR, &value);
        }
        self.octets.push(0);
        self.u16(TYPE_OPT);
        self.u16(EDNS_SIZE);
        // Extended RCODE, version 0.
        self.u16((rcode.number() >> 4) << 8);
        self.u16(if opt.dnssec_ok { 0x8000 } else { 0 });
        self.u16(u16::try_from(options.len()).unwrap_or_default());
        self.octets.extend(options);
    }

    fn u16(&mut self, number: u16) {
        self.octets.extend(number.to_be_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.octets.extend(number.to_be_bytes());
    }
}

impl Data<'_> {
    fn rtype(&self) -> u16 {
        match self {
            Self::Address([_, _, _, _]) => rtype::A,
            Self::Address(_) => rtype::AAAA,
            Self::Cname(_) => rtype::CNAME,
            Self::Ns(_) => rtype::NS,
            Self::Soa { .. } => rtype::SOA,
            Self::Foreign(data) => data.record_type().into(),
        }
    }
}

/// The uncompressed wire format of a name, in its own case.
pub(crate) fn wire_name(name: &Name) -> Vec<u8> {
    let mut wire = Vec::with_capacity(name.len() + 1);
    for label in name.iter() {
        wire.push(u8::try_from(label.len()).unwrap_or_default());
        wire.extend_from_slice(label);
    }
    wire.push(0);
    wire
}

#[cfg(test)]
mod tests;
