//! The answers that most queries get, written straight into a buffer: one RRset of addresses, a
//! denial with its SOA, a refusal, an upstream's answer from the cache. No allocation, no aliases
//! of our own.
//!
//! What is a query and what answers it is decided by the same code as everywhere
//! ([`Parsed::read`], [`Snapshot::resolve_wire`]); only the octets are laid out here, because
//! their shape is known. Everything else is left to [`answer`](crate::answer): the property in the
//! tests holds both to the same octets.

use tsunaro_model::zone::{End, Records, Snapshot, ZoneRef, rtype};

use crate::answer::{ZoneKind, hickory_name};
use crate::forward::{Arrived, MAX_KEY, write_key};
use crate::forwarding::{CachedWire, ClientTransport, Question, Resolve};
use crate::query::{Edns, Parsed, reply_limit};
use crate::reply::{AA, AD, CD, OPCODE, QR, RA, RD, SOA_RNAME, SOA_TIMERS};
use crate::wire::{CLASS_IN, EDNS_SIZE, HEADER, Rcode, TYPE_OPT, ede, option, u16_at};

/// Octets of the longest name.
const MAX_NAME: usize = 255;

/// Octets of a record after its owner and before its data: type, class, TTL, length.
const FIXED: usize = 10;

/// A compression pointer to the question name.
const QUESTION_NAME: u16 = 0xc000 | HEADER as u16;

/// The last label of [`SOA_RNAME`] and what stands for the root: an apex that ends so would be
/// pointed to.
const SOA_RNAME_END: &[u8] = b"\x07invalid\x00";

/// What was written, as the metrics want to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fast {
    /// Octets of the reply.
    pub length: usize,
    /// Its response code.
    pub rcode: Rcode,
    /// The zone of the question name.
    pub zone: ZoneKind,
}

/// What the fast path makes of a message.
pub(crate) enum Look {
    /// The reply is written.
    Reply(Fast),
    /// A question for the upstreams of this extra zone.
    Ask(usize),
    /// Not for the fast path.
    Other,
}

/// Answers a message that came over UDP, if it is a usual one. None leaves it to
/// [`query::parse`](crate::query::parse), with nothing of use in `out`.
pub fn answer<R: Resolve>(
    snapshot: &Snapshot,
    resolver: &R,
    message: &[u8],
    rotation: usize,
    out: &mut [u8],
) -> Option<Fast> {
    match look(snapshot, resolver, message, rotation, out) {
        Look::Reply(fast) => Some(fast),
        Look::Ask(_) | Look::Other => None,
    }
}

/// As [`answer`], and tells the questions that upstreams have to be asked from what is unusual.
pub(crate) fn look<R: Resolve>(
    snapshot: &Snapshot,
    resolver: &R,
    message: &[u8],
    rotation: usize,
    out: &mut [u8],
) -> Look {
    let mut ask = None;
    let known = |parsed: &Parsed<'_>, zone, name: &[u8], bits| {
        let found = find(resolver, parsed, name, bits);
        if found.is_none() {
            ask = Some(zone);
        }
        found
    };
    match (write(snapshot, known, message, rotation, out), ask) {
        (Some(fast), _) => Look::Reply(fast),
        (None, Some(zone)) => Look::Ask(zone),
        (None, None) => Look::Other,
    }
}

/// Answers a message with what upstreams have just said to it, if that has the usual form.
pub(crate) fn pass_on(
    snapshot: &Snapshot,
    arrived: &Arrived,
    message: &[u8],
    out: &mut [u8],
) -> Option<Fast> {
    let known = |parsed: &Parsed<'_>, _, _: &[u8], _| arrived.wire(parsed.question);
    write(snapshot, known, message, 0, out)
}

