use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::SendRequest;
use tsunaro_model::tailnet::{Backend, HealthWarning, Prefs};

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::lines::{LineTooLong, Lines, MAX_LINE};
use crate::redact::Redactor;
use crate::transport::{Answer, Call, Connection, describe, is_connection_failure};
use crate::wire::Notify;

/// One change of tailscaled's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IpnEvent {
    /// The id of this watch, once, at first.
    Session(String),
    /// tailscaled tells of an error and goes on, such as a login that the control server refused
    /// (repeated at each try), or drops us because we read too slowly (then the stream ends).
    ErrorMessage(String),
    /// All prefs, as they are now.
    Prefs(Box<Prefs>),
    /// All that is unhealthy now, by code; empty when all is well.
    Health(Vec<HealthWarning>),
    /// Somebody has to open this URL to log the node in.
    BrowseToUrl(String),
    /// A login succeeded.
    LoginFinished,
    /// This node's addresses, tags, key expiry or approved routes changed: see the status.
    NodeChanged,
    /// The state, as it is now.
    State(Backend),
}

/// tailscaled's changes, from [`LocalApi::watch`](crate::LocalApi::watch).
///
/// The first items are a session id, the prefs, the health and the state as they are. The changes
/// of one message follow each other, its state last. The stream ends when tailscaled closes it or
/// dies between two messages, and after any error: watch again and take nothing for granted. It
/// stays silent while nothing changes.
pub struct IpnBus {
    socket: Arc<Path>,
    lines: Lines,
    pending: VecDeque<IpnEvent>,
    /// None once the stream has ended.
    source: Option<Source>,
}

struct Source {
    body: Incoming,
    /// None once hyper has nothing more to do on it.
    connection: Option<Pin<Box<Connection>>>,
    _sender: SendRequest<Full<Bytes>>,
}

impl IpnBus {
    pub(crate) fn new(socket: Arc<Path>, answer: Answer) -> Self {
        let Answer {
            body,
            connection,
            sender,
        } = answer;
        Self {
            socket,
            lines: Lines::new(MAX_LINE),
            pending: VecDeque::new(),
            source: Some(Source {
                body,
                connection: Some(connection),
                _sender: sender,
            }),
        }
    }

    fn call(&self) -> Call<'_> {
        Call {
            socket: &self.socket,
            endpoint: Endpoint::Watch,
            redactor: Redactor::default(),
        }
    }

    /// Takes whole lines until one of them has changes; false when more bytes are needed.
    fn decode_buffered(&mut self) -> Result<bool, Error> {
        while self.pending.is_empty() {
            let line = match self.lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(false),
                Err(LineTooLong) => return Err(self.call().too_large("a line", MAX_LINE)),
            };
            let events = decode_line(&line).map_err(|detail| self.call().decode_error(&detail))?;
            self.pending.extend(events);
        }
        Ok(true)
    }
}

impl Stream for IpnBus {
    type Item = Result<IpnEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let bus = &mut *self;
        loop {
            if let Some(event) = bus.pending.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if bus.source.is_none() {
                return Poll::Ready(None);
            }
            match bus.decode_buffered() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    bus.source = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
            let Some(source) = &mut bus.source else {
                return Poll::Ready(None);
            };
            let chunk = ready!(source.poll_chunk(cx));
            match chunk {
                Some(Ok(data)) => bus.lines.push(&data),
                Some(Err(error)) if !is_connection_failure(&error) || bus.lines.is_partial() => {
                    bus.source = None;
                    let cause = io::Error::other(describe(&error));
                    return Poll::Ready(Some(Err(bus.call().io_error(cause))));
                }
                None if bus.lines.is_partial() => {
                    bus.source = None;
                    let cause = io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the stream ended in the middle of a message",
                    );
                    return Poll::Ready(Some(Err(bus.call().io_error(cause))));
                }
                // A daemon that dies closes no HTTP body; between messages that is an end too.
                Some(Err(_)) | None => bus.source = None,
            }
        }
    }
}

impl Source {
    /// The next bytes; None at the end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        loop {
            if let Some(connection) = &mut self.connection
                && connection.as_mut().poll(cx).is_ready()
            {
                // The body has the error, if there is one.
                self.connection = None;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }
}

impl fmt::Debug for IpnBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpnBus")
            .field("socket", &self.socket)
            .field("open", &self.source.is_some())
            .finish_non_exhaustive()
    }
}

/// The changes in one line of the bus.
pub(crate) fn decode_line(line: &[u8]) -> Result<Vec<IpnEvent>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_slice::<Notify>(line)
        .map_err(|error| error.to_string())?
        .into_events()
}

#[cfg(test)]
mod tests;
