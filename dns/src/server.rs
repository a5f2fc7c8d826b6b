//! The sockets: a UDP and a TCP listener per address, over one snapshot that may be swapped at
//! any time.
//!
//! Owns one thread per UDP socket and one loop per TCP listener (the end of any of them ends
//! [`Server::run`] with an error), and short tasks: one per TCP connection, one per UDP query that
//! waits for upstreams.

mod bind;
pub mod connections;
mod handler;
mod packet;
mod tcp;
#[cfg(test)]
mod testing;
mod udp;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tsunaro_model::zone::Snapshot;

pub use bind::{BindError, BindErrors};

use crate::forwarding::{ClientTransport, Resolve};
use crate::metrics::DnsMetrics;
use crate::tasks::{Loops, Panicked, Tasks};
use bind::Pair;
use connections::Connections;
use handler::Handler;
use udp::Stopper;

/// Limits of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// UDP queries that may wait for upstreams; more are dropped and counted. Default 1000.
    pub udp_waiting: usize,
    /// UDP workers per address. Default: as many as the cores that this process may use, by its
    /// affinity and by the quota of its cgroup.
    pub udp_workers: usize,
    /// Open TCP connections in all; the one that is idle longest makes room. Default 512.
    pub tcp_connections: usize,
    /// Open TCP connections per client address. Default: no limit, because clients behind a
    /// masquerading gateway share one address.
    pub tcp_per_client: Option<usize>,
    /// How long a stop waits for what is in flight. Default 2.5 s, more than upstreams may take.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            udp_waiting: 1000,
            udp_workers: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            tcp_connections: 512,
            tcp_per_client: None,
            drain: Duration::from_millis(2500),
        }
    }
}

/// Why a server ended that was not told to.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A socket is beyond use.
    #[error("the listener on {address} ({transport:?}) failed: {source}")]
    Socket {
        /// Its address.
        address: SocketAddr,
        /// Its kind.
        transport: ClientTransport,
        /// Why.
        source: io::Error,
    },
    /// A listener's loop ended without being told to: a bug.
    #[error("a listener's loop ended")]
    Ended,
    /// A listener's loop panicked: a bug.
    #[error("a listener's loop panicked")]
    Panicked,
}

/// Sockets that are bound.
#[derive(Debug)]
pub struct Server<R> {
    pairs: Vec<Pair>,
    handler: Arc<Handler<R>>,
    limits: Limits,
}

type LoopEnd = Result<(), ServeError>;

impl<R: Resolve> Server<R> {
    /// Binds UDP and TCP on every address, inside a tokio runtime. `[::]` takes IPv4 in as well,
    /// unless `0.0.0.0` with the same port is listed too. Port 0 picks one that is free for both.
    ///
    /// # Errors
    /// Every address that could not be bound.
    pub fn bind(
        listeners: &[SocketAddr],
        zone: Arc<ArcSwap<Snapshot>>,
        resolver: Arc<R>,
        metrics: Arc<DnsMetrics>,
        limits: Limits,
    ) -> Result<Self, BindErrors> {
        let pairs = bind::all(listeners, limits.udp_workers.max(1))?;
        bind::say_buffers(&pairs);
        Ok(Self {
            pairs,
            handler: Arc::new(Handler::new(zone, resolver, metrics)),
            limits,
        })
    }

    /// The addresses bound, in the order of the listeners.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.pairs.iter().map(|pair| pair.address).collect()
    }

    /// Serves until `stop`, then reads no more, finishes what is in flight, and returns.
    ///
    /// # Errors
    /// When a listener ends before `stop`; the others are stopped as well.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ServeError> {
        let Self {
            mut pairs,
            handler,
            limits,
        } = self;
        let serving = stop.child_token();
        let tasks = Tasks::default();
        let mut loops = Loops::new();
        let stopper = start_udp(&mut pairs, &handler, &limits, &tasks, &mut loops);
        start_tcp(pairs, &handler, &limits, &tasks, &serving, &mut loops);
        let outcome = supervise(loops, &stop, &serving, stopper).await;
        let left = tasks.drain(limits.drain).await;
        if left > 0 {
            tracing::warn!(left, "DNS queries or connections were cut off by the stop");
        }
        outcome
    }
}

/// Waits for `stop` or the first loop that ends, then has all loops end by `serving`.
async fn supervise(
    loops: Loops<LoopEnd>,
    stop: &CancellationToken,
    serving: &CancellationToken,
    stopper: Result<Stopper, ServeError>,
) -> LoopEnd {
    let mut loops = loops;
    let stopper = stopper?;
    let outcome = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        Some(ended) = loops.ended() => flatten(ended).and(Err(ServeError::Ended)),
    };
    serving.cancel();
    stopper.stop();
    while let Some(ended) = loops.ended().await {
        if let Err(error) = flatten(ended) {
            tracing::warn!(%error, "A DNS listener failed while stopping");
        }
    }
    outcome
}

/// One thread per socket.
fn start_udp<R: Resolve>(
    pairs: &mut [Pair],
    handler: &Arc<Handler<R>>,
    limits: &Limits,
    tasks: &Tasks,
    loops: &mut Loops<LoopEnd>,
) -> Result<Stopper, ServeError> {
    let permits = Arc::new(Semaphore::new(limits.udp_waiting));
    let mut workers = Vec::new();
    for pair in pairs {
        let address = pair.address;
        let sockets = std::mem::take(&mut pair.udp).into_iter().map(Arc::new);
        workers.extend(sockets.map(|socket| (address, socket)));
    }
    let stopper = Stopper::new(
        workers
            .iter()
            .map(|(_, socket)| Arc::clone(socket))
            .collect(),
    );
    for (index, (address, socket)) in workers.into_iter().enumerate() {
        let failed = move |source| ServeError::Socket {
            address,
            transport: ClientTransport::Udp,
            source,
        };
        if let Some(inode) = inode(&socket) {
            handler.metrics().watch_socket(inode);
        }
        let udp = udp::Udp {
            socket,
            handler: Arc::clone(handler),
            shard: handler.metrics().add_shard(),
            tasks: tasks.clone(),
            runtime: Handle::current(),
            permits: Arc::clone(&permits),
            stop: stopper.flag(),
            anywhere: address.ip().is_unspecified(),
        };
        loops
            .spawn_thread(&format!("dns-udp-{index}"), move || {
                udp.serve().map_err(failed)
            })
            .map_err(failed)?;
    }
    Ok(stopper)
}

/// By which the kernel knows a socket.
fn inode(socket: &UdpSocket) -> Option<u64> {
    let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
    Some(std::fs::metadata(path).ok()?.ino())
}

fn start_tcp<R: Resolve>(
    pairs: Vec<Pair>,
    handler: &Arc<Handler<R>>,
    limits: &Limits,
    tasks: &Tasks,
    stop: &CancellationToken,
    loops: &mut Loops<LoopEnd>,
) {
    let connections = Connections::new(limits.tcp_connections, limits.tcp_per_client);
    for Pair { tcp, address, .. } in pairs {
        let tcp = tcp::Tcp {
            listener: tcp,
            handler: Arc::clone(handler),
            tasks: tasks.clone(),
            connections: Arc::clone(&connections),
        };
        let stop = stop.clone();
        loops.spawn(async move {
            tcp.serve(stop).await.map_err(|source| ServeError::Socket {
                address,
                transport: ClientTransport::Tcp,
                source,
            })
        });
    }
}

fn flatten(ended: Result<LoopEnd, Panicked>) -> LoopEnd {
    ended.unwrap_or(Err(ServeError::Panicked))
}

#[cfg(test)]
mod tests;
