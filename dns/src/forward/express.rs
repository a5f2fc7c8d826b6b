//! Questions that a serving thread asks upstreams itself: no task, no wake-up of another thread.
//!
//! Only what usually happens happens here: a question that nobody else has in flight goes to one
//! upstream, and its definite answer comes back soon. It is decided by the same machine ([`Race`]),
//! read by the same code and kept in the same cache as everywhere. The first thing that is not
//! usual — silence, another datagram, an error, TC, SERVFAIL, a probe that is due — hands the
//! flight as it stands, socket and all, over to a task ([`flight::run`]).

mod ports;

use std::io;
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tsunaro_model::name::DnsName;

use super::answer::{Failure, Forwarded};
use super::attempt::{BUFFER, Exchange, Order, Outcome, is_definite};
use super::flight::{self, Flight, Progress, Settled, keep};
use super::generation::{Generation, Landing, Seat, Upstream, Waiters, candidates};
use super::matching::{Match, classify, encode};
use super::question::{FlightKey, Question};
use super::race::{Race, Step};
use super::reply::{Reply, View};
use super::scrub::scrub;
use super::transport::{Lease, Sockets};
use super::wire::CachedWire;
use super::{Core, now};
use ports::{Port, Ports, Readable};

/// Rounds without any exchange after which clients are no longer waited for here: that costs every
/// datagram of theirs a little.
const QUIET: u32 = 1000;

/// Foreign datagrams to one question that are borne here.
const FEW_IGNORED: usize = 8;

/// What one thread has in flight, each question with the client `W` that waits for it.
#[derive(Debug)]
pub(crate) struct Express<W> {
    core: Arc<Core<Sockets>>,
    runtime: Handle,
    ports: Ports<Box<Ours<W>>>,
    in_flight: usize,
    /// Nothing is to be done before, for want of answers.
    due: Option<Instant>,
    clients_watched: bool,
    quiet: u32,
    readable: Readable,
    buffer: Box<[u8; BUFFER]>,
}

/// Gives threads their [`Express`].
#[derive(Debug, Clone)]
pub struct Opener(Arc<Core<Sockets>>);

/// A question in flight that is still this thread's.
#[derive(Debug)]
struct Ours<W> {
    waiter: W,
    question: Question,
    generation: Arc<Generation>,
    upstreams: Arc<[Arc<Upstream>]>,
    race: Race,
    landing: Landing,
    permit: OwnedSemaphorePermit,
    result: Waiters,
    upstream: Arc<Upstream>,
    resend_at: Option<Instant>,
    id: u16,
    query: Vec<u8>,
    sent: Instant,
    due: Instant,
    ignored: usize,
}

/// What became of a new question.
#[derive(Debug)]
pub(crate) enum Started<W> {
    /// It is out; [`Express::wait`] tells of it.
    Flying,
    /// Not for this thread; with a seat when a task is at work on it already.
    Elsewhere(W, Option<Seated>),
}

/// What became of a question that was out.
#[derive(Debug)]
pub(crate) enum Landed<W> {
    /// The answer.
    Answer(W, Arrived),
    /// A task took it over.
    Elsewhere(W, Seated),
    /// Its answer caused a panic.
    Broken(W),
}

/// A definite answer that has just come.
#[derive(Debug)]
pub(crate) struct Arrived(Arc<Reply>);

/// A place among those who wait for a question in flight.
#[derive(Debug)]
pub(crate) struct Seated {
    core: Arc<Core<Sockets>>,
    generation: Arc<Generation>,
    key: FlightKey,
    result: Waiters,
}

impl Opener {
    pub(super) fn new(core: Arc<Core<Sockets>>) -> Self {
        Self(core)
    }

    /// For a thread that serves clients on a socket of its own; tasks run on `runtime`.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(crate) fn open<W>(&self, runtime: Handle) -> io::Result<Express<W>> {
        Ok(Express {
            core: Arc::clone(&self.0),
            runtime,
            ports: Ports::new()?,
            in_flight: 0,
            due: None,
            clients_watched: false,
            quiet: 0,
            readable: Readable::default(),
            buffer: Box::new([0; BUFFER]),
        })
    }
}

