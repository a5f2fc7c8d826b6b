//! HTTP/1.1 over the unix socket: one connection, one request.

use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::redact::Redactor;
use crate::wire::ErrorReply;

/// Longest body that we send, in bytes: room for 50,000 routes.
pub(crate) const MAX_REQUEST: usize = 1 << 20;
/// Longest body that we read, in bytes. 3,000 advertised routes make one of about 60 kB.
pub(crate) const MAX_REPLY: usize = 4 << 20;
/// Longest body of a refusal that we read, in bytes.
const MAX_REFUSAL: usize = 64 << 10;

/// `apitype.LocalAPIHost`: tailscaled refuses any other.
const LOCALAPI_HOST: &str = "local-tailscaled.sock";
/// tailscaled sets it on every answer of the LocalAPI but [`WITHOUT_VERSION`].
const VERSION_HEADER: &str = "tailscale-version";
/// Refusals that come before that header is set (`ipnserver/server.go`, `localapi.go`).
const WITHOUT_VERSION: [&str; 3] = [
    "invalid localapi request",
    "no backend",
    "server has no local backend",
];

pub(crate) type Connection = http1::Connection<TokioIo<UnixStream>, Full<Bytes>>;

/// An answer whose body is still to be read, and the connection that has to be driven for that.
pub(crate) struct Answer {
    pub(crate) body: Incoming,
    pub(crate) connection: Pin<Box<Connection>>,
    /// Kept so that hyper sees a caller until the body is read.
    pub(crate) sender: SendRequest<Full<Bytes>>,
}

/// One request, and what its errors say.
pub(crate) struct Call<'a> {
    pub(crate) socket: &'a Arc<Path>,
    pub(crate) endpoint: Endpoint,
    pub(crate) redactor: Redactor,
}

