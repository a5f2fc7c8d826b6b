//! A scrubbed answer of an upstream as it is kept and shared, and its view for one client.

use std::sync::OnceLock;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, Record};

use super::answer::Forwarded;
use super::question::Question;
use super::ttl;
use super::wire::Wire;

/// A definite answer, scrubbed, TTLs clamped as of its arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) rcode: ResponseCode,
    pub(super) answer: Vec<Record>,
    pub(super) authority: Vec<Record>,
    pub(super) authentic_data: bool,
    pub(super) continue_at: Option<Name>,
    pub(super) links: usize,
    pub(super) lifetime: Lifetime,
    /// Size of the message it came in, for the cache's limit.
    pub(super) octets: usize,
    /// Its wire format, made when the fast path asks for it first.
    pub(super) wire: OnceLock<Option<Wire>>,
}

/// For how many seconds after its arrival an answer may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// TTL 0, a negative without SOA, or a part of an answer.
    Uncacheable,
    /// Data; may be served stale afterwards.
    Positive(u32),
    /// A denial; never served stale.
    Negative(u32),
}

/// How an answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// Within its lifetime, that long after its arrival.
    Aged(Duration),
    /// Past its lifetime, for want of a better one.
    Stale,
    /// The part of an answer that fit.
    Truncated,
}

impl Reply {
    /// The part of a truncated answer of which nothing could be read.
    pub(super) fn empty() -> Self {
        Self {
            rcode: ResponseCode::NoError,
            answer: Vec::new(),
            authority: Vec::new(),
            authentic_data: false,
            continue_at: None,
            links: 0,
            lifetime: Lifetime::Uncacheable,
            octets: 0,
            wire: OnceLock::new(),
        }
    }

    /// The wire format, for a question of this length.
    pub(super) fn wire(&self, question: &[u8]) -> Option<&Wire> {
        self.wire.get_or_init(|| Wire::of(self, question)).as_ref()
    }

    /// The wire format, if it was made before.
    pub(super) fn known_wire(&self) -> Option<&Wire> {
        self.wire.get()?.as_ref()
    }

    pub(super) fn view(&self, question: &Question, view: View) -> Forwarded {
        let show = |record: &Record| {
            let mut record = record.clone();
            match view {
                View::Aged(age) => record.ttl = ttl::remaining(record.ttl, age),
                View::Stale => record.ttl = ttl::STALE,
                View::Truncated => {}
            }
            // The reply may have been fetched for a client that wrote the name differently.
            if record.name.eq_ignore_root(&question.name) {
                record.name.clone_from(&question.name);
            }
            record
        };
        let asked_for_ad = question.authentic_data || question.dnssec_ok;
        Forwarded {
            rcode: self.rcode,
            answer: self.answer.iter().map(show).collect(),
            authority: self.authority.iter().map(show).collect(),
            authentic_data: self.authentic_data && asked_for_ad && matches!(view, View::Aged(_)),
            truncated: view == View::Truncated,
            stale: view == View::Stale,
            continue_at: self.continue_at.clone(),
            links: self.links,
        }
    }
}
