//! The UDP side: one blocking thread per socket and allowed core. Local answers are sent at once
//! in batches; of queries for upstreams a bounded number waits (rule 76), asked by this thread in
//! the usual case and else by tasks.

use std::io;
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::socket::{SockaddrIn, SockaddrIn6};
use socket2::SockRef;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tsunaro_model::zone::{Snapshot, ZoneRef};

use super::handler::{Handler, Known, UdpOutcome};
use super::packet::{self, Origin, Peer, Queries, Replies};
use crate::answer::Job;
use crate::fast;
use crate::forward::{Arrived, Express, Landed, Seated, Started};
use crate::forwarding::Resolve;
use crate::metrics::{Gauge, Shard};
use crate::tasks::Tasks;

/// Datagrams still answered when the stop comes: what the kernel had taken in by then.
const LAST: usize = 4096;

/// Errors in a row without a datagram in between that mean the socket is beyond use.
const ERRORS: usize = 1000;

/// What one worker needs.
pub(super) struct Udp<R> {
    pub(super) socket: Arc<UdpSocket>,
    pub(super) handler: Arc<Handler<R>>,
    pub(super) shard: Arc<Shard>,
    pub(super) tasks: Tasks,
    pub(super) runtime: Handle,
    /// One permit per query that waits for upstreams, over all sockets.
    pub(super) permits: Arc<Semaphore>,
    pub(super) stop: Arc<AtomicBool>,
    /// Bound to no address in particular.
    pub(super) anywhere: bool,
}

/// What one worker has at hand.
struct Desk<'a, P> {
    replies: Replies<P>,
    rotation: usize,
    express: Option<Express<Waiting<'a, P>>>,
}

/// A client whose question this thread has asked upstreams.
struct Waiting<'a, P> {
    /// As it was when the query came: one reply never mixes generations.
    zone: Arc<Snapshot>,
    message: Box<[u8]>,
    origin: Origin<P>,
    rotation: usize,
    since: Instant,
    permit: OwnedSemaphorePermit,
    gauge: Gauge<'a>,
}

/// Ends the workers when dropped or told to.
#[derive(Debug)]
pub(super) struct Stopper {
    stop: Arc<AtomicBool>,
    sockets: Vec<Arc<UdpSocket>>,
}

impl Stopper {
    pub(super) fn new(sockets: Vec<Arc<UdpSocket>>) -> Self {
        Self {
            stop: Arc::new(AtomicBool::new(false)),
            sockets,
        }
    }

