//! Probes, status and metrics over HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, RawQuery, State};
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::wrappers::WatchStream;
use tsunaro_dns::server::connections::{Admission, Connections, Slot};
use tsunaro_model::report::StatusReport;

use crate::heartbeat::Heartbeat;
use crate::metrics::Metrics;

/// Whether the Pod should get queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// All sockets are bound and a good zone is loaded.
    Ready,
    /// Not, for this reason.
    NotReady(String),
}

/// What the handlers read.
#[derive(Clone)]
pub(crate) struct Surface {
    /// For `/readyz`.
    pub(crate) readiness: watch::Receiver<Readiness>,
    /// For `/status`.
    pub(crate) report: watch::Receiver<Arc<StatusReport>>,
    /// For `/livez`.
    pub(crate) heartbeat: Heartbeat,
    /// For `/metrics`.
    pub(crate) metrics: Arc<Metrics>,
}

/// Connections at once. For one more, that one goes whose last request, line of a stream, or beginning is
/// longest ago: no crowd of slow clients keeps a probe away, or a watcher for longer than it takes to
/// come back.
const MAX_CONNECTIONS: usize = 256;

/// How long a client may take to send a request's head, also between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// After the system refused a connection (no file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is cancelled. All connections are driven by this one future.
///
/// # Errors
/// Never; a connection that fails ends alone.
pub(crate) async fn serve(listener: TcpListener, surface: Surface) -> anyhow::Result<()> {
    accept(listener, router(surface)).await
}

async fn accept(listener: TcpListener, router: Router) -> anyhow::Result<()> {
    let service = TowerToHyperService::new(router);
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    let connections = Connections::new(MAX_CONNECTIONS, None);
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => match connections.admit(client.ip(), Instant::now()) {
                    Admission::Free(slot) | Admission::Evicting(slot) => {
                        open.push(connection(stream, slot, &builder, service.clone()));
                    }
                    Admission::Refused => tracing::debug!("An HTTP connection found no room"),
                },
                Err(error) => {
                    tracing::debug!(%error, "An HTTP connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(()) = open.next() => {}
        }
    }
}

async fn connection(
    stream: TcpStream,
    slot: Slot,
    builder: &hyper::server::conn::http1::Builder,
    service: TowerToHyperService<Router>,
) {
    let slot = Arc::new(slot);
    let asked = Arc::clone(&slot);
    let served = builder.serve_connection(
        TokioIo::new(stream),
        service_fn(move |mut request: Request<Incoming>| {
            asked.idle(Instant::now());
            request.extensions_mut().insert(Arc::clone(&asked));
            service.call(request)
        }),
    );
    tokio::select! {
        _ended = served => {}
        () = slot.evicted() => {}
    }
}

fn router(surface: Surface) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .route("/metrics", get(metrics))
        .with_state(surface)
}

async fn livez(State(surface): State<Surface>) -> Response {
    if surface.heartbeat.is_fresh() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the main loop has not ticked lately\n",
        )
            .into_response()
    }
}

async fn readyz(State(surface): State<Surface>) -> Response {
    match &*surface.readiness.borrow() {
        Readiness::Ready => (StatusCode::OK, "ok\n").into_response(),
        Readiness::NotReady(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
        }
    }
}

async fn status(
    State(surface): State<Surface>,
    Extension(slot): Extension<Arc<Slot>>,
    RawQuery(query): RawQuery,
) -> Response {
    let watch = query.is_some_and(|query| {
        query
            .split('&')
            .any(|part| part == "watch" || part.starts_with("watch="))
    });
    if watch {
        let lines = WatchStream::new(surface.report).map(move |report| {
            slot.idle(Instant::now());
            json(&report).map(Ok::<_, Infallible>)
        });
        let body = Body::from_stream(lines.filter_map(|line| async { line }));
        return ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response();
    }
    let report = Arc::clone(&surface.report.borrow());
    match json(&report) {
        Some(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// One line of JSON.
fn json(report: &StatusReport) -> Option<Bytes> {
    let mut line = serde_json::to_vec(report).ok()?;
    line.push(b'\n');
    Some(line.into())
}

async fn metrics(State(surface): State<Surface>) -> Response {
    let report = Arc::clone(&surface.report.borrow());
    match surface.metrics.encode(&report) {
        Ok(text) => (
            [(
                header::CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests;
