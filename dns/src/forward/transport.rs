//! How queries reach upstreams.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::lock;

/// A way to upstreams; tests replace it.
pub trait Transport: Send + Sync + 'static {
    /// A UDP exchange with one upstream.
    type Channel: Channel;

    /// Opens an exchange from a fresh, unpredictable port.
    fn open(&self, upstream: SocketAddr) -> impl Future<Output = io::Result<Self::Channel>> + Send;

    /// Sends one message over TCP and returns the first one that comes back.
    fn ask_over_tcp(
        &self,
        upstream: SocketAddr,
        query: Vec<u8>,
    ) -> impl Future<Output = io::Result<Vec<u8>>> + Send;
}

/// A UDP exchange: nothing but datagrams of the queried address and port come out of it, and an
/// ICMP error comes out as an error.
pub trait Channel: Send + Sync {
    /// Sends one datagram.
    fn send(&self, octets: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Receives one datagram; what does not fit into `buffer` is lost. Safe to drop and repeat.
    fn receive(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;

    /// The exchange ended with its reply: another one may follow on the same socket. One that is
    /// only dropped ended otherwise, and a reply to it may still be on its way.
    fn release(self)
    where
        Self: Sized,
    {
    }
}

/// Sockets of the system: connected UDP sockets on ephemeral ports that the kernel draws at random
/// (RFC 5452 §9.2), one query at a time on each; one TCP connection per query.
///
/// Opening a socket costs more than asking over it. So a socket whose query was answered is kept;
/// a query takes one of those kept at random, and a socket is closed after some queries or
/// seconds. Until [`Pool::full`] of them are there, every query opens a new one.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    pools: Arc<Mutex<HashMap<SocketAddr, Pool>>>,
}

/// Idle sockets to one upstream.
#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Idle>,
    /// Those kept and those taken from here.
    open: usize,
}

#[derive(Debug)]
struct Idle {
    socket: UdpSocket,
    uses: u32,
    opened: Instant,
}

/// A socket for one exchange.
#[derive(Debug)]
pub struct Lease {
    pools: Arc<Mutex<HashMap<SocketAddr, Pool>>>,
    upstream: SocketAddr,
    /// None once it was given back.
    idle: Option<Idle>,
}

/// Sockets to one upstream from which a query takes its port at random: with the id, 22 bits that
/// a stranger has to guess even if all ports were known.
pub(super) const POOL: usize = 64;

/// Queries that one socket serves, and for how long, so that ports cannot be learned over time.
pub(super) const MAX_USES: u32 = 64;
pub(super) const MAX_AGE: Duration = Duration::from_secs(10);

impl Pool {
    fn full(&self) -> bool {
        self.open >= POOL
    }

    fn close_old(&mut self, now: Instant) {
        let before = self.idle.len();
        self.idle
            .retain(|idle| now.duration_since(idle.opened) < MAX_AGE);
        self.forget(before - self.idle.len());
    }

    fn forget(&mut self, sockets: usize) {
        self.open = self.open.saturating_sub(sockets);
    }

    /// A socket at random, once there are enough to choose from.
    fn take(&mut self) -> Option<Idle> {
        if !self.full() || self.idle.is_empty() {
            return None;
        }
        let index = rand::random_range(0..self.idle.len());
        Some(self.idle.swap_remove(index))
    }

    fn put(&mut self, idle: Idle) {
        if idle.uses < MAX_USES && self.idle.len() < POOL {
            self.idle.push(idle);
        } else {
            self.forget(1);
        }
    }
}

impl Sockets {
    /// Also closes what nobody has used for a while, of upstreams that are gone as well.
    fn take(&self, upstream: SocketAddr, now: Instant) -> Option<Idle> {
        let mut pools = lock(&self.pools);
        pools.retain(|_, pool| {
            pool.close_old(now);
            pool.open > 0
        });
        pools.get_mut(&upstream)?.take()
    }
}

impl Sockets {
    /// Takes over a connected socket that somebody else opened, inside a tokio runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch it.
    pub(super) fn adopt(
        &self,
        socket: std::net::UdpSocket,
        upstream: SocketAddr,
        uses: u32,
        opened: Instant,
    ) -> io::Result<Lease> {
        let socket = UdpSocket::from_std(socket)?;
        lock(&self.pools).entry(upstream).or_default().open += 1;
        Ok(Lease {
            pools: Arc::clone(&self.pools),
            upstream,
            idle: Some(Idle {
                socket,
                uses,
                opened,
            }),
        })
    }
}

impl Lease {
    fn socket(&self) -> io::Result<&UdpSocket> {
        // Only `release` takes the socket, and the lease with it.
        let idle = self.idle.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(&idle.socket)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.idle.is_some()
            && let Some(pool) = lock(&self.pools).get_mut(&self.upstream)
        {
            pool.forget(1);
        }
    }
}

impl Transport for Sockets {
    type Channel = Lease;

    async fn open(&self, upstream: SocketAddr) -> io::Result<Lease> {
        let idle = match self.take(upstream, Instant::now()) {
            Some(idle) => idle,
            None => {
                let socket = connected(upstream).await?;
                lock(&self.pools).entry(upstream).or_default().open += 1;
                Idle {
                    socket,
                    uses: 0,
                    opened: Instant::now(),
                }
            }
        };
        Ok(Lease {
            pools: Arc::clone(&self.pools),
            upstream,
            idle: Some(idle),
        })
    }

    async fn ask_over_tcp(&self, upstream: SocketAddr, query: Vec<u8>) -> io::Result<Vec<u8>> {
        let length = u16::try_from(query.len()).map_err(io::Error::other)?;
        let mut framed = Vec::with_capacity(query.len() + 2);
        framed.extend(length.to_be_bytes());
        framed.extend(query);
        let mut stream = TcpStream::connect(upstream).await?;
        // Length and message in one segment (RFC 7766 §8).
        stream.write_all(&framed).await?;
        let mut reply = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut reply).await?;
        Ok(reply)
    }
}

async fn connected(upstream: SocketAddr) -> io::Result<UdpSocket> {
    let any = match upstream {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(upstream).await?;
    Ok(socket)
}

impl Channel for Lease {
    async fn send(&self, octets: &[u8]) -> io::Result<()> {
        self.socket()?.send(octets).await.map(|_| ())
    }

    async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket()?.recv(buffer).await
    }

    fn release(mut self) {
        let Some(mut idle) = self.idle.take() else {
            return;
        };
        idle.uses += 1;
        if let Some(pool) = lock(&self.pools).get_mut(&self.upstream) {
            pool.put(idle);
        }
    }
}

#[cfg(test)]
mod tests;
