//! The way of an upstream's octets through the forwarder, without sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::rr::{RData, RecordType};
use tsunaro_model::name::DnsName;

use super::answer::{Failure, Forwarded};
use super::attempt::{Fault, Order, Outcome, sum_up};
use super::matching::{Match, classify};
use super::question::{Question, canonical};
use super::reply::{Lifetime, View};
use super::scrub::scrub_truncated;
use super::ttl;

/// What `octets`, taken for the reply to query `id`, are to a client. None: not the reply.
///
/// # Panics
/// When a record leaves the chain from the question name, enters `primary`, or lives too long.
pub(crate) fn judge(
    octets: &[u8],
    id: u16,
    question: &Question,
    primary: &DnsName,
) -> Option<Result<Forwarded, Failure>> {
    let order = Order {
        question: Arc::new(question.clone()),
        primary: primary.clone(),
        upstream: SocketAddr::from((Ipv4Addr::LOCALHOST, 53)),
        resend_at: None,
        tcp_until: Instant::now(),
    };
    let fault = match classify(octets, id, question) {
        Match::Ignored => return None,
        Match::Malformed => Fault::Malformed,
        Match::Truncated(message) => {
            let part = message.and_then(|m| scrub_truncated(&m, question, primary))?;
            return Some(Ok(part.view(question, View::Truncated)));
        }
        Match::Reply(message) => match order.judge(&message, octets.len()) {
            Outcome::Answer(reply) => {
                if let Lifetime::Positive(seconds) | Lifetime::Negative(seconds) = reply.lifetime {
                    assert!((1..=ttl::STALE).contains(&seconds));
                }
                let fresh = reply.view(question, View::Aged(Duration::ZERO));
                is_scrubbed(&fresh, question, primary);
                is_scrubbed(&reply.view(question, View::Stale), question, primary);
                return Some(Ok(fresh));
            }
            Outcome::Truncated(_, fault) | Outcome::Failed(fault) => fault,
        },
    };
    Some(Err(sum_up([fault].iter())))
}

/// Rule 54 of the DNS contract: the chain from the question name and its end, nothing else.
fn is_scrubbed(reply: &Forwarded, question: &Question, primary: &DnsName) {
    let mut at = canonical(&question.name);
    for record in &reply.answer {
        let owner = canonical(&record.name);
        assert!(!owner.is_within(primary), "{record} is ours to answer");
        assert!(record.ttl <= ttl::STALE, "{record}");
        match (&record.data, record.record_type()) {
            (_, RecordType::RRSIG) => assert!(question.dnssec_ok, "{record}"),
            (_, RecordType::DNAME) => assert!(at.is_within(&owner), "{record} after {at}"),
            (RData::CNAME(target), _) if question.qtype != RecordType::CNAME => {
                assert_eq!(owner, at);
                at = canonical(&target.0);
            }
            (_, rtype) => {
                assert_eq!(owner, at);
                assert_eq!(rtype, question.qtype);
            }
        }
    }
    assert_eq!(reply.continue_at.is_some(), at.is_within(primary));
    for record in &reply.authority {
        assert!(record.record_type() == RecordType::SOA || question.dnssec_ok);
        assert!(record.ttl <= ttl::STALE, "{record}");
    }
}
