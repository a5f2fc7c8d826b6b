//! The UDP side: one loop per socket. Local answers are sent at once, queries for upstreams wait
//! in tasks of which there is a bounded number (rule 76).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::handler::{Handler, Outcome};
use super::packet::{self, Received};
use crate::forwarding::{ClientTransport, Resolve};
use crate::tasks::Tasks;

/// Far above any query; a longer datagram is cut, and so FORMERR.
const BUFFER: usize = 4096;

/// Datagrams handled before other tasks get a turn.
const BATCH: usize = 64;

/// Datagrams still answered when the stop comes: what the kernel had taken in by then.
const LAST: usize = 4096;

/// Pause after an error that should pass, lest a lasting one spins.
const PAUSE: Duration = Duration::from_millis(10);

type Receive = fn(&UdpSocket, &mut [u8], &mut [u8]) -> io::Result<Received>;

/// What one loop needs.
pub(super) struct Udp<R> {
    pub(super) socket: Arc<UdpSocket>,
    pub(super) handler: Arc<Handler<R>>,
    pub(super) tasks: Tasks,
    /// One permit per query that waits for upstreams, over all sockets.
    pub(super) permits: Arc<Semaphore>,
}

impl<R: Resolve> Udp<R> {
    /// Serves until `stop`.
    ///
    /// # Errors
    /// When the socket is beyond use.
    pub(super) async fn serve(self, stop: CancellationToken) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        let mut control = packet::control_buffer();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                ready = self.socket.readable() => ready?,
            }
            if self
                .turn(BATCH, packet::receive, &mut buffer, &mut control)
                .await?
            {
                tokio::task::yield_now().await;
            }
        }
        self.turn(LAST, packet::receive_now, &mut buffer, &mut control)
            .await?;
        Ok(())
    }

    /// Handles up to `count` datagrams; true when there may be more.
    async fn turn(
        &self,
        count: usize,
        receive: Receive,
        buffer: &mut [u8],
        control: &mut [u8],
    ) -> io::Result<bool> {
        for _ in 0..count {
            match receive(&self.socket, buffer, control) {
                Ok(received) => {
                    let message = buffer.get(..received.len).unwrap_or_default();
                    self.handle(message, received).await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if is_fatal(&error) => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "Receiving a datagram failed");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Ok(true)
    }

    async fn handle(&self, message: &[u8], received: Received) {
        let Received {
            len: _,
            peer,
            local,
        } = received;
        if peer.port() == 0 {
            self.handler.metrics().dropped_malformed();
            return;
        }
        match self.handler.start(message, ClientTransport::Udp) {
            Outcome::Silence => {}
            Outcome::Reply(octets) => {
                let sent = packet::send(&self.socket, &octets, peer, local).await;
                note(&self.handler, peer, sent);
            }
            Outcome::Wait(job) => {
                let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
                    self.handler.metrics().dropped_overload();
                    return;
                };
                let (socket, handler) = (Arc::clone(&self.socket), Arc::clone(&self.handler));
                self.tasks.spawn(async move {
                    let octets = handler.complete(job).await;
                    let sent = packet::send(&socket, &octets, peer, local).await;
                    note(&handler, peer, sent);
                    drop(permit);
                });
            }
        }
    }
}

fn note<R: Resolve>(handler: &Handler<R>, peer: SocketAddr, sent: io::Result<()>) {
    if let Err(error) = sent {
        handler.metrics().send_error();
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