impl Call<'_> {
    /// Sends the request and reads the whole answer.
    pub(crate) async fn exchange(&self, body: Bytes) -> Result<Bytes, Error> {
        let Answer {
            mut body,
            mut connection,
            sender: _sender,
        } = self.open(body).await?;
        let reading = read_body(&mut body, MAX_REPLY);
        let read = drive(connection.as_mut(), reading).await;
        read.map_err(|failure| self.body_error(failure, MAX_REPLY))
    }

    /// Sends the request and reads the answer's head; anything but success is an error.
    pub(crate) async fn open(&self, body: Bytes) -> Result<Answer, Error> {
        if body.len() > MAX_REQUEST {
            return Err(self.too_large("the request", MAX_REQUEST));
        }
        let stream = UnixStream::connect(self.socket)
            .await
            .map_err(|cause| self.connect_error(cause))?;
        let request = Request::builder()
            .method(self.endpoint.method())
            .uri(self.endpoint.path_and_query())
            .header(HOST, LOCALAPI_HOST)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| self.io_error(io::Error::other(error)))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.http_error(&error))?;
        let mut connection = Box::pin(connection);
        let sending = sender.send_request(request);
        let response = drive(connection.as_mut(), sending)
            .await
            .map_err(|error| self.http_error(&error))?;
        let (head, mut body) = Response::into_parts(response);
        if head.status.is_success() && head.headers.contains_key(VERSION_HEADER) {
            return Ok(Answer {
                body,
                connection,
                sender,
            });
        }
        let reading = read_body(&mut body, MAX_REFUSAL);
        let text = match drive(connection.as_mut(), reading).await {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(BodyFailure::TooLarge) => "(a long text)".to_owned(),
            Err(BodyFailure::Http(_)) => "(its text got lost)".to_owned(),
        };
        Err(self.refusal(head.status, &head.headers, &text))
    }

    pub(crate) fn decode_error(&self, detail: &str) -> Error {
        Error::Decode {
            socket: Arc::clone(self.socket),
            request: self.endpoint.to_string(),
            detail: self.redactor.clean(detail),
        }
    }

    pub(crate) fn too_large(&self, what: &str, limit: usize) -> Error {
        Error::TooLarge {
            socket: Arc::clone(self.socket),
            request: format!("{what} of {}", self.endpoint),
            limit,
        }
    }

    pub(crate) fn io_error(&self, cause: io::Error) -> Error {
        Error::Io {
            socket: Arc::clone(self.socket),
            request: self.endpoint.to_string(),
            cause,
        }
    }

    fn connect_error(&self, cause: io::Error) -> Error {
        let socket = Arc::clone(self.socket);
        match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Error::SocketAbsent { socket }
            }
            // Linux says the same of a file that is no socket (connect(2), unix_find_bsd).
            io::ErrorKind::ConnectionRefused => match is_socket(&socket) {
                Some(false) => self.stranger("a file that is no socket"),
                Some(true) | None => Error::SocketStale { socket },
            },
            _ => self.io_error(cause),
        }
    }

    fn body_error(&self, failure: BodyFailure, limit: usize) -> Error {
        match failure {
            BodyFailure::TooLarge => self.too_large("the answer", limit),
            BodyFailure::Http(error) => self.http_error(&error),
        }
    }

    /// What hyper says when the peer breaks the protocol is about the peer; the rest is about the
    /// connection.
    fn http_error(&self, error: &hyper::Error) -> Error {
        if is_connection_failure(error) {
            return self.io_error(io::Error::other(describe(error)));
        }
        self.stranger(&format!("its answer is no HTTP/1.1: {}", describe(error)))
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap, text: &str) -> Error {
        let text = serde_json::from_str::<ErrorReply>(text)
            .map_or_else(|_| text.to_owned(), |ErrorReply { error }| error);
        let message = self.redactor.clean(&text);
        if !headers.contains_key(VERSION_HEADER) && !WITHOUT_VERSION.contains(&message.as_str()) {
            return self.stranger(&format!(
                "it answers HTTP {} without a Tailscale-Version",
                status.as_u16()
            ));
        }
        let socket = Arc::clone(self.socket);
        if message.contains("config file is locked") {
            return Error::Locked { socket, message };
        }
        let request = self.endpoint.to_string();
        // A foreign Host is refused with 403 too, but that is no matter of the user.
        if status == StatusCode::FORBIDDEN && headers.contains_key(VERSION_HEADER) {
            return Error::Forbidden {
                socket,
                request,
                message,
            };
        }
        Error::Rejected {
            socket,
            request,
            status: status.as_u16(),
            message,
        }
    }

    fn stranger(&self, detail: &str) -> Error {
        Error::NotTailscaled {
            socket: Arc::clone(self.socket),
            detail: self.redactor.clean(detail),
        }
    }
}

/// Why a body is not there.
enum BodyFailure {
    TooLarge,
    Http(hyper::Error),
}

impl From<hyper::Error> for BodyFailure {
    fn from(error: hyper::Error) -> Self {
        Self::Http(error)
    }
}

async fn read_body(body: &mut Incoming, limit: usize) -> Result<Bytes, BodyFailure> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            if bytes.len() + data.len() > limit {
                return Err(BodyFailure::TooLarge);
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes.freeze())
}

/// Awaits an exchange while driving the connection that it runs on: hyper moves bytes only while
/// the connection is polled. When the connection ends, the exchange ends too and has the reason.
async fn drive<T>(connection: Pin<&mut Connection>, exchange: impl Future<Output = T>) -> T {
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        _ = connection => exchange.await,
        outcome = &mut exchange => outcome,
    }
}

/// The connection broke, as opposed to: the peer speaks another protocol.
pub(crate) fn is_connection_failure(error: &hyper::Error) -> bool {
    error.is_incomplete_message()
        || error.is_canceled()
        || error.is_closed()
        || error.is_shutdown()
        || error.is_body_write_aborted()
        || std::error::Error::source(error).is_some_and(|source| source.is::<io::Error>())
}

/// hyper leaves its cause out of its text.
pub(crate) fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn is_socket(path: &Path) -> Option<bool> {
    use std::os::unix::fs::FileTypeExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(metadata.file_type().is_socket())
}

#[cfg(test)]
mod tests;
