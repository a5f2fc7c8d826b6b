//! The UDP side: one blocking thread per socket and allowed core. Local answers are sent at once
//! in batches, queries for upstreams wait in tasks of which there is a bounded number (rule 76).

use std::io;
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::socket::{SockaddrIn, SockaddrIn6};
use socket2::SockRef;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tsunaro_model::zone::Snapshot;

use super::handler::{Handler, UdpOutcome};
use super::packet::{self, Origin, Peer, Queries, Replies};
use crate::answer::Job;
use crate::forwarding::Resolve;
use crate::metrics::Shard;
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
        let mut replies = Replies::<P>::new(self.anywhere);
        let mut rotation = 0;
        let mut errors = 0;
        while !self.stop.load(Ordering::Relaxed) {
            match queries.receive(&self.socket, true) {
                Ok(()) => {
                    errors = 0;
                    self.answer(&queries, &mut replies, &mut rotation);
                }
                Err(error) if is_fatal(&error) || errors >= ERRORS => return Err(error),
                Err(error) => {
                    errors += 1;
                    tracing::debug!(%error, "Receiving datagrams failed");
                }
            }
        }
        // The wake-up left its marks on the headers.
        let mut queries = Queries::<P>::new(self.anywhere);
        for _ in 0..LAST / packet::BATCH {
            if queries.receive(&self.socket, false).is_err() {
                break;
            }
            self.answer(&queries, &mut replies, &mut rotation);
        }
        Ok(())
    }

    fn answer<P: Peer>(
        &self,
        queries: &Queries<P>,
        replies: &mut Replies<P>,
        rotation: &mut usize,
    ) {
        let zone = self.handler.zone();
        for (message, origin) in queries.iter() {
            if message.is_empty() && self.stop.load(Ordering::Relaxed) {
                // The wake-up.
                continue;
            }
            *rotation = rotation.wrapping_add(1);
            self.take(&zone, message, origin, *rotation, replies);
        }
        replies.flush(&self.socket, |peer, error| self.note(peer, &error));
    }

    /// Takes one datagram in; at most one reply goes to `replies`.
    fn take<P: Peer>(
        &self,
        zone: &Arc<Snapshot>,
        message: &[u8],
        origin: Origin<P>,
        rotation: usize,
        replies: &mut Replies<P>,
    ) {
        if origin.peer.port() == 0 {
            self.shard.dropped_malformed();
            return;
        }
        // There is room for as many replies as queries.
        let Some(buffer) = replies.next() else { return };
        match self
            .handler
            .start_udp(zone, message, rotation, &self.shard, buffer)
        {
            UdpOutcome::Silence => {}
            UdpOutcome::Reply(length) => replies.push(length, origin),
            UdpOutcome::Wait(job) => self.wait(job, origin),
        }
    }

    /// Completes a query in a task.
    fn wait<P: Peer>(&self, job: Box<Job>, origin: Origin<P>) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            self.handler.metrics().dropped_overload();
            return;
        };
        let (socket, handler) = (Arc::clone(&self.socket), Arc::clone(&self.handler));
        let task = async move {
            let octets = handler.complete(job).await;
            if let Err(error) = packet::send_one(&socket, &octets, origin) {
                handler.metrics().send_error();
                tracing::debug!(%error, peer = %origin.peer.address(), "Sending a reply failed");
            }
            drop(permit);
        };
        self.tasks.spawn_on(task, &self.runtime);
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
