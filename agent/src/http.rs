//! Probes, status and metrics over HTTP.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
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

/// Serves until it is cancelled.
///
/// # Errors
/// When the listener fails.
pub(crate) async fn serve(listener: TcpListener, surface: Surface) -> anyhow::Result<()> {
    axum::serve(listener, router(surface)).await?;
    Ok(())
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

async fn status(State(surface): State<Surface>, RawQuery(query): RawQuery) -> Response {
    let watch = query.is_some_and(|query| {
        query
            .split('&')
            .any(|part| part == "watch" || part.starts_with("watch="))
    });
    if watch {
        let lines =
            WatchStream::new(surface.report).map(|report| json(&report).map(Ok::<_, Infallible>));
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