/// Writes the reply; `known` is asked for what upstreams have said, by the question, the extra
/// zone, the canonical name and the header's bits.
fn write(
    snapshot: &Snapshot,
    known: impl FnOnce(&Parsed<'_>, usize, &[u8], u16) -> Option<CachedWire>,
    message: &[u8],
    rotation: usize,
    out: &mut [u8],
) -> Option<Fast> {
    let bits = u16_at(message, 2)?;
    if bits & (QR | OPCODE) != 0 {
        return None;
    }
    let parsed = Parsed::read(message)?;
    if parsed.refusal().is_some() {
        return None;
    }
    let sent = parsed.name();
    let mut canonical = [0; MAX_NAME];
    let name = canonical.get_mut(..sent.len())?;
    name.copy_from_slice(sent);
    // Length octets are below 64 and so never taken for letters.
    name.make_ascii_lowercase();
    let resolution = snapshot.resolve_wire(name, parsed.qtype);
    if !resolution.chain.is_empty() {
        return None;
    }
    let mut reply = Reply {
        out,
        at: HEADER,
        limit: reply_limit(ClientTransport::Udp, parsed.edns),
    };
    reply.put(parsed.question)?;
    let (zone, mut header) = match resolution.zone {
        Some(ZoneRef::Primary) => (ZoneKind::Primary, AA),
        Some(ZoneRef::Extra(_)) => (ZoneKind::Extra, AA | RA),
        None => (ZoneKind::None, 0),
    };
    let (mut answers, mut authorities, mut additionals) = (0, 0, 0);
    let mut error = None;
    let rcode = match resolution.end {
        End::Records(Records::A(set), _) => {
            let room = reply.room(parsed.edns, error)?;
            answers = reply.addresses(rtype::A, snapshot.ttl(), set, rotation, room)?;
            Rcode::NoError
        }
        End::Records(Records::Aaaa(set), _) => {
            let room = reply.room(parsed.edns, error)?;
            answers = reply.addresses(rtype::AAAA, snapshot.ttl(), set, rotation, room)?;
            Rcode::NoError
        }
        End::NoData(of, _) => {
            reply.soa(snapshot, of, name)?;
            authorities = 1;
            Rcode::NoError
        }
        End::NoSuchName => {
            reply.soa(snapshot, ZoneRef::Primary, name)?;
            authorities = 1;
            Rcode::NxDomain
        }
        End::NotOurs => {
            error = Some(ede::NOT_AUTHORITATIVE);
            Rcode::Refused
        }
        End::Forward(zone) => {
            let cached = known(&parsed, zone, name, bits)?;
            (answers, authorities) = cached.counts();
            reply.cached(&cached)?;
            header = RA | bits & CD;
            let wants_ad = bits & AD != 0 || parsed.edns.is_some_and(|edns| edns.dnssec_ok);
            if wants_ad && cached.authentic_data() {
                header |= AD;
            }
            cached.rcode()
        }
        End::Records(Records::Cname(_) | Records::Soa | Records::Ns, _)
        | End::HostsUnread
        | End::Outside
        | End::AliasLoop => return None,
    };
    if let Some(edns) = parsed.edns {
        reply.opt(edns, error)?;
        additionals = 1;
    }
    let id = u16_at(message, 0)?;
    let bits = QR | header | (bits & RD) | rcode.number();
    let length = reply.finish(id, bits, [1, answers, authorities, additionals])?;
    Some(Fast {
        length,
        rcode,
        zone,
    })
}

/// What upstreams are asked for a message of which [`look`] said so.
pub(crate) fn question(message: &[u8]) -> Option<Question> {
    let bits = u16_at(message, 2)?;
    let parsed = Parsed::read(message)?;
    Some(Question {
        name: hickory_name(parsed.name()),
        qtype: parsed.qtype.into(),
        dnssec_ok: parsed.edns.is_some_and(|edns| edns.dnssec_ok),
        checking_disabled: bits & CD != 0,
        recursion_desired: bits & RD != 0,
        authentic_data: bits & AD != 0,
        transport: ClientTransport::Udp,
    })
}

/// What the forwarder has kept of earlier answers.
fn find<R: Resolve>(
    resolver: &R,
    parsed: &Parsed<'_>,
    name: &[u8],
    bits: u16,
) -> Option<CachedWire> {
    let mut key = [0; MAX_KEY];
    let dnssec_ok = parsed.edns.is_some_and(|edns| edns.dnssec_ok);
    let key = write_key(&mut key, name, parsed.qtype, dnssec_ok, bits & CD != 0)?;
    resolver.find_wire(key, parsed.question)
}

/// A reply in the making. Every method is None when something does not fit.
struct Reply<'a> {
    out: &'a mut [u8],
    at: usize,
    limit: usize,
}

