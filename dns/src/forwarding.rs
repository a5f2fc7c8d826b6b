//! The seam to the forwarder: what a question becomes on its way to upstreams, and what comes back.

use std::future::Future;
use std::sync::Arc;

use hickory_proto::rr::{Name, Record};
use thiserror::Error;
use tsunaro_model::zone::{ExtraZone, Snapshot};

/// How a query came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// One length-prefixed message of a stream.
    Tcp,
}

/// A question for upstreams (class IN).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name, in the case it was asked in.
    pub name: Name,
    /// The type's IANA number.
    pub qtype: u16,
    /// DO of the client's OPT.
    pub dnssec_ok: bool,
    /// CD of the client's header.
    pub checking_disabled: bool,
    /// RD of the client's header.
    pub recursion_desired: bool,
    /// AD of the client's header.
    pub authentic_data: bool,
    /// How the client asked.
    pub transport: Transport,
}

/// What upstreams said, reduced to what may be sent on (rule 54 of the DNS contract), with TTLs
/// as they are to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// NOERROR (0) or NXDOMAIN (3).
    pub rcode: u16,
    /// The alias chain from the question name, then the final RRset.
    pub answer: Vec<Record>,
    /// SOA and proofs of a negative answer.
    pub authority: Vec<Record>,
    /// AD of the upstream's header.
    pub authentic_data: bool,
    /// The answer was cut short and could not be had over TCP.
    pub truncated: bool,
    /// An expired answer, served because every upstream failed (RFC 8767).
    pub stale: bool,
    /// The target in the authoritative zone where the chain was cut, to be continued locally.
    pub continue_at: Option<Name>,
}

/// An extended DNS error (RFC 8914).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedError {
    /// The INFO-CODE.
    pub code: u16,
    /// The EXTRA-TEXT, possibly empty.
    pub text: String,
}

/// Why no upstream's answer can be sent on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// No upstream answered in time.
    #[error("no upstream answered in time")]
    Timeout,
    /// No upstream could be reached.
    #[error("no upstream could be reached")]
    Network,
    /// Upstreams answered, none of them usefully.
    #[error("every upstream refused or failed")]
    Upstream {
        /// What one of them said about it.
        error: Option<ExtendedError>,
    },
    /// Too many questions are in flight already.
    #[error("too many questions in flight")]
    Overloaded,
}

/// Asks the upstreams of a zone. Dropping the future must be harmless.
pub trait Resolve: Send + Sync + 'static {
    /// Answers `question` from the upstreams of `zone` (or a cache of them). `snapshot` holds the
    /// authoritative zone, at whose names the answer's alias chain is to be cut.
    fn resolve(
        &self,
        snapshot: &Snapshot,
        zone: &ExtraZone,
        question: Question,
    ) -> impl Future<Output = Result<Arc<Forwarded>, Failure>> + Send;
}