    /// What the workers look at.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Has every worker answer what the kernel took in, and end.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for socket in &self.sockets {
            // Wakes up who waits in a receive; the kernel calls it an error on a socket without
            // a peer, and does it all the same.
            let _ = SockRef::from(&**socket).shutdown(Shutdown::Read);
        }
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<R: Resolve> Udp<R> {
    /// Serves until the stop.
    ///
    /// # Errors
    /// When the socket is beyond use.
    pub(super) fn serve(&self) -> io::Result<()> {
        match self.socket.local_addr()? {
            SocketAddr::V4(_) => self.serve_family::<SockaddrIn>(),
            SocketAddr::V6(_) => self.serve_family::<SockaddrIn6>(),
        }
    }

    fn serve_family<P: Peer>(&self) -> io::Result<()> {
        let mut queries = Queries::<P>::new(self.anywhere);
        let mut desk = Desk {
            replies: Replies::new(self.anywhere),
            rotation: 0,
            express: self.express(),
        };
        let mut landed = Vec::new();
        let mut errors = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let asking = desk.express.as_mut().filter(|express| !express.is_idle());
            let received = match asking {
                Some(express) => {
                    let clients = express.wait(&self.socket, &mut landed)?;
                    self.land(&mut landed, &mut desk);
                    if !clients {
                        self.flush(&mut desk.replies);
                        continue;
                    }
                    queries.receive(&self.socket, false)
                }
                None => {
                    if let Some(express) = &mut desk.express {
                        express.rest(&self.socket);
                    }
                    queries.receive(&self.socket, true)
                }
            };
            match received {
                Ok(()) => {
                    errors = 0;
                    self.answer(&queries, &mut desk);
                }
                // A datagram that made the socket readable may be one that the kernel then drops.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flush(&mut desk.replies);
                }
                Err(error) if is_fatal(&error) || errors >= ERRORS => return Err(error),
                Err(error) => {
                    errors += 1;
                    self.flush(&mut desk.replies);
                    tracing::debug!(%error, "Receiving datagrams failed");
                }
            }
        }
        // What is in flight, and what comes in now, tasks can finish after this thread's end.
        if let Some(mut express) = desk.express.take() {
            express.end(&mut landed);
            self.land(&mut landed, &mut desk);
        }
        // The wake-up left its marks on the headers.
        let mut queries = Queries::<P>::new(self.anywhere);
        for _ in 0..LAST / packet::BATCH {
            if queries.receive(&self.socket, false).is_err() {
                break;
            }
            self.answer(&queries, &mut desk);
        }
        self.flush(&mut desk.replies);
        Ok(())
    }

    /// Without it, all queries for upstreams wait in tasks.
    fn express<'a, P>(&self) -> Option<Express<Waiting<'a, P>>> {
        let opener = self.handler.opener()?;
        opener
            .open(self.runtime.clone())
            .inspect_err(|error| {
                tracing::warn!(%error, "A DNS thread cannot ask upstreams itself; tasks do it");
            })
            .ok()
    }

    fn answer<'a, P: Peer>(&'a self, queries: &Queries<P>, desk: &mut Desk<'a, P>) {
        let zone = self.handler.zone();
        for (message, origin) in queries.iter() {
            if message.is_empty() && self.stop.load(Ordering::Relaxed) {
                // The wake-up.
                continue;
            }
            desk.rotation = desk.rotation.wrapping_add(1);
            self.take(&zone, message, origin, desk);
        }
        self.flush(&mut desk.replies);
    }

    /// Takes one datagram in; at most one reply goes to the desk.
    fn take<'a, P: Peer>(
        &'a self,
        zone: &Arc<Snapshot>,
        message: &[u8],
        origin: Origin<P>,
        desk: &mut Desk<'a, P>,
    ) {
        if origin.peer.port() == 0 {
            self.shard.dropped_malformed();
            return;
        }
        let (rotation, may_ask) = (desk.rotation, desk.express.is_some());
        let Some(buffer) = self.room(&mut desk.replies) else {
            return;
        };
        match self
            .handler
            .start_udp(zone, message, rotation, &self.shard, may_ask, buffer)
        {
            UdpOutcome::Silence => {}
            UdpOutcome::Reply(length) => desk.replies.push(length, origin),
            UdpOutcome::Ask(extra) => {
                let Some(waiting) = self.waiting(zone, message, origin, rotation) else {
                    return;
                };
                let ask = AssertUnwindSafe(|| self.ask(extra, waiting, desk));
                if catch_unwind(ask).is_err() {
                    self.broken(message, origin, desk);
                }
            }
            UdpOutcome::Wait(job) => match Arc::clone(&self.permits).try_acquire_owned() {
                Ok(permit) => self.complete(job, origin, permit, None, Instant::now()),
                Err(_) => self.handler.metrics().dropped_overload(),
            },
        }
    }

    /// A client that waits for upstreams; none when too many do.
    fn waiting<'a, P: Peer>(
        &'a self,
        zone: &Arc<Snapshot>,
        message: &[u8],
        origin: Origin<P>,
        rotation: usize,
    ) -> Option<Waiting<'a, P>> {
        let metrics = self.handler.metrics();
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            metrics.dropped_overload();
            return None;
        };
        Some(Waiting {
            zone: Arc::clone(zone),
            message: message.into(),
            origin,
            rotation,
            since: Instant::now(),
            permit,
            gauge: metrics.waiting(),
        })
    }

    /// Asks the upstreams of an extra zone.
    fn ask<'a, P: Peer>(&'a self, extra: usize, waiting: Waiting<'a, P>, desk: &mut Desk<'a, P>) {
        let apex = waiting.zone.apex_of(ZoneRef::Extra(extra)).clone();
        let started = match (&mut desk.express, fast::question(&waiting.message)) {
            (Some(express), Some(question)) => express.start(&apex, question, waiting),
            _ => Started::Elsewhere(waiting, None),
        };
        match started {
            Started::Flying => {}
            Started::Elsewhere(waiting, seated) => self.elsewhere(waiting, seated, desk),
        }
    }

    /// Sends what has come from upstreams.
    fn land<'a, P: Peer>(
        &'a self,
        landed: &mut Vec<Landed<Waiting<'a, P>>>,
        desk: &mut Desk<'a, P>,
    ) {
        for landed in landed.drain(..) {
            match landed {
                Landed::Answer(waiting, arrived) => {
                    self.go_on(waiting, Some(&arrived), None, desk);
                }
                Landed::Elsewhere(waiting, seated) => self.elsewhere(waiting, Some(seated), desk),
                Landed::Broken(waiting) => self.broken(&waiting.message, waiting.origin, desk),
            }
        }
    }

    /// Answers a query that caused a panic (rule 78).
    fn broken<P: Peer>(&self, message: &[u8], origin: Origin<P>, desk: &mut Desk<'_, P>) {
        let Some(buffer) = self.room(&mut desk.replies) else {
            return;
        };
        if let UdpOutcome::Reply(length) = self.handler.broken_udp(message, &self.shard, buffer) {
            desk.replies.push(length, origin);
        }
    }

    /// Leaves a query to a task, unless it can be answered now.
    fn elsewhere<'a, P: Peer>(
        &'a self,
        waiting: Waiting<'a, P>,
        seated: Option<Seated>,
        desk: &mut Desk<'a, P>,
    ) {
        self.go_on(waiting, None, seated, desk);
    }

    fn go_on<'a, P: Peer>(
        &'a self,
        waiting: Waiting<'a, P>,
        arrived: Option<&Arrived>,
        seated: Option<Seated>,
        desk: &mut Desk<'a, P>,
    ) {
        let Waiting {
            zone,
            message,
            origin,
            rotation,
            since,
            permit,
            gauge,
        } = waiting;
        let known = match (arrived, &seated) {
            (Some(arrived), _) => Known::Arrived(arrived),
            (None, Some(_)) => Known::Pending,
            (None, None) => Known::Nothing,
        };
        let Some(buffer) = self.room(&mut desk.replies) else {
            return;
        };
        match self
            .handler
            .go_on_udp(&zone, &message, rotation, &self.shard, known, buffer)
        {
            UdpOutcome::Silence | UdpOutcome::Ask(_) => {}
            UdpOutcome::Reply(length) => desk.replies.push(length, origin),
            UdpOutcome::Wait(job) => self.complete(job, origin, permit, seated, since),
        }
        drop(gauge);
    }

    /// Completes a query in a task.
    fn complete<P: Peer>(
        &self,
        job: Box<Job>,
        origin: Origin<P>,
        permit: OwnedSemaphorePermit,
        seated: Option<Seated>,
        since: Instant,
    ) {
        let (socket, handler) = (Arc::clone(&self.socket), Arc::clone(&self.handler));
        let task = async move {
            let octets = handler.complete(job, seated, since).await;
            if let Err(error) = packet::send_one(&socket, &octets, origin) {
                handler.metrics().send_error();
                tracing::debug!(%error, peer = %origin.peer.address(), "Sending a reply failed");
            }
            drop(permit);
        };
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Where the next reply may be written.
    fn room<'r, P: Peer>(&self, replies: &'r mut Replies<P>) -> Option<&'r mut [u8]> {
        if replies.is_full() {
            self.flush(replies);
        }
        replies.next().map(|room| room.as_mut_slice())
    }

    fn flush<P: Peer>(&self, replies: &mut Replies<P>) {
        replies.flush(&self.socket, |peer, error| self.note(peer, &error));
    }

    fn note(&self, peer: SocketAddr, error: &io::Error) {
        self.handler.metrics().send_error();
        tracing::debug!(%error, %peer, "Sending a reply failed");
    }
}

/// Errors that mean the socket itself is no good.
fn is_fatal(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(Errno::EBADF | Errno::ENOTSOCK | Errno::EINVAL | Errno::EFAULT)
    )
}

#[cfg(test)]
mod tests;
