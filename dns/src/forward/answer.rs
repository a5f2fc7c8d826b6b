//! What comes of a question: records to send on, or a failure with its reason.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, Record};
use thiserror::Error;

/// EDE Other (RFC 8914 §4.1).
const EDE_OTHER: u16 = 0;
/// EDE No Reachable Authority (RFC 8914 §4.23): also for servers that refuse to answer.
const EDE_NO_REACHABLE_AUTHORITY: u16 = 22;
/// EDE Network Error (RFC 8914 §4.24).
const EDE_NETWORK_ERROR: u16 = 23;

/// An answer to send on (rule 54 of the DNS contract): AA clear, RA set, records as they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// `NoError` or `NXDomain`.
    pub rcode: ResponseCode,
    /// The CNAME and DNAME chain from the question name in order, then the final RRset; RRSIGs if
    /// the client set DO. Owners that equal the question name repeat it byte for byte; TTLs are
    /// clamped and counted down to this moment.
    pub answer: Vec<Record>,
    /// The SOA of a negative answer, with NSEC, NSEC3 and RRSIG if the client set DO.
    pub authority: Vec<Record>,
    /// AD, already limited to clients that understand it.
    pub authentic_data: bool,
    /// TC: more exists, and no upstream gave it over TCP. Only for clients over UDP.
    pub truncated: bool,
    /// Served past its TTL because no upstream answered: EDE 3 (RFC 8767, RFC 8914 §4.4).
    pub stale: bool,
    /// Where the chain entered the primary zone and was cut: continue there locally (rule 55).
    /// `answer` then holds the links up to there and `authority` is empty.
    pub continue_at: Option<Name>,
    /// CNAMEs in `answer`, for the limit on links of one answer.
    pub links: usize,
}

/// An extended DNS error: its info-code and extra text (RFC 8914 §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedError {
    /// The info-code.
    pub code: u16,
    /// UTF-8 text for people; may be empty.
    pub text: String,
}

/// Why there is no answer. Each is a SERVFAIL to the client.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// At least one upstream stayed silent and none answered.
    #[error("no upstream answered in time")]
    Timeout,
    /// No upstream could be reached: closed port, no route, connection broken off.
    #[error("no upstream could be reached")]
    Network,
    /// Upstreams answered, none usefully.
    #[error("the upstreams answered {rcode}")]
    Upstream {
        /// What the most telling one said.
        rcode: ResponseCode,
        /// The extended error that came with it.
        extended: Option<ExtendedError>,
    },
    /// Upstreams answered something that is no DNS answer to the question.
    #[error("the upstreams answered malformed messages")]
    Malformed,
    /// Too many questions in flight (rule 58).
    #[error("too many forwarded queries in flight")]
    Overloaded,
    /// This process has no descriptor or port left to ask with.
    #[error("no socket is left to ask the upstreams with")]
    OutOfSockets,
    /// The zone is not forwarded in the current configuration.
    #[error("the zone has no upstreams")]
    NotConfigured,
    /// The forwarder is shutting down, or the task that asked died.
    #[error("the query was given up")]
    GivenUp,
}

impl Failure {
    /// The extended error to send with SERVFAIL (rule 51 of the DNS contract).
    pub fn extended_error(&self) -> ExtendedError {
        let code = match self {
            Self::Upstream {
                extended: Some(extended),
                ..
            } => return extended.clone(),
            Self::Upstream { extended: None, .. } | Self::Timeout => EDE_NO_REACHABLE_AUTHORITY,
            Self::Network | Self::Malformed => EDE_NETWORK_ERROR,
            Self::Overloaded | Self::OutOfSockets | Self::NotConfigured | Self::GivenUp => {
                EDE_OTHER
            }
        };
        ExtendedError {
            code,
            text: self.to_string(),
        }
    }
}
