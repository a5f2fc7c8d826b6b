//! Carries handovers out: those that a Pod's end or a person asks for, and those that an earlier
//! controller left behind. All run in one task, each beside the others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use kube::runtime::events::{Event, EventType};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tsunaro_model::report::Phase;

use super::request::{Answer, Request, answer, open};
use super::{Move, Outcome, Record, begin, next, record};
use crate::cluster::Context;
use crate::cluster::failure::words;
use crate::crd::TailnetGateway;
use crate::headscale::{Headscale, NodeCache, NodeId};
use crate::metrics;
use crate::reconcile::Agent;

/// Between two looks at Headscale while a prefix moves, which takes 0.7 s.
const LOOK: Duration = Duration::from_millis(150);
/// What is not begun by then is not begun any more: the router is gone.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// Orders that may wait.
const ORDERS: usize = 256;

/// Handovers of all tailnets.
#[derive(Debug, Clone)]
pub struct Handovers {
    orders: mpsc::Sender<Order>,
    under_way: Arc<Mutex<BTreeSet<(String, NodeId)>>>,
}

/// A handover that somebody wants.
#[derive(Debug, Clone)]
pub struct Order {
    tailnet: String,
    gateway: Option<String>,
    node: Wanted,
    /// The request's ConfigMap, to be answered.
    request: Option<String>,
}

#[derive(Debug, Clone)]
enum Wanted {
    Id(NodeId),
    /// By a record that nobody works on.
    Left(NodeId),
    Name(String),
}

impl Handovers {
    /// None yet, and the orders for [`drive`].
    pub fn new() -> (Self, mpsc::Receiver<Order>) {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let under_way = Arc::default();
        (Self { orders, under_way }, receiver)
    }

    /// The nodes of a tailnet whose approvals are being moved by this process.
    pub(super) fn under_way(&self, tailnet: &str) -> BTreeSet<NodeId> {
        self.lock()
            .iter()
            .filter(|(of, _)| of == tailnet)
            .map(|(_, node)| *node)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(String, NodeId)>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Orders a handover of a gateway whose Pod is ending, once for each Pod.
pub fn notice(context: &Context, object: &TailnetGateway) {
    let name = object.name_any();
    let reference = ObjectRef::new(&format!("{name}-0")).within(&context.settings.namespace);
    let Some(pod) = context.stores.pods.get(&reference) else {
        return;
    };
    let leaving = match context.agents.heard(&name) {
        Some(Agent::Reported(report)) => report.phase == Phase::Leaving,
        _ => false,
    };
    let ending = pod.metadata.deletion_timestamp.is_some() || leaving;
    let node = object
        .status
        .as_ref()
        .and_then(|status| status.node_id.as_ref()?.parse().ok());
    let Some(node) = node.filter(|_| ending && !object.spec.suspend) else {
        return;
    };
    {
        let mut known = context.known();
        let known = known.entry(object.uid().unwrap_or_default()).or_default();
        if known.handed_over == pod.metadata.uid {
            return;
        }
        known.handed_over.clone_from(&pod.metadata.uid);
    }
    tracing::info!(gateway = %name, %node, "Its Pod is ending: handing over");
    let order = Order {
        tailnet: object.spec.tailnet_ref.name.clone(),
        gateway: Some(name),
        node: Wanted::Id(node),
        request: None,
    };
    if context.handovers.orders.try_send(order).is_err() {
        tracing::warn!("Too many handovers wait; this one is left to Headscale");
    }
}

/// Carries out what is ordered, for ever.
///
/// # Errors
/// Never.
pub async fn drive(
    context: Arc<Context>,
    orders: Arc<tokio::sync::Mutex<mpsc::Receiver<Order>>>,
) -> anyhow::Result<()> {
    let mut orders = orders.lock().await;
    let mut running = FuturesUnordered::new();
    let mut taken_up = BTreeSet::new();
    // What an earlier life of this process had under way ended with it.
    context.handovers.lock().clear();
    loop {
        for order in left_or_requested(&context, &mut taken_up).await {
            running.push(one(Arc::clone(&context), order));
        }
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => running.push(one(Arc::clone(&context), order)),
                None => anyhow::bail!("nobody can order a handover any more"),
            },
            () = context.hub.handover_noticed() => {}
            Some(gateway) = running.next() => {
                if let Some(gateway) = gateway {
                    context.trigger.gateway(&gateway).await;
                }
            }
        }
    }
}

