//! The seam to the forwarder: what a question becomes on its way to upstreams, and what comes back.

use std::future::Future;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, Record, RecordType};
use thiserror::Error;
use tsunaro_model::name::DnsName;

use crate::wire::ede;

/// How a client asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTransport {
    /// One datagram: may be told to ask again over TCP.
    Udp,
    /// One length-prefixed message of a stream: must get the whole answer or none.
    Tcp,
}

/// One question of class IN for a name in an extra zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name, in the case it was asked in.
    pub name: Name,
    /// The type asked for.
    pub qtype: RecordType,
    /// DO of the client's OPT.
    pub dnssec_ok: bool,
    /// CD of the client's header.
    pub checking_disabled: bool,
    /// RD of the client's header.
    pub recursion_desired: bool,
    /// AD of the client's header.
    pub authentic_data: bool,
    /// How the client asked.
    pub transport: ClientTransport,
}

/// What upstreams said, reduced to what may be sent on (rule 54 of the DNS contract), with TTLs
/// as they are to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// `NoError` or `NXDomain`.
    pub rcode: ResponseCode,
    /// The alias chain from the question name, then the final RRset.
    pub answer: Vec<Record>,
    /// SOA and proofs of a negative answer.
    pub authority: Vec<Record>,
    /// AD, already limited to clients that understand it.
    pub authentic_data: bool,
    /// The answer was cut short and could not be had over TCP.
    pub truncated: bool,
    /// An expired answer, served because every upstream failed (RFC 8767).
    pub stale: bool,
    /// The target in the authoritative zone where the chain was cut, to be continued locally.
    pub continue_at: Option<Name>,
    /// CNAMEs in `answer`.
    pub links: usize,
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
    #[error("the upstreams answered {rcode}")]
    Upstream {
        /// What the most telling one said.
        rcode: ResponseCode,
        /// The extended error that came with it.
        extended: Option<ExtendedError>,
    },
    /// Too many questions are in flight already.
    #[error("too many forwarded queries in flight")]
    Overloaded,
}

impl Failure {
    /// The extended error to send with SERVFAIL (rule 51).
    pub fn extended_error(&self) -> ExtendedError {
        let code = match self {
            Self::Upstream {
                rcode: _,
                extended: Some(extended),
            } => return extended.clone(),
            Self::Upstream {
                rcode: _,
                extended: None,
            }
            | Self::Timeout => ede::NO_REACHABLE_AUTHORITY,
            Self::Network => ede::NETWORK_ERROR,
            Self::Overloaded => ede::OTHER,
        };
        ExtendedError {
            code,
            text: self.to_string(),
        }
    }
}

/// Asks the upstreams of extra zones. Dropping a future of it must be harmless.
pub trait Resolve: Send + Sync + 'static {
    /// Answers without waiting, if it can. None: only [`Resolve::resolve`] can tell.
    fn resolve_from_cache(&self, question: &Question) -> Option<Result<Forwarded, Failure>>;

    /// Answers a question for a name in the extra zone with apex `zone`.
    fn resolve(
        &self,
        zone: &DnsName,
        question: &Question,
    ) -> impl Future<Output = Result<Forwarded, Failure>> + Send;
}
