//! From the octets of a message to the octets of its reply, with counting and with panics kept
//! to the query that caused them (rule 78).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt;
use tokio::time::Instant;
use tsunaro_model::zone::Snapshot;

use crate::answer::{self, Answer, Job, Reply, ZoneKind};
use crate::forwarding::{ClientTransport, Failure, Resolve};
use crate::metrics::DnsMetrics;
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

    /// Answers what can be answered at once.
    pub(super) fn start(&self, message: &[u8], transport: ClientTransport) -> Outcome {
        self.metrics.query(transport);
        match catch_unwind(AssertUnwindSafe(|| self.decide(message, transport))) {
            Ok(outcome) => outcome,
            Err(_panic) => {
                self.contained();
                match (u16_at(message, 0), u16_at(message, 2)) {
                    (Some(id), Some(bits)) => self.done(Reply::without_zone(reply::header_only(
                        id,
                        bits,
                        Rcode::ServFail,
                    ))),
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
        self.metrics.reply(&reply);
        reply.octets
    }

    fn decide(&self, message: &[u8], transport: ClientTransport) -> Outcome {
        match query::parse(message, transport) {
            Incoming::Drop => {
                self.metrics.dropped_malformed();
                Outcome::Silence
            }
            Incoming::Reply(written) => self.done(Reply::without_zone(written)),
            Incoming::Query(query) => {
                let rotation = self.rotation.fetch_add(1, Ordering::Relaxed);
                let mut answer = answer::answer(&self.zone.load_full(), query, rotation);
                loop {
                    let job = match answer {
                        Answer::Reply(reply) => return self.done(reply),
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

    fn done(&self, reply: Reply) -> Outcome {
        self.metrics.reply(&reply);
        Outcome::Reply(reply.octets)
    }

    fn contained(&self) {
        self.metrics.panic();
        tracing::error!("A query caused a panic and was answered SERVFAIL: this is a bug");
    }
}
