//! A kept answer in wire format, for the fast path: everything after the question, which is the
//! same for every client but for the TTLs.
//!
//! It is made by the encoder of the general path and therefore its twin. What stands in it depends
//! on the question's length, but not on its case: names are compressed without regard to case
//! (RFC 4343), so that every repetition of the question is a pointer.

use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::ResponseCode;

use super::reply::Reply;
use super::ttl;
use crate::reply::Builder;
use crate::wire::{HEADER, Rcode, skip_name, u16_at};

/// The records of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wire {
    rcode: Rcode,
    answers: u16,
    authorities: u16,
    octets: Box<[u8]>,
    /// Where TTLs stand in the octets.
    ttls: Box<[u16]>,
}

/// An answer from the cache at one moment.
#[derive(Debug)]
pub struct CachedWire {
    reply: Arc<Reply>,
    age: Duration,
}

impl Wire {
    /// None when the answer has no such form: its aliases go on in the primary zone, or it is
    /// larger than any datagram of ours.
    pub(super) fn of(reply: &Reply, question: &[u8]) -> Option<Self> {
        if reply.continue_at.is_some() {
            return None;
        }
        let rcode = match reply.rcode {
            ResponseCode::NoError => Rcode::NoError,
            ResponseCode::NXDomain => Rcode::NxDomain,
            _ => return None,
        };
        let mut builder = Builder::for_question(question);
        for record in &reply.answer {
            builder.foreign_answer(record);
        }
        for record in &reply.authority {
            builder.foreign_authority(record);
        }
        let written = builder.finish(rcode);
        if written.truncated {
            return None;
        }
        let message = written.octets;
        let start = HEADER + question.len();
        let (answers, authorities) = (u16_at(&message, 6)?, u16_at(&message, 8)?);
        let mut ttls = Vec::new();
        let mut at = start;
        for _ in 0..answers + authorities {
            let fixed = skip_name(&message, at)?;
            ttls.push(u16::try_from(fixed + 4 - start).ok()?);
            at = fixed + 10 + usize::from(u16_at(&message, fixed + 8)?);
        }
        Some(Self {
            rcode,
            answers,
            authorities,
            octets: message.get(start..)?.into(),
            ttls: ttls.into(),
        })
    }
}

impl CachedWire {
    /// None when the answer has no wire form for the fast path.
    pub(super) fn new(reply: Arc<Reply>, age: Duration, question: &[u8]) -> Option<Self> {
        reply.wire(question)?;
        Some(Self { reply, age })
    }

    fn wire(&self) -> Option<&Wire> {
        self.reply.known_wire()
    }

    /// NOERROR or NXDOMAIN.
    pub(crate) fn rcode(&self) -> Rcode {
        self.wire().map_or(Rcode::ServFail, |wire| wire.rcode)
    }

    /// AD, for clients that understand it.
    pub(crate) fn authentic_data(&self) -> bool {
        self.reply.authentic_data
    }

    /// Records in the answer and in the authority section.
    pub(crate) fn counts(&self) -> (u16, u16) {
        self.wire()
            .map_or((0, 0), |wire| (wire.answers, wire.authorities))
    }

    /// Octets that [`CachedWire::write`] needs.
    pub(crate) fn len(&self) -> usize {
        self.wire().map_or(0, |wire| wire.octets.len())
    }

    /// Writes the records with what is left of their TTLs.
    pub(crate) fn write(&self, out: &mut [u8]) -> Option<()> {
        let wire = self.wire()?;
        out.get_mut(..wire.octets.len())?
            .copy_from_slice(&wire.octets);
        if self.age >= Duration::from_secs(1) {
            for at in &wire.ttls {
                let field = out.get_mut(usize::from(*at)..)?.first_chunk_mut::<4>()?;
                let left = ttl::remaining(u32::from_be_bytes(*field), self.age);
                *field = left.to_be_bytes();
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