/// Records without a handover, and requests that nobody has taken up.
async fn left_or_requested(context: &Context, taken_up: &mut BTreeSet<String>) -> Vec<Order> {
    let mut orders = Vec::new();
    for record in record::known(context) {
        let Record {
            tailnet,
            gateway,
            node,
            ..
        } = record;
        if !context.handovers.lock().contains(&(tailnet.clone(), node)) {
            orders.push(Order {
                tailnet,
                gateway,
                node: Wanted::Left(node),
                request: None,
            });
        }
    }
    for (name, request) in open(context) {
        if !taken_up.insert(name.clone()) {
            continue;
        }
        match wanted(context, &name, request) {
            Ok(order) => orders.push(order),
            Err(why) => answer(context, &name, &Answer::Refused(why)).await,
        }
    }
    orders
}

fn wanted(context: &Context, name: &str, request: Option<Request>) -> Result<Order, String> {
    let request_name = Some(name.to_owned());
    match request {
        None => {
            Err("the request cannot be read: is tsunaro-controller of the same version?".to_owned())
        }
        Some(Request::Node { tailnet, name }) => Ok(Order {
            tailnet,
            gateway: None,
            node: Wanted::Name(name),
            request: request_name,
        }),
        Some(Request::Gateway(gateway)) => {
            let object = context.stores.gateways.get(&ObjectRef::new(&gateway));
            let object = object.ok_or_else(|| format!("there is no TailnetGateway {gateway}"))?;
            let status = object.status.clone().unwrap_or_default();
            let node = status.node_id.and_then(|id| id.parse().ok());
            Ok(Order {
                tailnet: object.spec.tailnet_ref.name.clone(),
                node: Wanted::Id(node.ok_or_else(|| format!("{gateway} has no node yet"))?),
                gateway: Some(gateway),
                request: request_name,
            })
        }
    }
}

/// One handover to its end; gives the gateway's name.
async fn one(context: Arc<Context>, order: Order) -> Option<String> {
    let mut place = None;
    let result = carry_out(&context, &order, &mut place).await;
    if let Some(place) = place {
        context.handovers.lock().remove(&place);
    }
    let told = match result {
        Ok(done) => done,
        Err(why) => {
            tracing::warn!(tailnet = %order.tailnet, error = %why, "No handover");
            Answer::Refused(why)
        }
    };
    if let Some(request) = &order.request {
        answer(&context, request, &told).await;
    }
    order.gateway
}

async fn carry_out(
    context: &Context,
    order: &Order,
    place: &mut Option<(String, NodeId)>,
) -> Result<Answer, String> {
    let began = Instant::now();
    let begun = timeout(BEGIN_WITHIN, async {
        loop {
            match begin_or_resume(context, order, place).await {
                Ok(begun) => return Ok(begun),
                Err(Trouble::Ours(why)) => return Err(why),
                Err(Trouble::Passing(why)) => {
                    tracing::debug!(tailnet = %order.tailnet, %why, "A handover waits");
                    sleep(LOOK * 2).await;
                }
            }
        }
    });
    let begun = begun.await.map_err(|_| {
        let seconds = BEGIN_WITHIN.as_secs();
        format!("neither Headscale nor the API server let it begin within {seconds} s")
    })??;
    let (record, server) = match begun {
        Begun::Over => return Ok(Answer::Refused("it is over".to_owned())),
        Begun::Nothing { node, kept } => {
            let outcome = Outcome {
                kept,
                ..Outcome::default()
            };
            tracing::info!(%node, "{}", outcome.sentence());
            count(context, &outcome, None);
            return Ok(Answer::Done {
                node,
                outcome,
                took_ms: 0,
            });
        }
        Begun::Recorded(record, server) => (record, server),
    };
    let outcome = to_the_end(context, &record, &server).await;
    let took = began.elapsed();
    count(context, &outcome, Some(took));
    announce(context, &record, &outcome, took).await;
    Ok(Answer::Done {
        node: record.who(),
        outcome,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}

enum Begun {
    Over,
    Nothing {
        node: String,
        kept: BTreeSet<ipnet::IpNet>,
    },
    Recorded(Record, Arc<NodeCache>),
}

enum Trouble {
    /// Trying again does not help.
    Ours(String),
    Passing(String),
}

async fn begin_or_resume(
    context: &Context,
    order: &Order,
    place: &mut Option<(String, NodeId)>,
) -> Result<Begun, Trouble> {
    let tailnet = &order.tailnet;
    if context
        .stores
        .tailnets
        .get(&ObjectRef::new(tailnet))
        .is_none()
    {
        return Err(Trouble::Ours(format!("there is no Tailnet {tailnet}")));
    }
    let view = context.hub.view(tailnet);
    let view = view.ok_or_else(|| Trouble::Passing("the tailnet was not asked yet".to_owned()))?;
    let server = view.server.clone().map_err(Trouble::Passing)?;
    let passing = |why: String| Trouble::Passing(why);
    let nodes = server
        .source()
        .nodes()
        .await
        .map_err(|error| passing(error.to_string()))?;
    let node = match &order.node {
        Wanted::Id(id) | Wanted::Left(id) => nodes.get(*id),
        Wanted::Name(name) => nodes
            .iter()
            .find(|node| node.given_name.eq_ignore_ascii_case(name)),
    };
    let id = match (&order.node, node) {
        (_, Some(node)) => node.id,
        (Wanted::Id(id) | Wanted::Left(id), None) => *id,
        (Wanted::Name(name), None) => {
            return Err(Trouble::Ours(format!("Headscale has no node {name}")));
        }
    };
    if place.is_none() {
        let mine = (tailnet.clone(), id);
        if !context.handovers.lock().insert(mine.clone()) {
            let why = format!("node {id} is being handed over already");
            return Err(match order.request {
                // Its answer is what is then.
                Some(_) => Trouble::Passing(why),
                None => Trouble::Ours(why),
            });
        }
        *place = Some(mine);
    }
    let found = record::find(context, tailnet, id).await.map_err(passing)?;
    if let Wanted::Left(_) = order.node {
        let Some(record) = found else {
            // It ended, and the watch had not heard.
            return Ok(Begun::Over);
        };
        tracing::info!(node = %record.who(), "An earlier controller left this handover on its way");
        return Ok(Begun::Recorded(record, server));
    }
    if let Some(record) = found {
        return Ok(Begun::Recorded(record, server));
    }
    let Some(node) = node else {
        return Err(Trouble::Ours(format!("Headscale has no node {id}")));
    };
    match begin(
        tailnet,
        order.gateway.as_deref(),
        node,
        &nodes,
        Timestamp::now(),
    ) {
        Err(kept) => Ok(Begun::Nothing {
            node: format!("{} (id {id})", node.given_name),
            kept,
        }),
        Ok(record) => {
            record::write(context, &record).await.map_err(passing)?;
            Ok(Begun::Recorded(record, server))
        }
    }
}

/// Until the approvals are as they were and the record is gone, however long that takes.
async fn to_the_end(context: &Context, record: &Record, server: &NodeCache) -> Outcome {
    let pauses = || {
        ExponentialBuilder::default()
            .with_min_delay(LOOK)
            .with_max_delay(Duration::from_secs(10))
            .without_max_times()
            .with_jitter()
            .build()
    };
    let mut pause = pauses();
    let mut told = false;
    loop {
        match turn(context, record, server.source()).await {
            Ok(Some(outcome)) => {
                server.invalidate();
                return outcome;
            }
            Ok(None) => {
                pause = pauses();
                sleep(LOOK).await;
            }
            Err(why) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(node = %record.who(), error = %why, "A handover cannot go on; this is tried again");
                }
                sleep(pause.next().unwrap_or(LOOK)).await;
            }
        }
    }
}

