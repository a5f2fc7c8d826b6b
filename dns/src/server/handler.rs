//! From the octets of a message to the octets of its reply, with counting and with panics kept
//! to the query that caused them (rule 78).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use futures::FutureExt;
use tokio::time::Instant;
use tsunaro_model::zone::Snapshot;

use crate::answer::{self, Answer, Job, Reply, ZoneKind};
use crate::fast::{self, Look};
use crate::forward::{Arrived, Seated};
use crate::forwarding::{ClientTransport, Failure, Opener, Resolve};
use crate::metrics::{DnsMetrics, Shard};
use crate::query::{self, Incoming};
use crate::reply;
use crate::wire::{Rcode, u16_at};

/// The whole time that upstreams may take for one query, however often its aliases come back to
/// us: a little over the forwarder's own budget (rule 50), a little under the 2 s at which
/// clients give up.
const FORWARD_LIMIT: Duration = Duration::from_millis(1900);

/// What all listeners share.
#[derive(Debug)]
pub(super) struct Handler<R> {
    zone: Arc<ArcSwap<Snapshot>>,
    resolver: Arc<R>,
    metrics: Arc<DnsMetrics>,
    rotation: AtomicUsize,
}

/// What to do with a message.
pub(super) enum Outcome {
    Silence,
    Reply(Vec<u8>),
    /// Upstreams have to be asked: [`Handler::complete`].
    Wait(Box<Job>),
}

/// What is known of the first question that a query puts to upstreams.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known<'a> {
    /// Nothing; the cache may know more.
    Nothing,
    /// The answer that has just come.
    Arrived(&'a Arrived),
    /// It is on its way, and the query has a place among those who wait.
    Pending,
}

/// What to do with a datagram.
pub(super) enum UdpOutcome {
    Silence,
    /// So many octets were written.
    Reply(usize),
    /// Upstreams have to be asked, and may be asked by this thread: those of this extra zone.
    Ask(usize),
    /// Upstreams have to be asked: [`Handler::complete`].
    Wait(Box<Job>),
}

impl<R: Resolve> Handler<R> {
    pub(super) fn new(
        zone: Arc<ArcSwap<Snapshot>>,
        resolver: Arc<R>,
        metrics: Arc<DnsMetrics>,
    ) -> Self {
        Self {
            zone,
            resolver,
            metrics,
            rotation: AtomicUsize::new(0),
        }
    }

    pub(super) fn metrics(&self) -> &DnsMetrics {
        &self.metrics
    }

    /// What a thread may ask upstreams with by itself.
    pub(super) fn opener(&self) -> Option<Opener> {
        self.resolver.opener()
    }

    /// The zone as it is now, for a batch of queries.
    pub(super) fn zone(&self) -> Guard<Arc<Snapshot>> {
        self.zone.load()
    }

    /// Answers what can be answered at once.
    pub(super) fn start(&self, message: &[u8], transport: ClientTransport) -> Outcome {
        let rotation = self.rotation.fetch_add(1, Ordering::Relaxed);
        let shard = self.metrics.shared();
        shard.query(transport);
        let zone = self.zone.load_full();
        self.contain(message, shard, || {
            self.decide(&zone, message, transport, rotation, shard, Known::Nothing)
        })
    }

    /// As [`Handler::start`] for a datagram, whose reply is written to `out`; the worker has its
    /// own rotation and its own counters, and perhaps the means to ask upstreams itself.
    pub(super) fn start_udp(
        &self,
        zone: &Arc<Snapshot>,
        message: &[u8],
        rotation: usize,
        shard: &Shard,
        may_ask: bool,
        out: &mut [u8],
    ) -> UdpOutcome {
        shard.query(ClientTransport::Udp);
        let mut look = Look::Other;
        let outcome = self.contain(message, shard, || {
            look = fast::look(zone, &*self.resolver, message, rotation, out);
            match look {
                Look::Reply(_) => Outcome::Silence,
                Look::Ask(_) if may_ask => Outcome::Silence,
                Look::Ask(_) | Look::Other => self.decide(
                    zone,
                    message,
                    ClientTransport::Udp,
                    rotation,
                    shard,
                    Known::Nothing,
                ),
            }
        });
        match look {
            Look::Reply(fast) => {
                shard.replied(fast.zone, fast.rcode);
                UdpOutcome::Reply(fast.length)
            }
            Look::Ask(zone) if may_ask => UdpOutcome::Ask(zone),
            Look::Ask(_) | Look::Other => in_buffer(outcome, out),
        }
    }

