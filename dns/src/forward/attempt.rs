//! One query to one upstream: UDP, a resend, and TCP when the answer did not fit.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, ResponseCode};
use nix::errno::Errno;
use tokio::time::Instant as TokioInstant;
use tsunaro_model::name::DnsName;

use super::answer::{ExtendedError, Failure};
use super::matching::{Match, classify, encode, extended_error};
use super::metrics::ForwardMetrics;
use super::now;
use super::question::Question;
use super::race::Class;
use super::reply::Reply;
use super::scrub::{scrub, scrub_truncated};
use super::transport::{Channel, Transport};

/// Room for a datagram. We ask for 1232 octets; one that fills this was cut off.
pub(super) const BUFFER: usize = 4096;

/// Foreign datagrams that a query bears. More of them mean that somebody guesses: TCP cannot be
/// guessed, and the flood must not outrun the clock.
pub(super) const MAX_IGNORED: usize = 64;

/// What one attempt came to.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// A definite answer.
    Answer(Arc<Reply>),
    /// TC, and TCP failed: the part that came, if it could be read.
    Truncated(Option<Arc<Reply>>, Fault),
    /// No answer.
    Failed(Fault),
}

/// Why an attempt gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    Rcode(ResponseCode, Option<ExtendedError>),
    Malformed,
    Network,
    Timeout,
    /// The fault is ours, and says nothing about the upstream.
    OutOfSockets,
}

/// Everything an attempt needs besides the transport.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) question: Arc<Question>,
    pub(super) primary: DnsName,
    pub(super) upstream: SocketAddr,
    /// When to send the query again.
    pub(super) resend_at: Option<Instant>,
    /// When an exchange over TCP must end.
    pub(super) tcp_until: Instant,
}

/// A query that is out over UDP.
#[derive(Debug)]
pub(super) struct Exchange<C> {
    pub(super) channel: C,
    pub(super) id: u16,
    pub(super) query: Vec<u8>,
    pub(super) sent: Instant,
    /// Foreign datagrams so far.
    pub(super) ignored: usize,
    /// What was received, but not looked at yet.
    pub(super) received: Option<io::Result<Vec<u8>>>,
}

/// Runs one attempt until its upstream answered or cannot; one that somebody else began goes on.
/// It sets itself no limit of time but on TCP; its owner drops it. Also gives the round trip,
/// unless a resend blurs it.
pub(super) async fn attempt<T: Transport>(
    transport: &T,
    metrics: &ForwardMetrics,
    order: &Order,
    begun: Option<Exchange<T::Channel>>,
) -> (Outcome, Option<Duration>) {
    let asked = async {
        let exchange = match begun {
            Some(exchange) => exchange,
            None => begin(transport, metrics, order).await?,
        };
        listen(exchange, metrics, order).await
    };
    match asked.await {
        Ok(UdpReply::Whole {
            message,
            octets,
            rtt,
        }) => (order.judge(&message, octets), rtt),
        Ok(UdpReply::Truncated { part, rtt }) => {
            let outcome = match ask_over_tcp(transport, metrics, order).await {
                Ok((message, octets)) => order.judge(&message, octets),
                Err(fault) => Outcome::Truncated(part.map(Arc::new), fault),
            };
            (outcome, rtt)
        }
        Err(fault) => (Outcome::Failed(fault), None),
    }
}

enum UdpReply {
    Whole {
        message: Box<Message>,
        octets: usize,
        rtt: Option<Duration>,
    },
    Truncated {
        part: Option<Reply>,
        rtt: Option<Duration>,
    },
}

async fn begin<T: Transport>(
    transport: &T,
    metrics: &ForwardMetrics,
    order: &Order,
) -> Result<Exchange<T::Channel>, Fault> {
    // From the thread's cryptographically secure generator (RFC 5452 §9.2).
    let id = rand::random();
    let query = encode(&order.question, id).map_err(|_| Fault::Malformed)?;
    let channel = transport
        .open(order.upstream)
        .await
        .map_err(|error| not_opened(&error))?;
    let sent = now();
    metrics.udp_queries.add();
    channel.send(&query).await.map_err(|_| Fault::Network)?;
    Ok(Exchange {
        channel,
        id,
        query,
        sent,
        ignored: 0,
        received: None,
    })
}