impl Arrived {
    /// For the fast path, if it has such a form.
    pub(crate) fn wire(&self, question: &[u8]) -> Option<CachedWire> {
        CachedWire::new(Arc::clone(&self.0), Duration::ZERO, question)
    }

    /// For everybody else.
    pub(crate) fn forwarded(&self, question: &Question) -> Forwarded {
        self.0.view(question, View::Aged(Duration::ZERO))
    }
}

impl Seated {
    /// Waits for what the question comes to, as [`Forwarder::resolve`](super::Forwarder::resolve)
    /// does.
    pub(crate) async fn settle(self, question: &Question) -> Result<Forwarded, Failure> {
        let Self {
            core,
            generation,
            key,
            result,
        } = self;
        core.settle(&generation, &key, question, result).await
    }
}

impl<W> Express<W> {
    /// True when nothing is in flight: there is nothing to wait for but clients.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Asks an upstream of the extra zone with apex `zone`, unless that is no usual case.
    pub(crate) fn start(&mut self, zone: &DnsName, question: Question, waiter: W) -> Started<W> {
        let core = Arc::clone(&self.core);
        if core.tasks.is_stopped() {
            return Started::Elsewhere(waiter, None);
        }
        let generation = core.generation.load_full();
        let Some(upstreams) = generation.upstreams_of(zone) else {
            return Started::Elsewhere(waiter, None);
        };
        let began = now();
        let key = question.key();
        let Seat::Leader(landing, permit, result) =
            generation.take_seat(&key, &core.in_flight, began)
        else {
            return Started::Elsewhere(waiter, None);
        };
        core.metrics.asked.add();
        let (race, steps) = Race::begin(candidates(&upstreams, began), began);
        match self.send(&steps, &upstreams, &question, began) {
            Some(sent) => {
                sent.upstream.count_query();
                let Sent {
                    port,
                    upstream,
                    resend_at,
                    id,
                    query,
                } = sent;
                let due = race.next_time().into_iter().chain(resend_at).min();
                let ours = Ours {
                    waiter,
                    question,
                    generation,
                    upstreams,
                    due: due.unwrap_or(began),
                    race,
                    landing,
                    permit,
                    result,
                    upstream,
                    resend_at,
                    id,
                    query,
                    sent: began,
                    ignored: 0,
                };
                self.due = Some(self.due.map_or(ours.due, |due| due.min(ours.due)));
                if let Some(port) = self.ports.get(port) {
                    port.exchange = Some(Box::new(ours));
                    self.in_flight += 1;
                }
                Started::Flying
            }
            None => {
                let flight = Flight {
                    question: Arc::new(question),
                    upstreams,
                    landing,
                    permit,
                };
                let progress = Progress {
                    race,
                    steps,
                    begun: None,
                };
                let seated = self.hand_over(generation, flight, progress, key, result);
                Started::Elsewhere(waiter, Some(seated))
            }
        }
    }

    /// Waits for answers, for clients at their socket, and for the time to hand over. True when
    /// clients have asked something.
    ///
    /// # Errors
    /// When the wait itself is broken.
    pub(crate) fn wait(
        &mut self,
        clients: &UdpSocket,
        landed: &mut Vec<Landed<W>>,
    ) -> io::Result<bool> {
        if !self.clients_watched {
            self.ports.watch_clients(clients)?;
            self.clients_watched = true;
        }
        self.quiet = 0;
        let patience = self
            .due
            .map(|due| due.saturating_duration_since(now()))
            .unwrap_or(Duration::MAX);
        let mut readable = std::mem::take(&mut self.readable);
        let waited = self.ports.wait(patience, &mut readable);
        for index in &readable.ports {
            self.read(*index, landed);
        }
        let clients_asked = readable.clients;
        self.readable = readable;
        waited?;
        let time = now();
        if self.due.is_some_and(|due| due <= time) {
            self.hand_over_all(landed, |ours| ours.due <= time);
        }
        Ok(clients_asked)
    }

    /// To be called when the thread waits for clients alone.
    pub(crate) fn rest(&mut self, clients: &UdpSocket) {
        if !self.clients_watched {
            return;
        }
        self.quiet += 1;
        if self.quiet >= QUIET && self.ports.forget_clients(clients).is_ok() {
            self.clients_watched = false;
        }
    }