async fn turn(
    context: &Context,
    record: &Record,
    server: &Headscale,
) -> Result<Option<Outcome>, String> {
    let nodes = server.nodes().await.map_err(|error| error.to_string())?;
    match next(record, &nodes, Timestamp::now()) {
        Move::Wait => Ok(None),
        Move::Approve(routes) => {
            match server.approve_routes(record.node, &routes).await {
                Err(error) if !error.is_not_found() => return Err(error.to_string()),
                _ => {}
            }
            tracing::info!(node = %record.who(), approved = routes.len(), "Changed the approvals for a handover");
            Ok(None)
        }
        Move::End(outcome) => {
            record::delete(context, record).await?;
            Ok(Some(outcome))
        }
    }
}

fn count(context: &Context, outcome: &Outcome, took: Option<Duration>) {
    let label = metrics::Outcome {
        outcome: outcome.label(),
    };
    context.metrics.handovers.get_or_create(&label).inc();
    if let Some(took) = took {
        context
            .metrics
            .handover_duration
            .observe(took.as_secs_f64());
    }
}

async fn announce(context: &Context, record: &Record, outcome: &Outcome, took: Duration) {
    let text = format!(
        "handed over node {}: {}, in {:.1} s",
        record.who(),
        outcome.sentence(),
        took.as_secs_f64()
    );
    tracing::info!(gateway = record.gateway, "{text}");
    let event = Event {
        type_: if outcome.moved.is_empty() {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: "HandedOver".to_owned(),
        note: Some(text.chars().take(1024).collect()),
        action: "HandOver".to_owned(),
        secondary: None,
    };
    let gateway = record
        .gateway
        .as_ref()
        .and_then(|name| context.stores.gateways.get(&ObjectRef::new(name)));
    let tailnet = context
        .stores
        .tailnets
        .get(&ObjectRef::new(&record.tailnet));
    let about = match (&gateway, &tailnet) {
        (Some(gateway), _) => gateway.object_ref(&()),
        (None, Some(tailnet)) => tailnet.object_ref(&()),
        (None, None) => return,
    };
    if let Err(error) = context.recorder.publish(&event, &about).await {
        tracing::warn!(error = %words(&error), "An event could not be written");
    }
}
