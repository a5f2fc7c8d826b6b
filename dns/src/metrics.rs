//! Counters of the DNS side, without names or addresses of clients in them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::answer::{Reply, ZoneKind};
use crate::forwarding::ClientTransport;
use crate::wire::Rcode;

/// What the server counts. Every field may be raised from any task.
#[derive(Debug)]
pub struct DnsMetrics {
    /// One per UDP worker.
    shards: Mutex<Vec<Arc<Shard>>>,
    /// For everybody else.
    shared: Shard,
    /// The inodes of the UDP sockets, by which the kernel tells what it dropped.
    sockets: Mutex<Vec<u64>>,
    dropped_overload: AtomicU64,
    send_errors: AtomicU64,
    panics: AtomicU64,
    in_flight: AtomicU64,
    tcp_connections: AtomicU64,
    tcp_opened: AtomicU64,
    tcp_evicted: AtomicU64,
    tcp_refused: AtomicU64,
}

/// The counters that every query raises: each worker has its own, lest cores fight for a cache
/// line, and is the only one to raise them, so that no addition has to lock the bus.
#[derive(Debug)]
#[repr(align(128))]
pub struct Shard {
    writers: Writers,
    udp_queries: AtomicU64,
    tcp_queries: AtomicU64,
    replies: [[AtomicU64; Rcode::ALL.len()]; ZoneKind::ALL.len()],
    truncated: AtomicU64,
    dropped_malformed: AtomicU64,
}

/// Who raises the counters of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writers {
    One,
    Many,
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
    /// Datagrams that the kernel dropped because a socket's buffer was full; none where the
    /// system does not tell.
    pub dropped_by_kernel: Option<u64>,
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

impl Default for DnsMetrics {
    fn default() -> Self {
        Self {
            shards: Mutex::default(),
            shared: Shard::new(Writers::Many),
            sockets: Mutex::default(),
            dropped_overload: AtomicU64::new(0),
            send_errors: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            tcp_connections: AtomicU64::new(0),
            tcp_opened: AtomicU64::new(0),
            tcp_evicted: AtomicU64::new(0),
            tcp_refused: AtomicU64::new(0),
        }
    }
}

impl DnsMetrics {
    /// Reads all counters; each is exact, together they are not one instant.
    pub fn snapshot(&self) -> MetricsSnapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shards = lock(&self.shards).clone();
        let sum = |counter: fn(&Shard) -> &AtomicU64| -> u64 {
            let workers: u64 = shards.iter().map(|shard| load(counter(shard))).sum();
            workers + load(counter(&self.shared))
        };
        let reply = |zone: ZoneKind, rcode: Rcode| -> u64 {
            let of = |shard: &Shard| shard.of(zone, rcode).map_or(0, load);
            shards.iter().map(|shard| of(shard)).sum::<u64>() + of(&self.shared)
        };
        let replies = ZoneKind::ALL
            .iter()
            .flat_map(|zone| Rcode::ALL.iter().map(move |rcode| (*zone, *rcode)));
        MetricsSnapshot {
            udp_queries: sum(|shard| &shard.udp_queries),
            tcp_queries: sum(|shard| &shard.tcp_queries),
            replies: replies
                .map(|(zone, rcode)| (zone, rcode, reply(zone, rcode)))
                .filter(|(_, _, count)| *count > 0)
                .collect(),
            truncated: sum(|shard| &shard.truncated),
            dropped_malformed: sum(|shard| &shard.dropped_malformed),
            dropped_overload: load(&self.dropped_overload),
            dropped_by_kernel: kernel_drops(&lock(&self.sockets)),
            send_errors: load(&self.send_errors),
            panics: load(&self.panics),
            in_flight: load(&self.in_flight),
            tcp_connections: load(&self.tcp_connections),
            tcp_opened: load(&self.tcp_opened),
            tcp_evicted: load(&self.tcp_evicted),
            tcp_refused: load(&self.tcp_refused),
        }
    }

    /// The counters of everybody who is no UDP worker.
    pub(crate) fn shared(&self) -> &Shard {
        &self.shared
    }

    /// Counters for one UDP worker, which alone may raise them.
    pub fn add_shard(&self) -> Arc<Shard> {
        let shard = Arc::new(Shard::new(Writers::One));
        lock(&self.shards).push(Arc::clone(&shard));
        shard
    }

    /// Counts what the kernel drops at a UDP socket with this inode.
    pub(crate) fn watch_socket(&self, inode: u64) {
        lock(&self.sockets).push(inode);
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

impl Shard {
    fn new(writers: Writers) -> Self {
        Self {
            writers,
            udp_queries: AtomicU64::new(0),
            tcp_queries: AtomicU64::new(0),
            replies: Default::default(),
            truncated: AtomicU64::new(0),
            dropped_malformed: AtomicU64::new(0),
        }
    }

    /// A message came.
    pub fn query(&self, transport: ClientTransport) {
        self.add(match transport {
            ClientTransport::Udp => &self.udp_queries,
            ClientTransport::Tcp => &self.tcp_queries,
        });
    }

    pub(crate) fn reply(&self, reply: &Reply) {
        self.replied(reply.zone, reply.rcode);
        if reply.truncated {
            self.add(&self.truncated);
        }
    }

    /// A reply that is whole.
    pub fn replied(&self, zone: ZoneKind, rcode: Rcode) {
        if let Some(counter) = self.of(zone, rcode) {
            self.add(counter);
        }
    }

    pub(crate) fn dropped_malformed(&self) {
        self.add(&self.dropped_malformed);
    }

    fn add(&self, counter: &AtomicU64) {
        match self.writers {
            Writers::One => {
                let count = counter.load(Ordering::Relaxed);
                counter.store(count.wrapping_add(1), Ordering::Relaxed);
            }
            Writers::Many => add(counter),
        }
    }

    fn of(&self, zone: ZoneKind, rcode: Rcode) -> Option<&AtomicU64> {
        let zone = match zone {
            ZoneKind::Primary => 0,
            ZoneKind::Extra => 1,
            ZoneKind::None => 2,
        };
        self.replies.get(zone)?.get(rcode.index())
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sum of the drops that the kernel has counted at these sockets. Read when somebody asks:
/// asking the kernel to tell with each datagram would cost every query.
fn kernel_drops(inodes: &[u64]) -> Option<u64> {
    let tables = ["/proc/self/net/udp", "/proc/self/net/udp6"];
    let texts: Vec<String> = tables
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    let drops = |line: &str| -> Option<u64> {
        let mut fields = line.split_ascii_whitespace();
        let inode: u64 = fields.nth(9)?.parse().ok()?;
        inodes
            .contains(&inode)
            .then(|| fields.last()?.parse().ok())?
    };
    (!texts.is_empty()).then(|| {
        texts
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(drops)
            .sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_drops_at_a_full_socket_is_counted() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;

        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBuf, &4096).unwrap();
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..200 {
            client
                .send_to(&[0; 1000], socket.local_addr().unwrap())
                .unwrap();
        }
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let inode = std::fs::metadata(path).unwrap().ino();
        let metrics = DnsMetrics::default();
        assert_eq!(metrics.snapshot().dropped_by_kernel, Some(0));
        metrics.watch_socket(inode);
        let dropped = metrics.snapshot().dropped_by_kernel.unwrap();
        assert!((150..200).contains(&dropped), "{dropped}");
    }
}
