//! Carries handovers out: those that a Pod's end or a person asks for, and those that an earlier
//! controller left behind. All run in one task, each beside the others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::{Event, EventType};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tsunaro_model::report::Phase;

use super::request::{Answer, Open, Request, answer, open};
use super::{Move, Outcome, Record, begin, next, record};
use crate::cluster::failure::words;
use crate::cluster::{Context, note};
use crate::crd::TailnetGateway;
use crate::headscale::{NodeCache, NodeId};
use crate::metrics;
use crate::reconcile::Agent;

/// Between two looks at Headscale while a prefix moves, which takes 0.7 s.
const LOOK: Duration = Duration::from_millis(150);
/// What is not begun by then is not begun any more: the router is gone.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// Before a record is taken up again that could not be carried on.
const TAKE_UP_AGAIN: Duration = Duration::from_secs(10);
/// The watch tells within milliseconds that a record is gone.
const WATCH_LAG: Duration = Duration::from_secs(1);
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
    /// By a record that nobody works on; its place is taken with the order.
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

/// Orders a handover of a gateway whose Pod is ending, once each time it does.
pub fn notice(context: &Context, object: &TailnetGateway) {
    let name = object.name_any();
    let reference = ObjectRef::new(&format!("{name}-0")).within(&context.settings.namespace);
    let Some(pod) = context.stores.pods.get(&reference) else {
        return;
    };
    let ending = is_ending(context, object, &pod);
    {
        let mut known = context.known();
        let known = known.entry(object.uid().unwrap_or_default()).or_default();
        if !ending {
            // Its agent may have left once and stayed: it may leave again.
            if says(context, &name, Phase::Serving) {
                known.handed_over = None;
            }
            return;
        }
        if object.spec.suspend || known.handed_over == pod.metadata.uid {
            return;
        }
        if node_of(object).is_some() {
            known.handed_over.clone_from(&pod.metadata.uid);
        }
    }
    let Some(node) = node_of(object) else {
        return;
    };
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

fn node_of(object: &TailnetGateway) -> Option<NodeId> {
    object.status.as_ref()?.node_id.as_ref()?.parse().ok()
}

fn says(context: &Context, gateway: &str, phase: Phase) -> bool {
    matches!(context.agents.heard(gateway), Some(Agent::Reported(report)) if report.phase == phase)
}

fn is_ending(context: &Context, object: &TailnetGateway, pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || says(context, &object.name_any(), Phase::Leaving)
}

/// Nodes of gateways that are about to stop: nothing is handed over to them.
fn leaving(context: &Context, tailnet: &str) -> BTreeSet<NodeId> {
    let gateways = context.stores.gateways_of(tailnet);
    let ending = gateways.iter().filter(|object| {
        let reference = ObjectRef::new(&format!("{}-0", object.name_any()));
        let pod = context
            .stores
            .pods
            .get(&reference.within(&context.settings.namespace));
        pod.is_some_and(|pod| is_ending(context, object, &pod))
    });
    ending.filter_map(|object| node_of(object)).collect()
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
        if context.handovers.lock().insert((tailnet.clone(), node)) {
            orders.push(Order {
                tailnet,
                gateway,
                node: Wanted::Left(node),
                request: None,
            });
        }
    }
    for Open {
        name,
        request,
        late,
    } in open(context)
    {
        if !taken_up.insert(name.clone()) {
            continue;
        }
        if late {
            let why = "nobody was there while its asker waited; ask again".to_owned();
            answer(context, &name, &Answer::Refused(why)).await;
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
    let mut place = match order.node {
        Wanted::Left(node) => Some((order.tailnet.clone(), node)),
        Wanted::Id(_) | Wanted::Name(_) => None,
    };
    let result = carry_out(&context, &order, &mut place).await;
    if let Wanted::Left(_) = order.node {
        match &result {
            Ok(Answer::Done { .. }) => {}
            // As long as the record is known, giving its place up is ordering it again.
            Ok(Answer::Refused(_)) => sleep(WATCH_LAG).await,
            Err(_) => sleep(TAKE_UP_AGAIN).await,
        }
    }
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
    let mut waits_for = "no answer".to_owned();
    let begun = timeout(BEGIN_WITHIN, async {
        loop {
            match begin_or_resume(context, order, place).await {
                Ok(begun) => return Ok(begun),
                Err(Trouble::Ours(why)) => return Err(why),
                Err(Trouble::Passing(why)) => {
                    tracing::debug!(tailnet = %order.tailnet, %why, "A handover waits");
                    waits_for = why;
                    sleep(LOOK * 2).await;
                }
            }
        }
    });
    let begun = begun.await;
    let begun = begun.map_err(|_| {
        let seconds = BEGIN_WITHIN.as_secs();
        format!("it could not begin within {seconds} s: {waits_for}")
    })??;
    let record = match begun {
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
        Begun::Recorded(record) => record,
    };
    let outcome = to_the_end(context, &record).await;
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
    Recorded(Record),
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
    let server = server(context, tailnet).map_err(Trouble::Passing)?;
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
            return Err(Trouble::Passing(why));
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
        return Ok(Begun::Recorded(record));
    }
    if let Some(record) = found {
        return Ok(Begun::Recorded(record));
    }
    let Some(node) = node else {
        return Err(Trouble::Ours(format!("Headscale has no node {id}")));
    };
    match begin(
        tailnet,
        order.gateway.as_deref(),
        node,
        &nodes,
        &leaving(context, tailnet),
        Timestamp::now(),
    ) {
        Err(kept) => Ok(Begun::Nothing {
            node: format!("{} (id {id})", node.given_name),
            kept,
        }),
        Ok(record) => {
            record::write(context, &record).await.map_err(passing)?;
            Ok(Begun::Recorded(record))
        }
    }
}

/// The tailnet's Headscale, with the address and the key that the Tailnet names now.
fn server(context: &Context, tailnet: &str) -> Result<Arc<NodeCache>, String> {
    let view = context.hub.view(tailnet);
    let view = view.ok_or_else(|| "the tailnet was not asked yet".to_owned())?;
    view.server.clone()
}

/// Until the approvals are as they were and the record is gone, however long that takes.
async fn to_the_end(context: &Context, record: &Record) -> Outcome {
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
        match turn(context, record).await {
            Ok(Some(outcome)) => return outcome,
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

async fn turn(context: &Context, record: &Record) -> Result<Option<Outcome>, String> {
    let cache = server(context, &record.tailnet)?;
    let server = cache.source();
    let nodes = server.nodes().await.map_err(|error| error.to_string())?;
    let leaving = leaving(context, &record.tailnet);
    match next(record, &nodes, &leaving, Timestamp::now()) {
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
            cache.invalidate();
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
        note: Some(note(&text)),
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
