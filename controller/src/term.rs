//! The work of a term: all that only one controller at a time may do. It begins when the lease is
//! ours, with nothing remembered that another may have changed, and ends when it is not.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use kube::ResourceExt;
use kube::runtime::applier;
use kube::runtime::controller::Config;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::{Mutex, mpsc, watch};

use crate::cluster::{Context, on_error, pass, tailnet_rounds};
use crate::crd::TailnetGateway;
use crate::handover::{self, Order};
use crate::lease::Term;

/// How long the first lists may take before a line says that they are waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Passes at once.
const CONCURRENCY: u16 = 8;

/// What wants to be done, in whichever term.
pub struct Queues {
    /// Gateways to look at.
    pub passes: Arc<Mutex<mpsc::Receiver<ObjectRef<TailnetGateway>>>>,
    /// Handovers.
    pub orders: Arc<Mutex<mpsc::Receiver<Order>>>,
}

/// Works whenever `term` says so. `grace` is what a step may take that is under way when it ends;
/// `known` is told when all stores are filled, which kube tells to one who waits only.
///
/// # Errors
/// A part of the work ended.
pub async fn terms(
    context: Arc<Context>,
    queues: Queues,
    mut term: watch::Receiver<Term>,
    grace: Duration,
    known: watch::Sender<bool>,
) -> Result<()> {
    filled(&context).await?;
    known.send_replace(true);
    tracing::info!("Everything is known");
    loop {
        follow(&queues, &mut term).await?;
        tracing::info!("Working");
        context.metrics.leading.set(1);
        context.begin_term(term.clone());
        let mut work = std::pin::pin!(work(&context, &queues));
        tokio::select! {
            ended = &mut work => return ended,
            ended = term.wait_for(|term| *term == Term::Follows) => drop(ended?),
        }
        context.metrics.leading.set(0);
        context.metrics.forget();
        // No step is begun any more; one that is under way may end.
        context.end_term();
        let _ = tokio::time::timeout(grace, work).await;
        tracing::warn!("The lease is lost: not working");
    }
}

async fn filled(context: &Context) -> Result<()> {
    let mut filled = std::pin::pin!(context.stores.filled());
    tokio::select! {
        done = &mut filled => done,
        () = tokio::time::sleep(PATIENCE) => {
            tracing::warn!("The API server has not told everything yet; nothing is done before it has");
            filled.await
        }
    }
}

/// Until it is our turn, what is wanted is another's to do.
async fn follow(queues: &Queues, term: &mut watch::Receiver<Term>) -> Result<()> {
    let leads = |term: &Term| term.holds(tokio::time::Instant::now());
    let mut passes = queues.passes.lock().await;
    let mut orders = queues.orders.lock().await;
    loop {
        tokio::select! {
            ours = term.wait_for(leads) => {
                ours?;
                return Ok(());
            }
            Some(_) = passes.recv() => {}
            Some(_) = orders.recv() => {}
        }
    }
}

async fn work(context: &Arc<Context>, queues: &Queues) -> Result<()> {
    let store = context.stores.gateways.clone();
    let mut queue = Arc::clone(&queues.passes).lock_owned().await;
    let queue = futures::stream::poll_fn(move |cx| queue.poll_recv(cx))
        .map(Ok::<_, std::convert::Infallible>);
    let config = Config::default().concurrency(CONCURRENCY);
    let passes = applier(
        |object, context| Box::pin(pass(object, context)),
        on_error,
        Arc::clone(context),
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
    let first = async {
        for gateway in store.state() {
            context.trigger.gateway(&gateway.name_any()).await;
        }
        std::future::pending::<Result<()>>().await
    };
    tokio::select! {
        ended = all => ended,
        ended = first => ended,
        ended = tailnet_rounds(Arc::clone(context)) => ended,
        ended = handover::drive(Arc::clone(context), Arc::clone(&queues.orders)) => ended,
    }
}
