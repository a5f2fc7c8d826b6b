//! The TCP side: one accept loop per socket, one task per connection (RFC 7766, rules 74 to 76).
//!
//! A connection's task drives a reader, up to 16 queries that wait for upstreams, and a writer;
//! dropping it at any point loses nothing but that connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};
use tokio_util::sync::CancellationToken;

use super::connections::{Admission, Connections, Slot};
use super::handler::{Handler, Outcome};
use crate::forwarding::{ClientTransport, Resolve};
use crate::reply::TCP_IDLE_SECONDS;
use crate::tasks::Tasks;
use crate::wire::HEADER;

/// Queries of one connection that may be in flight (rule 74).
const PIPELINE: usize = 16;

/// Without a query in flight, a connection that sends no whole query for this long is closed.
const IDLE: Duration = Duration::from_secs(TCP_IDLE_SECONDS as u64);

/// The client has to take a reply within this time (rule 75).
const WRITE: Duration = Duration::from_secs(5);

/// Pause after a failed accept: it is mostly a want of descriptors, which takes time to pass.
const PAUSE: Duration = Duration::from_millis(50);

/// How often a failure that goes on is said again.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Replies are gathered up to this size before they are written.
const GATHER: usize = 64 * 1024;

/// What one loop needs.
pub(super) struct Tcp<R> {
    pub(super) listener: TcpListener,
    pub(super) handler: Arc<Handler<R>>,
    pub(super) tasks: Tasks,
    pub(super) connections: Arc<Connections>,
}

impl<R: Resolve> Tcp<R> {
    /// Accepts until `stop`.
    ///
    /// # Errors
    /// When the socket is beyond use.
    pub(super) async fn serve(self, stop: CancellationToken) -> io::Result<()> {
        let mut trouble = Trouble::default();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    if let Some(failures) = trouble.over() {
                        tracing::info!(failures, "TCP connections are accepted again");
                    }
                    // Replies are written whole; waiting for more helps nobody.
                    let _ = stream.set_nodelay(true);
                    self.admit(stream, peer, stop.clone());
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
                Err(error) => {
                    if let Some(failures) = trouble.goes_on(Instant::now()) {
                        tracing::warn!(%error, failures, "Accepting TCP connections fails");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn admit(&self, stream: tokio::net::TcpStream, peer: SocketAddr, stop: CancellationToken) {
        let slot = match self.connections.admit(peer.ip(), Instant::now()) {
            Admission::Free(slot) => slot,
            Admission::Evicting(slot) => {
                self.handler.metrics().evicted();
                slot
            }
            Admission::Refused => {
                self.handler.metrics().refused();
                return;
            }
        };
        let handler = Arc::clone(&self.handler);
        self.tasks.spawn(async move {
            let _open = handler.metrics().connection();
            let (read, write) = stream.into_split();
            serve_connection(read, write, &slot, &handler, &stop).await;
        });
    }
}

/// Failures in a row, said at the first one and once a minute: a want of descriptors fails twenty
/// times a second.
#[derive(Debug, Default)]
struct Trouble {
    failures: u64,
    said: Option<Instant>,
}

impl Trouble {
    /// One more failure: how many there were, if it is time to say so.
    fn goes_on(&mut self, now: Instant) -> Option<u64> {
        self.failures += 1;
        let due = self
            .said
            .is_none_or(|said| now.duration_since(said) >= SAY_AGAIN);
        due.then(|| {
            self.said = Some(now);
            self.failures
        })
    }

    /// A success: how many failures came before it, if any.
    fn over(&mut self) -> Option<u64> {
        self.said.take().map(|_| std::mem::take(&mut self.failures))
    }
}

/// Serves one connection until either side closes it, it idles, it is evicted, or the stop comes.
pub(super) async fn serve_connection<R: Resolve>(
    read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin,
    slot: &Slot,
    handler: &Handler<R>,
    stop: &CancellationToken,
) {
    let (replies, queue) = mpsc::channel(PIPELINE);
    let serving = async {
        let reading = read_queries(read, replies, slot, handler, stop);
        let writing = write_replies(write, queue);
        tokio::pin!(reading, writing);
        tokio::select! {
            // The writer only ends before the reader when the client does not take its replies.
            _ = &mut writing => return,
            () = &mut reading => {}
        }
        let _ = writing.await;
    };
    tokio::select! {
        () = slot.evicted() => {}
        () = serving => {}
    }
}

/// Reads queries until the end; then waits for those in flight. An error of the channel means
/// that the writer gave up.
async fn read_queries<R: Resolve>(
    read: impl AsyncRead + Unpin,
    replies: mpsc::Sender<Vec<u8>>,
    slot: &Slot,
    handler: &Handler<R>,
    stop: &CancellationToken,
) {
    let mut frames = FramedRead::new(
        read,
        LengthDelimitedCodec::builder()
            .length_field_length(2)
            .new_codec(),
    );
    let mut in_flight = FuturesUnordered::new();
    let mut deadline = Instant::now() + IDLE;
    loop {
        let reply = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(reply) = in_flight.next(), if !in_flight.is_empty() => Some(reply),
            frame = frames.next(), if in_flight.len() < PIPELINE => {
                let Some(query) = usable(frame) else { break };
                match handler.start(&query, ClientTransport::Tcp) {
                    Outcome::Silence => None,
                    Outcome::Reply(octets) => Some(octets),
                    Outcome::Wait(job) => {
                        slot.busy();
                        in_flight.push(handler.complete(job, None, Instant::now()));
                        None
                    }
                }
            }
            () = sleep_until(deadline), if in_flight.is_empty() => break,
        };
        if let Some(octets) = reply
            && replies.send(octets).await.is_err()
        {
            return;
        }
        let now = Instant::now();
        deadline = now + IDLE;
        if in_flight.is_empty() {
            slot.idle(now);
        }
    }
    while let Some(octets) = in_flight.next().await {
        if replies.send(octets).await.is_err() {
            return;
        }
    }
}

/// A frame that can hold a header; anything else ends the connection (rule 75).
fn usable(frame: Option<io::Result<bytes::BytesMut>>) -> Option<Bytes> {
    frame?
        .ok()
        .filter(|frame| frame.len() >= HEADER)
        .map(bytes::BytesMut::freeze)
}

async fn write_replies(
    write: impl AsyncWrite + Unpin,
    queue: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    let (mut write, mut queue) = (write, queue);
    let mut gathered = Vec::new();
    while let Some(first) = queue.recv().await {
        gathered.clear();
        frame(&mut gathered, &first);
        while gathered.len() < GATHER
            && let Ok(next) = queue.try_recv()
        {
            frame(&mut gathered, &next);
        }
        timeout(WRITE, write.write_all(&gathered)).await??;
    }
    timeout(WRITE, write.shutdown()).await?
}

fn frame(gathered: &mut Vec<u8>, reply: &[u8]) {
    // Replies are built with 65,535 octets as their limit.
    gathered.extend(u16::try_from(reply.len()).unwrap_or(u16::MAX).to_be_bytes());
    gathered.extend_from_slice(reply);
}

#[cfg(test)]
mod tests;
