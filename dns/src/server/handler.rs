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
use crate::fast;
use crate::forwarding::{ClientTransport, Failure, Resolve};
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

/// What to do with a datagram.
pub(super) enum UdpOutcome {
    Silence,
    /// So many octets were written.
    Reply(usize),
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
            self.decide(&zone, message, transport, rotation, shard)
        })
    }

    /// As [`Handler::start`] for a datagram, whose reply is written to `out`; the worker has its
    /// own rotation and its own counters.
    pub(super) fn start_udp(
        &self,
        zone: &Arc<Snapshot>,
        message: &[u8],
        rotation: usize,
        shard: &Shard,
        out: &mut [u8],
    ) -> UdpOutcome {
        shard.query(ClientTransport::Udp);
        let mut fast = None;
        let outcome = self.contain(message, shard, || {
            fast = fast::answer(zone, &*self.resolver, message, rotation, out);
            match fast {
                Some(_) => Outcome::Silence,
                None => self.decide(zone, message, ClientTransport::Udp, rotation, shard),
            }
        });
        if let Some(fast) = fast {
            shard.replied(fast.zone, fast.rcode);
            return UdpOutcome::Reply(fast.length);
        }
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

    /// Turns a panic into SERVFAIL (rule 78).
    fn contain(&self, message: &[u8], shard: &Shard, decide: impl FnOnce() -> Outcome) -> Outcome {
        match catch_unwind(AssertUnwindSafe(decide)) {
            Ok(outcome) => outcome,
            Err(_panic) => {
                self.contained();
                match (u16_at(message, 0), u16_at(message, 2)) {
                    (Some(id), Some(bits)) => {
                        let written = reply::header_only(id, bits, Rcode::ServFail);
                        done(Reply::without_zone(written), shard)
                    }
                    _ => Outcome::Silence,
                }
            }
        }
    }

    /// Asks upstreams, as often as the aliases need it, and answers.
    pub(super) async fn complete(&self, job: Box<Job>) -> Vec<u8> {
        let _waiting = self.metrics.waiting();
        let query = job.query().clone();
        let reply = match AssertUnwindSafe(self.forward(job)).catch_unwind().await {
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
    ) -> Outcome {
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
                    let Some(known) = self.resolver.resolve_from_cache(&job.question()) else {
                        return Outcome::Wait(job);
                    };
                    answer = answer::finish(*job, known);
                }
            }
        }
    }

    async fn forward(&self, job: Box<Job>) -> Reply {
        let deadline = Instant::now() + FORWARD_LIMIT;
        let mut job = job;
        loop {
            let question = job.question();
            let asked = self.resolver.resolve(job.zone(), &question);
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

fn done(reply: Reply, shard: &Shard) -> Outcome {
    shard.reply(&reply);
    Outcome::Reply(reply.octets)
}
