//! What belongs to one configuration: zones, upstreams, the cache, the questions in flight.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tsunaro_model::name::DnsName;

use super::cache::{Cache, Found};
use super::flight::Settled;
use super::health::{Change, Health, Verdict};
use super::question::FlightKey;
use super::race::Candidate;
use super::{ForwardConfig, UpstreamReport, lock};

#[derive(Debug)]
pub(super) struct Generation {
    config: ForwardConfig,
    zones: HashMap<DnsName, Arc<[Arc<Upstream>]>>,
    upstreams: Vec<Arc<Upstream>>,
    pub(super) cache: Mutex<Cache>,
    flights: Mutex<HashMap<FlightKey, Waiters>>,
}

/// Tells what the question in flight came to.
pub(super) type Waiters = watch::Receiver<Option<Settled>>;

/// One server; zones that name the same one share it, and so do generations.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    health: Mutex<Health>,
    queries: AtomicU64,
    failures: AtomicU64,
}

/// A client's part in a question in flight.
pub(super) enum Seat {
    /// The first: it has to see to the query, and land it.
    Leader(Landing, OwnedSemaphorePermit, Waiters),
    /// Waits for the leader's result.
    Follower(Waiters),
    /// The last such question has just ended and left this in the cache.
    Known(Found),
    /// No place for another question.
    Full,
}

/// The duty to end a question in flight. Dropping it ends it without result.
#[derive(Debug)]
pub(super) struct Landing {
    generation: Arc<Generation>,
    key: FlightKey,
    sender: watch::Sender<Option<Settled>>,
    listed: bool,
}

impl Generation {
    pub(super) fn new(config: &ForwardConfig, previous: Option<&Self>) -> Self {
        let mut upstreams: Vec<Arc<Upstream>> = Vec::new();
        let mut share = |address: SocketAddr| -> Arc<Upstream> {
            let same = |upstream: &&Arc<Upstream>| upstream.address == address;
            if let Some(known) = upstreams.iter().find(same) {
                return Arc::clone(known);
            }
            let kept = previous.and_then(|previous| previous.upstreams.iter().find(same));
            let upstream = kept.map_or_else(|| Arc::new(Upstream::new(address)), Arc::clone);
            upstreams.push(Arc::clone(&upstream));
            upstream
        };
        let zones = config
            .zones
            .iter()
            .map(|(apex, addresses)| {
                (
                    apex.clone(),
                    addresses.iter().map(|address| share(*address)).collect(),
                )
            })
            .collect();
        Self {
            config: config.clone(),
            zones,
            upstreams,
            cache: Mutex::new(Cache::new()),
            flights: Mutex::default(),
        }
    }

    pub(super) fn config(&self) -> &ForwardConfig {
        &self.config
    }

    pub(super) fn upstreams_of(&self, zone: &DnsName) -> Option<Arc<[Arc<Upstream>]>> {
        self.zones
            .get(zone)
            .filter(|upstreams| !upstreams.is_empty())
            .cloned()
    }

    /// Joins the question in flight, or opens it if there is a place among `places`.
    pub(super) fn take_seat(
        self: &Arc<Self>,
        key: &FlightKey,
        places: &Arc<Semaphore>,
        now: Instant,
    ) -> Seat {
        let mut flights = lock(&self.flights);
        if let Some(result) = flights.get(key) {
            return Seat::Follower(result.clone());
        }
        // A question ends by filling the cache, then leaving the list: looking in the reverse
        // order misses nothing.
        match lock(&self.cache).find(&key.cache, now) {
            Found::Nothing => {}
            found => return Seat::Known(found),
        }
        let Ok(permit) = Arc::clone(places).try_acquire_owned() else {
            return Seat::Full;
        };
        let (sender, result) = watch::channel(None);
        flights.insert(key.clone(), result.clone());
        let landing = Landing {
            generation: Arc::clone(self),
            key: key.clone(),
            sender,
            listed: true,
        };
        Seat::Leader(landing, permit, result)
    }

    pub(super) fn report(&self) -> Vec<UpstreamReport> {
        self.upstreams
            .iter()
            .map(|upstream| upstream.report())
            .collect()
    }
}

impl Landing {
    pub(super) fn key(&self) -> &FlightKey {
        &self.key
    }

    /// Gives the result to everyone who waits. Whatever belongs into the cache must be there by
    /// now, or the next client asks again.
    pub(super) fn land(mut self, settled: Settled) {
        // First, so that nobody who asks after the answer is out joins a question that is over.
        self.unlist();
        self.sender.send_replace(Some(settled));
    }

    fn unlist(&mut self) {
        if std::mem::replace(&mut self.listed, false) {
            lock(&self.generation.flights).remove(&self.key);
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.unlist();
    }
}

impl Upstream {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            health: Mutex::new(Health::new()),
            queries: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    pub(super) fn count_query(&self) {
        self.queries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn judge(&self, verdict: Verdict, now: Instant) {
        if matches!(verdict, Verdict::Failed(_)) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        match lock(&self.health).record(verdict, now) {
            Some(Change::WentDown) => {
                tracing::warn!(upstream = %self.address, "An upstream fails; it is asked last");
            }
            Some(Change::CameUp) => {
                tracing::info!(upstream = %self.address, "An upstream answers again");
            }
            None => {}
        }
    }

    fn report(&self) -> UpstreamReport {
        let health = lock(&self.health);
        UpstreamReport {
            address: self.address,
            up: health.is_up(),
            consecutive_failures: health.consecutive_failures(),
            smoothed_rtt: health.smoothed_rtt(),
            queries: self.queries.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

/// The upstreams as a race sees them. Takes the probes that are due, if another upstream is up to
/// answer the client.
pub(super) fn candidates(upstreams: &[Arc<Upstream>], now: Instant) -> Vec<Candidate> {
    let any_up = upstreams
        .iter()
        .any(|upstream| lock(&upstream.health).is_up());
    upstreams
        .iter()
        .enumerate()
        .map(|(index, upstream)| {
            let mut health = lock(&upstream.health);
            Candidate {
                upstream: index,
                up: health.is_up(),
                consecutive_failures: health.consecutive_failures(),
                hedge_after: health.hedge_after(),
                probe: any_up && health.take_probe(now),
            }
        })
        .collect()
}