async fn listen<C: Channel>(
    exchange: Exchange<C>,
    metrics: &ForwardMetrics,
    order: &Order,
) -> Result<UdpReply, Fault> {
    let Exchange {
        channel,
        id,
        query,
        sent,
        mut ignored,
        mut received,
    } = exchange;
    let mut resend_at = order.resend_at;
    let mut buffer = vec![0; BUFFER];
    loop {
        let due = TokioInstant::from_std(resend_at.unwrap_or_else(Instant::now));
        let length = if let Some(early) = received.take() {
            buffer = early.map_err(|_| Fault::Network)?;
            buffer.len()
        } else {
            buffer.resize(BUFFER, 0);
            tokio::select! {
                biased;
                received = channel.receive(&mut buffer) => received.map_err(|_| Fault::Network)?,
                () = tokio::time::sleep_until(due), if resend_at.is_some() => {
                    resend_at = None;
                    metrics.resends.add();
                    channel.send(&query).await.map_err(|_| Fault::Network)?;
                    continue;
                }
            }
        };
        // A round trip after a resend could belong to either datagram (RFC 6298 §3).
        let rtt = (resend_at == order.resend_at).then(|| now().saturating_duration_since(sent));
        match classify(
            buffer.get(..length).unwrap_or_default(),
            id,
            &order.question,
        ) {
            Match::Ignored => {
                metrics.ignored_replies.add();
                ignored += 1;
                if ignored >= MAX_IGNORED {
                    return Ok(UdpReply::Truncated {
                        part: None,
                        rtt: None,
                    });
                }
            }
            Match::Malformed if length >= BUFFER => {
                return Ok(UdpReply::Truncated { part: None, rtt });
            }
            Match::Malformed => return Err(Fault::Malformed),
            Match::Truncated(message) => {
                channel.release();
                let part = message
                    .and_then(|message| scrub_truncated(&message, &order.question, &order.primary));
                return Ok(UdpReply::Truncated { part, rtt });
            }
            Match::Reply(message) => {
                channel.release();
                return Ok(UdpReply::Whole {
                    message,
                    octets: length,
                    rtt,
                });
            }
        }
    }
}

async fn ask_over_tcp<T: Transport>(
    transport: &T,
    metrics: &ForwardMetrics,
    order: &Order,
) -> Result<(Box<Message>, usize), Fault> {
    let id = rand::random();
    let query = encode(&order.question, id).map_err(|_| Fault::Malformed)?;
    metrics.tcp_queries.add();
    let exchange = transport.ask_over_tcp(order.upstream, query);
    let octets = tokio::time::timeout_at(TokioInstant::from_std(order.tcp_until), exchange)
        .await
        .map_err(|_| Fault::Timeout)?
        .map_err(|error| not_opened(&error))?;
    match classify(&octets, id, &order.question) {
        Match::Reply(message) => Ok((message, octets.len())),
        // Over TCP there is no room that an answer could exceed, and no stranger's message.
        Match::Ignored | Match::Truncated(_) | Match::Malformed => Err(Fault::Malformed),
    }
}

/// Final are NOERROR and NXDOMAIN (rule 51 of the DNS contract).
pub(super) fn is_definite(rcode: ResponseCode) -> bool {
    matches!(rcode, ResponseCode::NoError | ResponseCode::NXDomain)
}

impl Order {
    pub(super) fn judge(&self, message: &Message, octets: usize) -> Outcome {
        let rcode = message.metadata.response_code;
        if !is_definite(rcode) {
            return Outcome::Failed(Fault::Rcode(rcode, extended_error(message)));
        }
        match scrub(message, &self.question, &self.primary, octets) {
            Ok(reply) => Outcome::Answer(Arc::new(reply)),
            Err(unusable) => {
                tracing::debug!(upstream = %self.upstream, %unusable, "An upstream's answer is unusable");
                Outcome::Failed(Fault::Malformed)
            }
        }
    }
}

impl Outcome {
    pub(super) fn class(&self, rtt: Option<Duration>) -> Class {
        match self {
            Self::Answer(_) => Class::Definite(rtt),
            Self::Truncated(..) => Class::Truncated(rtt),
            Self::Failed(Fault::Rcode(ResponseCode::ServFail, _)) => Class::ServFail,
            Self::Failed(Fault::OutOfSockets) => Class::NotAsked,
            Self::Failed(_) => Class::Failed,
        }
    }
}

/// Whose fault it is that there is no socket.
fn not_opened(error: &io::Error) -> Fault {
    if is_ours(error) {
        Fault::OutOfSockets
    } else {
        Fault::Network
    }
}

/// Errors of opening a socket that are this process's or this machine's want of something.
fn is_ours(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(
            Errno::EMFILE
                | Errno::ENFILE
                | Errno::ENOBUFS
                | Errno::ENOMEM
                | Errno::EADDRINUSE
                | Errno::EADDRNOTAVAIL
                | Errno::EAGAIN
        )
    )
}

/// What the faults of all attempts come to: the most telling one. A SERVFAIL with an extended
/// error tells most, then any RCODE, then silence, then a network error.
pub(super) fn sum_up<'a>(faults: impl Iterator<Item = &'a Fault>) -> Failure {
    let rank = |fault: &Fault| match fault {
        Fault::Rcode(ResponseCode::ServFail, Some(_)) => 5,
        Fault::Rcode(ResponseCode::ServFail, None) => 4,
        Fault::Rcode(..) => 3,
        Fault::Malformed => 2,
        Fault::Timeout => 1,
        Fault::Network => 0,
        Fault::OutOfSockets => -1,
    };
    match faults.max_by_key(|fault| rank(fault)) {
        Some(Fault::Rcode(rcode, extended)) => Failure::Upstream {
            rcode: *rcode,
            extended: extended.clone(),
        },
        Some(Fault::Malformed) => Failure::Malformed,
        Some(Fault::Timeout) => Failure::Timeout,
        Some(Fault::Network) | None => Failure::Network,
        Some(Fault::OutOfSockets) => Failure::OutOfSockets,
    }
}
