//! HTTP/1.1 over TCP or TLS: one connection, one request, redirects never followed.

use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::endpoint::Endpoint;
use super::error::{At, Error, Phase};
use super::redact::clean;
use super::refusal::refusal;
use super::secret::ApiKey;
use super::server::{Security, ServerUrl};
use super::tls::{HandshakeFailure, Trust};

/// Longest body that we send, in bytes. Policies of a thousand rules have about 200 kB.
pub(super) const MAX_REQUEST: usize = 4 << 20;
/// Longest body that we read, in bytes. A node takes about 1.5 kB of the list.
pub(super) const MAX_REPLY: usize = 32 << 20;
/// Longest body of a refusal that we read, in bytes.
const MAX_REFUSAL: usize = 64 << 10;

const AGENT: &str = concat!("tsunaro-controller/", env!("CARGO_PKG_VERSION"));

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

type Io = TokioIo<Box<dyn Stream>>;
type Connection = http1::Connection<Io, Full<Bytes>>;

/// How long one try may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct TryLimits {
    /// For name resolution, TCP and TLS.
    pub(super) connect: Duration,
    /// From the first byte of the request to the last one of the answer.
    pub(super) answer: Duration,
}

/// A server, and what we need to talk to it.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) server: ServerUrl,
    pub(super) key: ApiKey,
    pub(super) trust: Trust,
}

impl Transport {
    /// One try: the body of an answer of success, or what went wrong.
    pub(super) async fn exchange(
        &self,
        endpoint: Endpoint,
        body: Bytes,
        limits: TryLimits,
    ) -> Result<Bytes, Error> {
        if body.len() > MAX_REQUEST {
            return Err(Error::TooLarge {
                at: self.at(endpoint),
                what: "the request",
                limit: MAX_REQUEST,
            });
        }
        let stream = self
            .in_time(
                endpoint,
                Phase::Connecting,
                limits.connect,
                self.connect(endpoint),
            )
            .await?;
        let asking = self.ask(endpoint, stream, body);
        self.in_time(endpoint, Phase::Answering, limits.answer, asking)
            .await
    }

    pub(super) fn at(&self, endpoint: Endpoint) -> At {
        At {
            server: self.server.shared(),
            request: endpoint.to_string(),
        }
    }

    pub(super) fn decode_error(&self, endpoint: Endpoint, detail: &str) -> Error {
        Error::Decode {
            at: self.at(endpoint),
            detail: self.clean(detail),
        }
    }

    fn clean(&self, text: &str) -> String {
        clean(text, self.key.secret())
    }

    async fn connect(&self, endpoint: Endpoint) -> Result<Box<dyn Stream>, Error> {
        let unavailable = |cause: String| self.unavailable(endpoint, Phase::Connecting, &cause);
        let host = self.server.host();
        let tcp = TcpStream::connect((host, self.server.port()))
            .await
            .map_err(|error| unavailable(error.to_string()))?;
        tcp.set_nodelay(true)
            .map_err(|error| unavailable(error.to_string()))?;
        if self.server.security() == Security::Plain {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| self.not_headscale(endpoint, &error.to_string()))?;
        match self.trust.connector().connect(name, tcp).await {
            Ok(tls) => Ok(Box::new(tls)),
            Err(error) => Err(match HandshakeFailure::from(&error) {
                HandshakeFailure::Untrusted(detail) => Error::Untrusted {
                    at: self.at(endpoint),
                    detail: self.clean(&detail),
                },
                HandshakeFailure::NotTls(detail) => {
                    self.not_headscale(endpoint, &format!("no TLS: {detail}"))
                }
                HandshakeFailure::Broken(detail) => unavailable(format!("TLS handshake: {detail}")),
            }),
        }
    }

    async fn ask(
        &self,
        endpoint: Endpoint,
        stream: Box<dyn Stream>,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        let request = self
            .request(endpoint, body)
            .map_err(|error| self.not_headscale(endpoint, &error.to_string()))?;
        let (mut sender, connection): (_, Connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.http_error(endpoint, &error))?;
        let mut connection = Box::pin(connection);
        let sending = sender.send_request(request);
        let response = drive(connection.as_mut(), sending)
            .await
            .map_err(|error| self.http_error(endpoint, &error))?;
        let (head, mut body) = Response::into_parts(response);
        if head.status.is_success() {
            if !is_json(&head.headers) {
                return Err(self.not_headscale(endpoint, "its answer is no JSON"));
            }
            let reading = read_body(&mut body, MAX_REPLY);
            return drive(connection.as_mut(), reading)
                .await
                .map_err(|failure| match failure {
                    BodyFailure::TooLarge => Error::TooLarge {
                        at: self.at(endpoint),
                        what: "the answer",
                        limit: MAX_REPLY,
                    },
                    BodyFailure::Http(error) => self.http_error(endpoint, &error),
                });
        }
        // What of a refusal's text gets lost does not change what its status says.
        let reading = read_body(&mut body, MAX_REFUSAL);
        let text = drive(connection.as_mut(), reading)
            .await
            .unwrap_or_default();
        let secret = self.key.secret();
        Err(refusal(
            self.at(endpoint),
            endpoint,
            head.status,
            &head.headers,
            &text,
            secret,
        ))
    }

    fn request(&self, endpoint: Endpoint, body: Bytes) -> http::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(endpoint.method())
            .uri(endpoint.path_and_query())
            .header(HOST, self.server.authority())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, AGENT)
            .header(CONNECTION, "close");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if endpoint.needs_key() {
            request = request.header(AUTHORIZATION, self.key.authorization());
        }
        request.body(Full::new(body))
    }

    async fn in_time<T>(
        &self,
        endpoint: Endpoint,
        phase: Phase,
        after: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(after, work).await.unwrap_or_else(|_| {
            Err(Error::Timeout {
                at: self.at(endpoint),
                phase,
                after,
            })
        })
    }

    /// What hyper says when the peer breaks the protocol is about the peer; the rest is about the
    /// connection.
    fn http_error(&self, endpoint: Endpoint, error: &hyper::Error) -> Error {
        let text = describe(error);
        if is_connection_failure(error) {
            return self.unavailable(endpoint, Phase::Answering, &text);
        }
        self.not_headscale(endpoint, &format!("its answer is no HTTP/1.1: {text}"))
    }

    fn unavailable(&self, endpoint: Endpoint, phase: Phase, cause: &str) -> Error {
        Error::Unavailable {
            at: self.at(endpoint),
            phase,
            cause: self.clean(cause),
            retry_after: None,
        }
    }

    fn not_headscale(&self, endpoint: Endpoint, detail: &str) -> Error {
        Error::NotHeadscale {
            at: self.at(endpoint),
            detail: self.clean(detail),
        }
    }
}

/// `application/json`, or `application/health+json` as of `/health`.
fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| {
            kind.split(';')
                .next()
                .is_some_and(|kind| kind.trim().ends_with("json"))
        })
}

/// Why a body is not there.
enum BodyFailure {
    TooLarge,
    Http(hyper::Error),
}

async fn read_body(body: &mut Incoming, limit: usize) -> Result<Bytes, BodyFailure> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(BodyFailure::Http)?;
        if let Some(data) = frame.data_ref() {
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
fn is_connection_failure(error: &hyper::Error) -> bool {
    error.is_incomplete_message()
        || error.is_canceled()
        || error.is_closed()
        || error.is_shutdown()
        || error.is_body_write_aborted()
        || std::error::Error::source(error).is_some_and(|source| source.is::<io::Error>())
}

/// hyper leaves its cause out of its text.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
