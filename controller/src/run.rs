//! `run`: everything put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use futures::StreamExt;
use kube::runtime::applier;
use kube::runtime::controller::Config;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::ObjectRef;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::ReceiverStream;

use crate::cluster::bounded;
use crate::cluster::failure::{self, chain};
use crate::cluster::{
    Agents, Context, Hub, Settings, Stores, Trigger, on_error, pass, tailnet_rounds,
};
use crate::crd::TailnetGateway;
use crate::metrics::Metrics;
use crate::reconcile::marks::MANAGER;
use crate::tasks::Tasks;

/// Requests for passes that may wait.
const QUEUE: usize = 1024;
/// How long the first lists may take before a line says that they are waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
/// Passes at once.
const CONCURRENCY: u16 = 8;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// No way to the API server is configured, the HTTP port is taken, or a task ended.
pub async fn run(settings: Settings, listen: std::net::SocketAddr) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let client = connect()
        .await
        .map_err(|error| anyhow::anyhow!(chain(&error)))
        .context("no way to the API server: run in a Pod, or set KUBECONFIG")?;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let metrics = Metrics::new();
    let ready = Arc::new(AtomicBool::new(false));
    let mut tasks = Tasks::default();
    tasks.start("HTTP", serve(listener, metrics.clone(), Arc::clone(&ready)));

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
    tracing::info!(namespace = %settings.namespace, "Started");
    let context = Arc::new(Context::new(
        client, settings, stores, hub, agents, recorder, metrics, trigger,
    ));
    tasks.start("passes", passes(context, queue, ready));
    let ended = tokio::select! {
        error = tasks.ended() => Err(error),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    tasks.stop().await;
    tracing::info!("Stopped");
    ended
}

async fn connect() -> kube::Result<kube::Client> {
    let config = kube::Config::infer()
        .await
        .map_err(kube::Error::InferConfig)?;
    failure::keep_secret(&config);
    bounded::client(config)
}

async fn passes(
    context: Arc<Context>,
    queue: tokio::sync::mpsc::Receiver<ObjectRef<TailnetGateway>>,
    ready: Arc<AtomicBool>,
) -> Result<()> {
    {
        let mut filled = std::pin::pin!(context.stores.filled());
        tokio::select! {
            done = &mut filled => done?,
            () = tokio::time::sleep(PATIENCE) => {
                tracing::warn!("The API server has not told everything yet; nothing is done before it has");
                filled.await?;
            }
        }
    }
    ready.store(true, Ordering::Release);
    tracing::info!("Everything is known");
    let store = context.stores.gateways.clone();
    let queue = ReceiverStream::new(queue).map(Ok::<_, std::convert::Infallible>);
    let config = Config::default().concurrency(CONCURRENCY);
    let passes = applier(
        |object, context| Box::pin(pass(object, context)),
        on_error,
        Arc::clone(&context),
        store.clone(),
        queue,
        config,
    );
    let mut passes = std::pin::pin!(passes);
    let all = async {
        while passes.next().await.is_some() {
            let gateways = i64::try_from(store.len()).unwrap_or(i64::MAX);
            context.metrics.gateways.set(gateways);
        }
        anyhow::bail!("the queue ended")
    };
    // A store wakes one waiter only, so that the two wait as one.
    tokio::select! {
        ended = all => ended,
        ended = tailnet_rounds(Arc::clone(&context)) => ended,
    }
}

async fn serve(listener: TcpListener, metrics: Metrics, ready: Arc<AtomicBool>) -> Result<()> {
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
        let ready = ready.load(Ordering::Acquire);
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
