//! Counters of the DNS side, without names or addresses of clients in them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::answer::{Reply, ZoneKind};
use crate::forwarding::ClientTransport;
use crate::wire::Rcode;

/// What the server counts. Every field may be raised from any task.
#[derive(Debug, Default)]
pub struct DnsMetrics {
    udp_queries: AtomicU64,
    tcp_queries: AtomicU64,
    replies: [[AtomicU64; Rcode::ALL.len()]; ZoneKind::ALL.len()],
    truncated: AtomicU64,
    dropped_malformed: AtomicU64,
    dropped_overload: AtomicU64,
    send_errors: AtomicU64,
    panics: AtomicU64,
    in_flight: AtomicU64,
    tcp_connections: AtomicU64,
    tcp_opened: AtomicU64,
    tcp_evicted: AtomicU64,
    tcp_refused: AtomicU64,
}

/// The counts of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsSnapshot {
    /// Messages received over UDP.
    pub udp_queries: u64,
    /// Messages received over TCP.
    pub tcp_queries: u64,
    /// Replies by zone of the question name and response code; those not listed are 0.
    pub replies: Vec<(ZoneKind, Rcode, u64)>,
    /// UDP replies with TC.
    pub truncated: u64,
    /// Messages that must not be replied to (rules 1 and 77).
    pub dropped_malformed: u64,
    /// UDP queries for upstreams dropped because too many waited.
    pub dropped_overload: u64,
    /// Replies that the kernel did not take.
    pub send_errors: u64,
    /// Panics contained; any is a bug.
    pub panics: u64,
    /// Queries that wait for upstreams now.
    pub in_flight: u64,
    /// TCP connections open now.
    pub tcp_connections: u64,
    /// TCP connections accepted.
    pub tcp_opened: u64,
    /// Idle TCP connections closed to make room.
    pub tcp_evicted: u64,
    /// TCP connections closed at once because a limit was reached.
    pub tcp_refused: u64,
}

impl ZoneKind {
    /// All of them, in the order of the counters.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Extra, Self::None];

    /// The label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Extra => "extra",
            Self::None => "none",
        }
    }
}

impl DnsMetrics {
    /// Reads all counters; each is exact, together they are not one instant.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let replies = ZoneKind::ALL
            .iter()
            .zip(&self.replies)
            .flat_map(|(zone, codes)| {
                Rcode::ALL
                    .iter()
                    .zip(codes)
                    .map(|(rcode, count)| (*zone, *rcode, load(count)))
            });
        MetricsSnapshot {
            udp_queries: load(&self.udp_queries),
            tcp_queries: load(&self.tcp_queries),
            replies: replies.filter(|(_, _, count)| *count > 0).collect(),
            truncated: load(&self.truncated),
            dropped_malformed: load(&self.dropped_malformed),
            dropped_overload: load(&self.dropped_overload),
            send_errors: load(&self.send_errors),
            panics: load(&self.panics),
            in_flight: load(&self.in_flight),
            tcp_connections: load(&self.tcp_connections),
            tcp_opened: load(&self.tcp_opened),
            tcp_evicted: load(&self.tcp_evicted),
            tcp_refused: load(&self.tcp_refused),
        }
    }

    pub(crate) fn query(&self, transport: ClientTransport) {
        add(match transport {
            ClientTransport::Udp => &self.udp_queries,
            ClientTransport::Tcp => &self.tcp_queries,
        });
    }

    pub(crate) fn reply(&self, reply: &Reply) {
        let zone = match reply.zone {
            ZoneKind::Primary => 0,
            ZoneKind::Extra => 1,
            ZoneKind::None => 2,
        };
        if let Some(counter) = self
            .replies
            .get(zone)
            .and_then(|codes| codes.get(reply.rcode.index()))
        {
            add(counter);
        }
        if reply.truncated {
            add(&self.truncated);
        }
    }

    pub(crate) fn dropped_malformed(&self) {
        add(&self.dropped_malformed);
    }

    pub(crate) fn dropped_overload(&self) {
        add(&self.dropped_overload);
    }

    pub(crate) fn send_error(&self) {
        add(&self.send_errors);
    }

    pub(crate) fn panic(&self) {
        add(&self.panics);
    }

    pub(crate) fn evicted(&self) {
        add(&self.tcp_evicted);
    }

    pub(crate) fn refused(&self) {
        add(&self.tcp_refused);
    }

    /// One more query waits for upstreams, until the guard is dropped.
    pub(crate) fn waiting(&self) -> Gauge<'_> {
        Gauge::raise(&self.in_flight)
    }

    /// One more connection is open, until the guard is dropped.
    pub(crate) fn connection(&self) -> Gauge<'_> {
        add(&self.tcp_opened);
        Gauge::raise(&self.tcp_connections)
    }
}

/// Lowers its gauge when dropped.
#[derive(Debug)]
pub(crate) struct Gauge<'a>(&'a AtomicU64);

impl<'a> Gauge<'a> {
    fn raise(gauge: &'a AtomicU64) -> Self {
        add(gauge);
        Self(gauge)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