impl Reply<'_> {
    fn put(&mut self, octets: &[u8]) -> Option<()> {
        let end = self.at + octets.len();
        self.out.get_mut(self.at..end)?.copy_from_slice(octets);
        self.at = end;
        Some(())
    }

    /// Octets that records may still use.
    fn room(&self, edns: Option<Edns>, error: Option<u16>) -> Option<usize> {
        let opt = edns.map_or(0, |_| 11 + error.map_or(0, |_| 6));
        self.limit.checked_sub(self.at + opt)
    }

    /// One RRset at the question name; how many records.
    fn addresses<const N: usize>(
        &mut self,
        rtype: u16,
        ttl: u32,
        set: &[[u8; N]],
        rotation: usize,
        room: usize,
    ) -> Option<u16> {
        let record = 2 + FIXED + N;
        if set.len() * record > room {
            return None;
        }
        let [a, b, c, d] = ttl.to_be_bytes();
        let (ttl_high, ttl_low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let length = u16::try_from(N).ok()?;
        let head = sixteen([QUESTION_NAME, rtype, CLASS_IN, ttl_high, ttl_low, length]);
        let first = rotation.checked_rem(set.len()).unwrap_or_default();
        let (before, after) = set.split_at_checked(first)?;
        for address in after.iter().chain(before) {
            self.put(head.as_flattened())?;
            self.put(address)?;
        }
        u16::try_from(set.len()).ok()
    }

    /// The SOA of a denial. Its owner and its MNAME are the apex, which ends the question name.
    fn soa(&mut self, snapshot: &Snapshot, zone: ZoneRef, name: &[u8]) -> Option<()> {
        let apex = snapshot.apex_of(zone).as_wire();
        if apex.ends_with(SOA_RNAME_END) {
            return None;
        }
        let apex_at = HEADER + name.len().checked_sub(apex.len())?;
        let pointer = 0xc000 | u16::try_from(apex_at).ok()?;
        let ttl = snapshot.ttl().min(snapshot.negative_ttl());
        let length = u16::try_from(2 + SOA_RNAME.len() + 5 * 4).ok()?;
        let [refresh, retry, expire] = SOA_TIMERS;
        let numbers = thirty_two([
            snapshot.serial(),
            refresh,
            retry,
            expire,
            snapshot.negative_ttl(),
        ]);
        self.put(sixteen([pointer, rtype::SOA, CLASS_IN]).as_flattened())?;
        self.put(&ttl.to_be_bytes())?;
        self.put(sixteen([length, pointer]).as_flattened())?;
        self.put(SOA_RNAME)?;
        self.put(numbers.as_flattened())
    }

    fn cached(&mut self, cached: &CachedWire) -> Option<()> {
        cached.write(self.out.get_mut(self.at..)?)?;
        self.at += cached.len();
        Some(())
    }

    fn opt(&mut self, edns: Edns, error: Option<u16>) -> Option<()> {
        let flags = if edns.dnssec_ok { 0x8000 } else { 0 };
        let options = if error.is_some() { 6 } else { 0 };
        // The root owns it.
        self.put(&[0])?;
        self.put(sixteen([TYPE_OPT, EDNS_SIZE, 0, flags, options]).as_flattened())?;
        if let Some(code) = error {
            self.put(sixteen([option::EXTENDED_ERROR, 2, code]).as_flattened())?;
        }
        Some(())
    }

    fn finish(self, id: u16, bits: u16, counts: [u16; 4]) -> Option<usize> {
        let [questions, answers, authorities, additionals] = counts;
        let header = sixteen([id, bits, questions, answers, authorities, additionals]);
        self.out
            .get_mut(..HEADER)?
            .copy_from_slice(header.as_flattened());
        (self.at <= self.limit).then_some(self.at)
    }
}

/// Numbers of 16 bits in network order.
fn sixteen<const N: usize>(numbers: [u16; N]) -> [[u8; 2]; N] {
    numbers.map(u16::to_be_bytes)
}

/// Numbers of 32 bits in network order.
fn thirty_two<const N: usize>(numbers: [u32; N]) -> [[u8; 4]; N] {
    numbers.map(u32::to_be_bytes)
}

#[cfg(test)]
mod tests;
