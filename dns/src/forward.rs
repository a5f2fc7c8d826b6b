//! The forwarder of extra zones: health, hedging, cache, serve-stale (section H of the DNS
//! contract).
//!
//! [`Forwarder`] is a cheap handle, shared by all generations of the configuration. A new
//! configuration swaps in a new [`generation`] with an empty cache; the health of upstreams that
//! stay is kept. Decisions are pure modules that take the time as an argument: `race`, `health`,
//! `cache`, `ttl`, `scrub`, `matching`. Around them, `flight` runs one task per distinct question
//! in flight, and `attempt` one exchange with one upstream over a [`Transport`]; `express` does the
//! usual case without a task.

mod answer;
mod attempt;
mod cache;
mod express;
#[cfg(test)]
mod fixtures;
mod flight;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod generation;
mod health;
mod matching;
mod metrics;
mod question;
mod race;
mod reply;
mod scrub;
mod tasks;
mod transport;
mod ttl;
mod wire;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;
use tsunaro_model::name::DnsName;

pub use answer::{ExtendedError, Failure, Forwarded};
pub use express::Opener;
pub(crate) use express::{Arrived, Express, Landed, Seated, Started};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use fuzzing::judge;
pub use metrics::{ForwardCounts, ForwardMetrics};
pub use question::{ClientTransport, Question};
pub(crate) use question::{MAX_KEY, write_key};
pub use transport::{Channel, Sockets, Transport};
pub use wire::CachedWire;

use cache::Found;
use flight::Settled;
use generation::{Generation, Seat, Waiters};
use question::FlightKey;
use reply::View;
use tasks::Tasks;

/// Distinct questions in flight (rule 58).
const MAX_IN_FLIGHT: usize = 1000;
/// Questions whose client has given up and whose late answer is waited for: a bound on sockets
/// while upstreams are silent.
const MAX_OVERDUE: usize = 256;

/// What is forwarded where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardConfig {
    /// Apex of the primary zone: chains of aliases are cut where they enter it.
    pub primary: DnsName,
    /// Extra zones and their upstreams in order of preference.
    pub zones: Vec<(DnsName, Vec<SocketAddr>)>,
}

/// One upstream for the status report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamReport {
    /// Where it is asked.
    pub address: SocketAddr,
    /// False after three failures in a row, until it answers again: it is then asked last.
    pub up: bool,
    /// Failures since its last answer in time.
    pub consecutive_failures: u32,
    /// Smoothed as in RFC 6298; none before the first answer.
    pub smoothed_rtt: Option<Duration>,
    /// Queries to it so far, resends and repetitions over TCP not counted.
    pub queries: u64,
    /// Those of them that it failed.
    pub failures: u64,
}

/// Asks upstreams on behalf of clients. A clone is the same forwarder.
#[derive(Debug)]
pub struct Forwarder<T = Sockets> {
    core: Arc<Core<T>>,
}

#[derive(Debug)]
struct Core<T> {
    transport: T,
    generation: ArcSwap<Generation>,
    metrics: ForwardMetrics,
    tasks: Tasks,
    in_flight: Arc<Semaphore>,
    overdue: Arc<Semaphore>,
}

impl<T> Clone for Forwarder<T> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
        }
    }
}

impl Forwarder {
    /// A forwarder over sockets of the system.
    pub fn new(config: &ForwardConfig) -> Self {
        Self::with_transport(config, Sockets::default())
    }

    /// For threads that ask upstreams themselves.
    pub fn opener(&self) -> Opener {
        Opener::new(Arc::clone(&self.core))
    }
}

impl<T: Transport> Forwarder<T> {
    /// A forwarder over any transport.
    pub fn with_transport(config: &ForwardConfig, transport: T) -> Self {
        Self {
            core: Arc::new(Core {
                transport,
                generation: ArcSwap::from_pointee(Generation::new(config, None)),
                metrics: ForwardMetrics::default(),
                tasks: Tasks::default(),
                in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
                overdue: Arc::new(Semaphore::new(MAX_OVERDUE)),
            }),
        }
    }

    /// Takes a new configuration. When it differs from the current one the cache is flushed
    /// (rule 56); upstreams that stay keep their health. Questions in flight end as they began.
    /// Only one caller may do this at a time.
    pub fn configure(&self, config: &ForwardConfig) {
        let current = self.core.generation.load_full();
        if current.config() != config {
            self.core
                .generation
                .store(Arc::new(Generation::new(config, Some(&current))));
        }
    }

    /// Answers from the cache alone, without waiting and outside of any runtime. None: only
    /// [`Forwarder::resolve`] can tell.
    pub fn resolve_from_cache(&self, question: &Question) -> Option<Result<Forwarded, Failure>> {
        self.find(&self.core.generation.load(), &question.key(), question)
    }

    /// A fresh answer from the cache in wire format, for a key by [`write_key`] and the question
    /// section as sent. None leaves it to [`Forwarder::resolve_from_cache`].
    pub(crate) fn find_wire(&self, key: &[u8], question: &[u8]) -> Option<CachedWire> {
        let generation = self.core.generation.load();
        let found = lock(&generation.cache).find_octets(key, now());
        let Found::Fresh(reply, age) = found else {
            return None;
        };
        let wire = CachedWire::new(reply, age, question)?;
        self.core.metrics.questions.add();
        self.core.metrics.cache_hits.add();
        Some(wire)
    }