    /// Answers a datagram that the fast path left; the query is counted already.
    pub(super) fn go_on_udp(
        &self,
        zone: &Arc<Snapshot>,
        message: &[u8],
        rotation: usize,
        shard: &Shard,
        known: Known<'_>,
        out: &mut [u8],
    ) -> UdpOutcome {
        let mut fast = None;
        let outcome = self.contain(message, shard, || {
            if let Known::Arrived(arrived) = known {
                fast = fast::pass_on(zone, arrived, message, out);
            }
            match fast {
                Some(_) => Outcome::Silence,
                None => self.decide(zone, message, ClientTransport::Udp, rotation, shard, known),
            }
        });
        match fast {
            Some(fast) => {
                shard.replied(fast.zone, fast.rcode);
                UdpOutcome::Reply(fast.length)
            }
            None => in_buffer(outcome, out),
        }
    }

    /// Answers a datagram that caused a panic on its way to upstreams or back.
    pub(super) fn broken_udp(&self, message: &[u8], shard: &Shard, out: &mut [u8]) -> UdpOutcome {
        in_buffer(self.broken(message, shard), out)
    }

    /// Turns a panic into SERVFAIL (rule 78).
    fn contain(&self, message: &[u8], shard: &Shard, decide: impl FnOnce() -> Outcome) -> Outcome {
        match catch_unwind(AssertUnwindSafe(decide)) {
            Ok(outcome) => outcome,
            Err(_panic) => self.broken(message, shard),
        }
    }

    fn broken(&self, message: &[u8], shard: &Shard) -> Outcome {
        self.contained();
        match (u16_at(message, 0), u16_at(message, 2)) {
            (Some(id), Some(bits)) => {
                let written = reply::header_only(id, bits, Rcode::ServFail);
                done(Reply::without_zone(written), shard)
            }
            _ => Outcome::Silence,
        }
    }

    /// Asks upstreams, as often as the aliases need it, and answers a query that came at `since`.
    /// With a seat, its first question is in flight already.
    pub(super) async fn complete(
        &self,
        job: Box<Job>,
        seated: Option<Seated>,
        since: Instant,
    ) -> Vec<u8> {
        let _waiting = self.metrics.waiting();
        let query = job.query().clone();
        let forward = AssertUnwindSafe(self.forward(job, seated, since));
        let reply = match forward.catch_unwind().await {
            Ok(reply) => reply,
            Err(_panic) => {
                self.contained();
                Reply::broken(&query, ZoneKind::None)
            }
        };
        self.metrics.shared().reply(&reply);
        reply.octets
    }

    fn decide(
        &self,
        zone: &Arc<Snapshot>,
        message: &[u8],
        transport: ClientTransport,
        rotation: usize,
        shard: &Shard,
        known: Known<'_>,
    ) -> Outcome {
        let mut known = known;
        match query::parse(message, transport) {
            Incoming::Drop => {
                shard.dropped_malformed();
                Outcome::Silence
            }
            Incoming::Reply(written) => done(Reply::without_zone(written), shard),
            Incoming::Query(query) => {
                let mut answer = answer::answer(zone, query, rotation);
                loop {
                    let job = match answer {
                        Answer::Reply(reply) => return done(reply, shard),
                        Answer::Forward(job) => job,
                    };
                    let question = job.question();
                    let result = match std::mem::replace(&mut known, Known::Nothing) {
                        Known::Nothing => self.resolver.resolve_from_cache(&question),
                        Known::Arrived(arrived) => Some(Ok(arrived.forwarded(&question))),
                        Known::Pending => None,
                    };
                    let Some(result) = result else {
                        return Outcome::Wait(job);
                    };
                    answer = answer::finish(*job, result);
                }
            }
        }
    }

    async fn forward(&self, job: Box<Job>, seated: Option<Seated>, since: Instant) -> Reply {
        let deadline = since + FORWARD_LIMIT;
        let (mut job, mut seated) = (job, seated);
        loop {
            let question = job.question();
            let asked = async {
                match seated.take() {
                    Some(seated) => seated.settle(&question).await,
                    None => self.resolver.resolve(job.zone(), &question).await,
                }
            };
            let result = tokio::time::timeout_at(deadline, asked)
                .await
                .unwrap_or(Err(Failure::Timeout));
            match answer::finish(*job, result) {
                Answer::Reply(reply) => return reply,
                Answer::Forward(next) => job = next,
            }
        }
    }

    fn contained(&self) {
        self.metrics.panic();
        tracing::error!("A query caused a panic and was answered SERVFAIL: this is a bug");
    }
}

fn in_buffer(outcome: Outcome, out: &mut [u8]) -> UdpOutcome {
    match outcome {
        Outcome::Silence => UdpOutcome::Silence,
        Outcome::Wait(job) => UdpOutcome::Wait(job),
        Outcome::Reply(octets) => match out.get_mut(..octets.len()) {
            Some(room) => {
                room.copy_from_slice(&octets);
                UdpOutcome::Reply(octets.len())
            }
            // Cannot be: no reply over UDP is longer than the buffer.
            None => UdpOutcome::Silence,
        },
    }
}

fn done(reply: Reply, shard: &Shard) -> Outcome {
    shard.reply(&reply);
    Outcome::Reply(reply.octets)
}
