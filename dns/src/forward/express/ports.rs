//! Sockets to upstreams that one thread has to itself, and the wait for all of them at once.
//!
//! As in [`Sockets`](super::super::Sockets): one query at a time on each, the port drawn at random
//! from those kept, and a socket closed after some queries or seconds.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::super::transport::{MAX_AGE, MAX_USES, POOL};

/// Sockets that one wait tells of at most.
const EVENTS: usize = 64;

/// The mark of the socket that clients ask.
const CLIENTS: u64 = u64::MAX;

/// How often old sockets are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// One thread's sockets; each may carry an exchange `F`.
#[derive(Debug)]
pub(super) struct Ports<F> {
    epoll: Epoll,
    events: Box<[EpollEvent; EVENTS]>,
    ports: Vec<Option<Port<F>>>,
    vacant: Vec<usize>,
    pools: HashMap<SocketAddr, Pool>,
    swept: Option<Instant>,
}

/// A connected socket.
#[derive(Debug)]
pub(super) struct Port<F> {
    pub(super) socket: UdpSocket,
    pub(super) upstream: SocketAddr,
    pub(super) uses: u32,
    pub(super) opened: Instant,
    pub(super) exchange: Option<F>,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<usize>,
    /// Idle ones and those with an exchange.
    open: usize,
}

/// What is there to be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readable {
    /// Clients asked something.
    pub(super) clients: bool,
    /// These ports received something.
    pub(super) ports: Vec<usize>,
}

impl<F> Ports<F> {
    /// # Errors
    /// When the system has no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            events: Box::new([EpollEvent::empty(); EVENTS]),
            ports: Vec::new(),
            vacant: Vec::new(),
            pools: HashMap::new(),
            swept: None,
        })
    }

    /// Waits for clients too, from now on.
    pub(super) fn watch_clients(&self, socket: &UdpSocket) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, CLIENTS);
        Ok(self.epoll.add(socket.as_fd(), event)?)
    }

    pub(super) fn forget_clients(&self, socket: &UdpSocket) -> io::Result<()> {
        Ok(self.epoll.delete(socket.as_fd())?)
    }

    /// Waits until something is there to be read, or for so long.
    ///
    /// # Errors
    /// When the wait itself is broken.
    pub(super) fn wait(&mut self, patience: Duration, found: &mut Readable) -> io::Result<()> {
        found.clients = false;
        found.ports.clear();
        // A millisecond more than asked for, since less would be a busy loop.
        let patience = patience.saturating_add(Duration::from_millis(1));
        let patience = EpollTimeout::try_from(patience).unwrap_or(EpollTimeout::MAX);
        let count = match self.epoll.wait(self.events.as_mut_slice(), patience) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in self.events.iter().take(count) {
            match usize::try_from(event.data()) {
                _ if event.data() == CLIENTS => found.clients = true,
                Ok(port) => found.ports.push(port),
                Err(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn get(&mut self, index: usize) -> Option<&mut Port<F>> {
        self.ports.get_mut(index)?.as_mut()
    }

    /// All ports with an exchange.
    pub(super) fn busy(&self) -> impl Iterator<Item = (usize, &F)> {
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(index, port)| Some((index, port.as_ref()?.exchange.as_ref()?)))
    }

    /// A port for a new exchange: one at random, once there are enough to choose from, else a new
    /// one.
    ///
    /// # Errors
    /// What the system says to a new socket.
    pub(super) fn take(&mut self, upstream: SocketAddr, now: Instant) -> io::Result<usize> {
        self.sweep(now);
        while let Some(pool) = self.pools.get_mut(&upstream)
            && pool.open >= POOL
            && !pool.idle.is_empty()
        {
            let index = pool
                .idle
                .swap_remove(rand::random_range(0..pool.idle.len()));
            let port = self.ports.get(index).and_then(Option::as_ref);
            if port.is_some_and(|port| now.saturating_duration_since(port.opened) < MAX_AGE) {
                return Ok(index);
            }
            self.remove(index);
        }
        self.open(upstream, now)
    }

    /// Keeps a port whose exchange ended with its reply, if it may serve another one.
    pub(super) fn release(&mut self, index: usize) {
        let Some(port) = self.ports.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        port.uses += 1;
        let pool = self.pools.entry(port.upstream).or_default();
        if port.uses < MAX_USES && pool.idle.len() < POOL {
            pool.idle.push(index);
        } else {
            self.remove(index);
        }
    }

    /// Gives a port away; dropping it closes it.
    pub(super) fn remove(&mut self, index: usize) -> Option<Port<F>> {
        let port = self.ports.get_mut(index)?.take()?;
        // Somebody else may hold the socket from now on: closing alone would not end the watch.
        let _ = self.epoll.delete(port.socket.as_fd());
        self.vacant.push(index);
        if let Some(pool) = self.pools.get_mut(&port.upstream) {
            pool.open = pool.open.saturating_sub(1);
            pool.idle.retain(|other| *other != index);
        }
        Some(port)
    }

    fn open(&mut self, upstream: SocketAddr, now: Instant) -> io::Result<usize> {
        let any = match upstream {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        // The kernel draws the port at random (RFC 5452 §9.2).
        let socket = UdpSocket::bind(any)?;
        socket.connect(upstream)?;
        socket.set_nonblocking(true)?;
        let index = self.vacant.pop().unwrap_or(self.ports.len());
        let event = EpollEvent::new(EpollFlags::EPOLLIN, index as u64);
        if let Err(error) = self.epoll.add(socket.as_fd(), event) {
            if index < self.ports.len() {
                self.vacant.push(index);
            }
            return Err(error.into());
        }
        if index == self.ports.len() {
            self.ports.push(None);
        }
        if let Some(place) = self.ports.get_mut(index) {
            *place = Some(Port {
                socket,
                upstream,
                uses: 0,
                opened: now,
                exchange: None,
            });
        }
        self.pools.entry(upstream).or_default().open += 1;
        Ok(index)
    }

    /// Closes what nobody has used for a while, of upstreams that are gone as well.
    fn sweep(&mut self, now: Instant) {
        let lately = |at: Instant| now.saturating_duration_since(at) < SWEEP;
        if self.swept.is_some_and(lately) {
            return;
        }
        self.swept = Some(now);
        let old: Vec<usize> = (0..self.ports.len())
            .filter(|index| {
                let port = self.ports.get(*index).and_then(Option::as_ref);
                port.is_some_and(|port| {
                    port.exchange.is_none() && now.saturating_duration_since(port.opened) >= MAX_AGE
                })
            })
            .collect();
        for index in old {
            self.remove(index);
        }
        self.pools.retain(|_, pool| pool.open > 0);
    }
}

#[cfg(test)]
mod tests;
