//! `run`: everything put together.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use kube::config::{InferConfigError, KubeconfigError};
use kube::runtime::events::{Recorder, Reporter};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, watch};

use crate::cluster::bounded;
use crate::cluster::failure::{self, chain};
use crate::cluster::{Agents, Context, Hub, Settings, Stores, Trigger};
use crate::handover::Handovers;
use crate::lease::{Keeper, Limits, Term, give_back};
use crate::metrics::Metrics;
use crate::reconcile::marks::MANAGER;
use crate::tasks::Tasks;
use crate::term::{Queues, terms};

/// Requests for passes that may wait.
const QUEUE: usize = 1024;

/// Who of several controllers works.
#[derive(Debug, Clone)]
pub enum Election {
    /// This one, which is alone.
    Alone,
    /// Who holds the lease.
    Lease {
        /// Its name.
        name: String,
        /// How long it is good for.
        limits: Limits,
    },
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// No way to the API server is configured, the HTTP port is taken, or a task ended.
pub async fn run(
    settings: Settings,
    listen: std::net::SocketAddr,
    election: Election,
) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let client = connect().await?;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let metrics = Metrics::new();
    let (filled, ready) = watch::channel(false);
    let mut tasks = Tasks::default();
    tasks.start("HTTP", serve(listener, metrics.clone(), ready.clone()));

    let (stores, watches) = Stores::new();
    let (trigger, queue) = Trigger::new(QUEUE);
    let hub = Hub::default();
    let (agents, orders) = Agents::new();
    let reporter = Reporter {
        controller: MANAGER.to_owned(),
        instance: None,
    };
    let recorder = Recorder::new(client.clone(), reporter);
    watches.start(
        &mut tasks,
        &client,
        &settings.namespace,
        &stores,
        &trigger,
        &hub,
    );
    tasks.start("agents", agents.clone().drive(orders, trigger.clone()));
    let (handovers, orders) = Handovers::new();
    let me = identity();
    let namespace = settings.namespace.clone();
    let (term, grace, alone) = match &election {
        // The sender lives as long as the process: a term without end.
        Election::Alone => {
            let (alone, term) = watch::channel(Term::Leads { until: None });
            (term, std::time::Duration::ZERO, Some(alone))
        }
        Election::Lease { name, limits } => {
            let (name, limits) = (name.clone(), *limits);
            let (keeper, term) = Keeper::new(client.clone(), &namespace, name, me.clone(), limits);
            tasks.start("lease", keeper.run(ready));
            let grace = (limits.duration - limits.renew_deadline) / 2;
            (term, grace, None)
        }
    };
    tracing::info!(%namespace, %me, "Started");
    let context = Arc::new(Context::new(
        client.clone(),
        settings,
        stores,
        hub,
        agents,
        recorder,
        metrics,
        trigger,
        handovers,
    ));
    let queues = Queues {
        passes: Arc::new(Mutex::new(queue)),
        orders: Arc::new(Mutex::new(orders)),
    };
    tasks.start("work", terms(context, queues, term, grace, filled));
    let ended = tokio::select! {
        error = tasks.ended() => Err(error),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    tasks.stop().await;
    if let Election::Lease { name, .. } = &election {
        give_back(client, &namespace, name, &me).await;
    }
    drop(alone);
    tracing::info!("Stopped");
    ended
}

/// The Pod's name, or the machine's, and something that no other process has.
fn identity() -> String {
    let host = std::env::var("HOSTNAME")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"))
        .unwrap_or_default();
    let now = jiff::Timestamp::now().as_nanosecond();
    let digest =
        crate::reconcile::digest(&serde_json::json!([std::process::id(), now.to_string()]));
    let digest = digest.get(..8).unwrap_or_default();
    format!("{}_{digest}", host.trim())
}

/// A client of the API server, as a Pod or by KUBECONFIG, with answers of bounded size.
///
/// # Errors
/// Neither is there, or they are not valid. No error repeats what a kubeconfig has in it.
pub async fn connect() -> Result<kube::Client> {
    let no_way = "no way to the API server: run in a Pod, or set KUBECONFIG";
    let config = kube::Config::infer()
        .await
        .map_err(|error| anyhow::anyhow!(without_content(&error)))
        .context(no_way)?;
    failure::keep_secret(&config);
    bounded::client(config)
        .map_err(|error| anyhow::anyhow!(chain(&error)))
        .context(no_way)
}

/// The parser shows the lines around a fault, and in a kubeconfig these may be tokens.
fn without_content(error: &InferConfigError) -> String {
    let cause = std::error::Error::source(error).and_then(|it| it.downcast_ref());
    match cause {
        Some(KubeconfigError::Parse(_)) => {
            "the file of KUBECONFIG is no kubeconfig: see where (kubectl config view)".to_owned()
        }
        _ => chain(error),
    }
}

async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    ready: watch::Receiver<bool>,
) -> Result<()> {
    let text = move || {
        let text = metrics.text();
        async move {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            match text {
                Ok(text) => ([("content-type", kind)], text).into_response(),
                Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
    };
    let is_ready = move || {
        let ready = *ready.borrow();
        async move {
            if ready {
                (StatusCode::OK, "ok\n")
            } else {
                (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "not everything is known yet; see the log\n",
                )
            }
        }
    };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(is_ready))
        .route("/metrics", get(text));
    axum::serve(listener, router)
        .await
        .context("the HTTP side ended")
}