    /// Leaves everything to tasks.
    pub(crate) fn end(&mut self, landed: &mut Vec<Landed<W>>) {
        self.hand_over_all(landed, |_| true);
    }

    /// The question on its way; none when that is not for us to do.
    fn send(
        &mut self,
        steps: &[Step],
        upstreams: &[Arc<Upstream>],
        question: &Question,
        now: Instant,
    ) -> Option<Sent> {
        let [
            Step::Ask {
                upstream,
                resend_at,
                hedged: false,
            },
        ] = steps
        else {
            return None;
        };
        let upstream = upstreams.get(*upstream)?;
        // From the thread's cryptographically secure generator (RFC 5452 §9.2).
        let id = rand::random();
        let query = encode(question, id).ok()?;
        let index = self.ports.take(upstream.address, now).ok()?;
        let sent = self.ports.get(index)?.socket.send(&query);
        if sent.is_err() {
            // An ICMP error that came late, or a full buffer: another socket may have more luck.
            self.ports.remove(index);
            return None;
        }
        self.core.metrics.udp_queries.add();
        Some(Sent {
            port: index,
            upstream: Arc::clone(upstream),
            resend_at: *resend_at,
            id,
            query,
        })
    }

    /// Takes in what a port received.
    fn read(&mut self, index: usize, landed: &mut Vec<Landed<W>>) {
        let Some(port) = self.ports.get(index) else {
            return;
        };
        let Some(ours) = &mut port.exchange else {
            // Nobody was asked over it: whoever sends here knows the port.
            self.ports.remove(index);
            return;
        };
        let length = match port.socket.recv(self.buffer.as_mut_slice()) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => return self.hand_over_port(index, Some(Err(error)), landed),
        };
        let octets = self.buffer.get(..length).unwrap_or_default();
        let read = catch_unwind(AssertUnwindSafe(|| ours.read(octets)));
        match read {
            Ok(Read::Answer(reply)) => self.land(index, reply, landed),
            Ok(Read::Ignored) => {
                self.core.metrics.ignored_replies.add();
                ours.ignored += 1;
                if ours.ignored >= FEW_IGNORED {
                    self.hand_over_port(index, None, landed);
                }
            }
            Ok(Read::Unusual) => {
                let octets = octets.to_vec();
                self.hand_over_port(index, Some(Ok(octets)), landed);
            }
            Err(_panic) => {
                if let Some(ours) = self.take(index) {
                    self.ports.remove(index);
                    landed.push(Landed::Broken(ours.waiter));
                }
            }
        }
    }

    fn land(&mut self, index: usize, reply: Arc<Reply>, landed: &mut Vec<Landed<W>>) {
        let Some(ours) = self.take(index) else { return };
        self.ports.release(index);
        let Ours {
            waiter,
            question: _,
            generation,
            upstreams,
            mut race,
            landing,
            permit,
            result: _,
            upstream: _,
            resend_at: _,
            id: _,
            query: _,
            sent,
            due: _,
            ignored: _,
        } = *ours;
        let landing = AssertUnwindSafe(|| {
            let time = now();
            let rtt = time.saturating_duration_since(sent);
            let class = Outcome::Answer(Arc::clone(&reply)).class(Some(rtt));
            for step in race.on_result(0, class, time) {
                // A definite answer to the only attempt ends the race.
                if let Step::Judge { upstream, verdict } = step
                    && let Some(upstream) = upstreams.get(upstream)
                {
                    upstream.judge(verdict, time);
                }
            }
            keep(&generation, landing.key(), Ok(&reply));
            self.core.metrics.questions.add();
            landing.land(Settled::Answer(Arc::clone(&reply)));
        });
        landed.push(match catch_unwind(landing) {
            Ok(()) => Landed::Answer(waiter, Arrived(reply)),
            Err(_panic) => Landed::Broken(waiter),
        });
        drop(permit);
    }

    fn take(&mut self, index: usize) -> Option<Box<Ours<W>>> {
        let ours = self.ports.get(index)?.exchange.take()?;
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.due = None;
        }
        Some(ours)
    }

    fn hand_over_all(&mut self, landed: &mut Vec<Landed<W>>, which: impl Fn(&Ours<W>) -> bool) {
        let chosen: Vec<usize> = self
            .ports
            .busy()
            .filter(|(_, ours)| which(ours))
            .map(|(index, _)| index)
            .collect();
        for index in chosen {
            self.hand_over_port(index, None, landed);
        }
        self.due = self.ports.busy().map(|(_, ours)| ours.due).min();
    }

    /// The rest is a task's to do, on the same socket.
    fn hand_over_port(
        &mut self,
        index: usize,
        received: Option<io::Result<Vec<u8>>>,
        landed: &mut Vec<Landed<W>>,
    ) {
        let Some(ours) = self.take(index) else { return };
        let Some(port) = self.ports.remove(index) else {
            return;
        };
        let Ours {
            waiter,
            question,
            generation,
            upstreams,
            race,
            landing,
            permit,
            result,
            upstream,
            resend_at,
            id,
            query,
            sent,
            due: _,
            ignored,
        } = *ours;
        let question = Arc::new(question);
        let order = Order {
            question: Arc::clone(&question),
            primary: generation.config().primary.clone(),
            upstream: upstream.address,
            resend_at,
            tcp_until: race.tcp_until(),
        };
        let (begun, steps) = match self.adopt(port) {
            Ok(channel) => {
                let exchange = Exchange {
                    channel,
                    id,
                    query,
                    sent,
                    ignored,
                    received,
                };
                (Some((order, exchange)), Vec::new())
            }
            Err(_) => {
                // The race has counted this attempt; it begins anew on another socket.
                let place = |other: &Arc<Upstream>| Arc::ptr_eq(other, &upstream);
                let again = upstreams.iter().position(place).map(|upstream| Step::Ask {
                    upstream,
                    resend_at,
                    hedged: false,
                });
                (None, again.into_iter().collect())
            }
        };
        let key = landing.key().clone();
        let flight = Flight {
            question,
            upstreams,
            landing,
            permit,
        };
        let progress = Progress { race, steps, begun };
        let seated = self.hand_over(generation, flight, progress, key, result);
        landed.push(Landed::Elsewhere(waiter, seated));
    }

    fn adopt(&self, port: Port<Box<Ours<W>>>) -> io::Result<Lease> {
        let Port {
            socket,
            upstream,
            uses,
            opened,
            exchange: _,
        } = port;
        let _inside = self.runtime.enter();
        self.core.transport.adopt(socket, upstream, uses, opened)
    }

    fn hand_over(
        &self,
        generation: Arc<Generation>,
        flight: Flight,
        progress: Progress<Lease>,
        key: FlightKey,
        result: Waiters,
    ) -> Seated {
        let core = &self.core;
        core.tasks.spawn_on(
            flight::run(
                Arc::clone(core),
                Arc::clone(&generation),
                flight,
                Some(progress),
            ),
            &self.runtime,
        );
        Seated {
            core: Arc::clone(core),
            generation,
            key,
            result,
        }
    }
}

/// A query on its way.
struct Sent {
    port: usize,
    upstream: Arc<Upstream>,
    resend_at: Option<Instant>,
    id: u16,
    query: Vec<u8>,
}

/// What a datagram is to a question.
enum Read {
    /// Its definite answer.
    Answer(Arc<Reply>),
    /// Nothing.
    Ignored,
    /// For a task to look at.
    Unusual,
}

impl<W> Ours<W> {
    fn read(&self, octets: &[u8]) -> Read {
        let message = match classify(octets, self.id, &self.question) {
            Match::Reply(message) => message,
            Match::Ignored => return Read::Ignored,
            Match::Truncated(_) | Match::Malformed => return Read::Unusual,
        };
        if !is_definite(message.metadata.response_code) {
            return Read::Unusual;
        }
        let primary = &self.generation.config().primary;
        match scrub(&message, &self.question, primary, octets.len()) {
            Ok(reply) => Read::Answer(Arc::new(reply)),
            Err(_) => Read::Unusual,
        }
    }
}