    /// Answers a question for a name in the extra zone with apex `zone`, within 1.8 s.
    /// Must be called on a tokio runtime with time and I/O. Dropping the future leaves the query
    /// to others that wait for it, and to the cache.
    ///
    /// # Errors
    /// A [`Failure`] to be answered with SERVFAIL, after every upstream failed and no stale
    /// answer is at hand; at once when more than 1000 distinct questions are in flight.
    pub async fn resolve(&self, zone: &DnsName, question: &Question) -> Result<Forwarded, Failure> {
        let core = &self.core;
        let generation = core.generation.load_full();
        let key = question.key();
        let upstreams = generation
            .upstreams_of(zone)
            .ok_or(Failure::NotConfigured)?;
        if let Some(found) = self.find(&generation, &key, question) {
            return found;
        }
        let result = match generation.take_seat(&key, &core.in_flight, now()) {
            Seat::Known(found) => {
                let known = core.tell(&generation, &key, question, found);
                return known.unwrap_or(Err(Failure::GivenUp));
            }
            Seat::Full => {
                core.metrics.questions.add();
                core.metrics.overloaded.add();
                return Err(Failure::Overloaded);
            }
            Seat::Follower(result) => {
                core.metrics.joined.add();
                result
            }
            Seat::Leader(landing, permit, result) => {
                core.metrics.asked.add();
                let flight = flight::Flight {
                    question: Arc::new(question.clone()),
                    upstreams,
                    landing,
                    permit,
                };
                core.tasks.spawn(flight::run(
                    Arc::clone(core),
                    Arc::clone(&generation),
                    flight,
                    None,
                ));
                result
            }
        };
        core.settle(&generation, &key, question, result).await
    }

    /// Every upstream of the current configuration once, in its order.
    pub fn upstreams(&self) -> Vec<UpstreamReport> {
        self.core.generation.load().report()
    }

    /// Counters since the start.
    pub fn metrics(&self) -> &ForwardMetrics {
        &self.core.metrics
    }

    /// Distinct questions whose clients wait.
    pub fn in_flight(&self) -> usize {
        MAX_IN_FLIGHT.saturating_sub(self.core.in_flight.available_permits())
    }

    /// Questions in the cache, answers past their lifetime included.
    pub fn cached(&self) -> usize {
        lock(&self.core.generation.load().cache).len()
    }

    /// Waits up to `patience` for questions in flight, then drops what is left of them. True when
    /// nothing was left. Questions after that fail.
    pub async fn shut_down(&self, patience: Duration) -> bool {
        self.core.tasks.drain(patience).await
    }

    fn find(
        &self,
        generation: &Generation,
        key: &FlightKey,
        question: &Question,
    ) -> Option<Result<Forwarded, Failure>> {
        let found = lock(&generation.cache).find(&key.cache, now());
        self.core.tell(generation, key, question, found)
    }
}

impl<T> Core<T> {
    /// Shows one client what the cache knows; none if that is nothing.
    fn tell(
        &self,
        generation: &Generation,
        key: &FlightKey,
        question: &Question,
        found: Found,
    ) -> Option<Result<Forwarded, Failure>> {
        let result = match found {
            Found::Nothing => return None,
            Found::Fresh(reply, age) => {
                self.metrics.cache_hits.add();
                Ok(reply.view(question, View::Aged(age)))
            }
            Found::Failed(failure) => {
                self.metrics.failure_hits.add();
                self.fail(generation, key, question, failure)
            }
        };
        self.metrics.questions.add();
        Some(result)
    }

    /// Waits for what a flight comes to, and shows it to one client.
    async fn settle(
        &self,
        generation: &Generation,
        key: &FlightKey,
        question: &Question,
        mut result: Waiters,
    ) -> Result<Forwarded, Failure> {
        self.metrics.questions.add();
        let settled = match result.wait_for(Option::is_some).await {
            Ok(settled) => settled.clone(),
            Err(_) => None,
        };
        self.finish(
            generation,
            key,
            question,
            settled.unwrap_or(Settled::Failed(Failure::GivenUp)),
        )
    }

    /// Shows one client what a flight came to.
    fn finish(
        &self,
        generation: &Generation,
        key: &FlightKey,
        question: &Question,
        settled: Settled,
    ) -> Result<Forwarded, Failure> {
        match settled {
            Settled::Answer(reply) => Ok(reply.view(question, View::Aged(Duration::ZERO))),
            Settled::Truncated(reply, failure) => match question.transport {
                ClientTransport::Udp => {
                    self.metrics.truncated.add();
                    Ok(reply.view(question, View::Truncated))
                }
                ClientTransport::Tcp => self.fail(generation, key, question, failure),
            },
            Settled::Failed(failure) => self.fail(generation, key, question, failure),
        }
    }

    /// A stale answer if there is one, else the failure (rule 57).
    fn fail(
        &self,
        generation: &Generation,
        key: &FlightKey,
        question: &Question,
        failure: Failure,
    ) -> Result<Forwarded, Failure> {
        if let Some(reply) = lock(&generation.cache).find_stale(&key.cache, now()) {
            self.metrics.stale.add();
            return Ok(reply.view(question, View::Stale));
        }
        match failure {
            Failure::Timeout => self.metrics.timeouts.add(),
            Failure::Network => self.metrics.network_errors.add(),
            Failure::Upstream { .. } | Failure::Malformed => self.metrics.upstream_errors.add(),
            Failure::OutOfSockets => self.metrics.no_socket.add(),
            Failure::Overloaded | Failure::NotConfigured | Failure::GivenUp => {}
        }
        Err(failure)
    }
}

/// The time, paused in tests that pause tokio's clock.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Nothing that is done under our locks can leave the data half-changed.
fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
