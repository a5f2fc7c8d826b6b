//! Carries handovers out: those that a Pod's end or a person asks for, and those that an earlier
//! controller left behind. All run in one task, each beside the others.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use kube::Resource;
use kube::runtime::events::{Event, EventType};
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::notice::{leaving, node_of};
use super::request::{Answer, Open, Request, answer, open};
use super::{Move, Outcome, Record, Subject, begin, next, record};
use crate::cluster::failure::words;
use crate::cluster::{Context, note};
use crate::headscale::{NodeCache, NodeId};
use crate::metrics;

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
    /// Or why it is refused.
    node: Result<Wanted, String>,
    /// The request's ConfigMap, to be answered.
    request: Option<String>,
}

impl Order {
    pub(super) fn of_gateway(tailnet: String, gateway: String, node: NodeId) -> Self {
        Self {
            tailnet,
            gateway: Some(gateway),
            node: Ok(Wanted::Id(node)),
            request: None,
        }
    }
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

    pub(super) fn order(&self, order: Order) {
        if self.orders.try_send(order).is_err() {
            tracing::warn!("Too many handovers wait; this one is left to Headscale");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(String, NodeId)>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
        for order in left_or_requested(&context, &mut taken_up) {
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
fn left_or_requested(context: &Context, taken_up: &mut BTreeSet<String>) -> Vec<Order> {
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
                node: Ok(Wanted::Left(node)),
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
        let order = if late {
            Err("nobody was there while its asker waited; ask again".to_owned())
        } else {
            wanted(context, &name, request)
        };
        orders.push(order.unwrap_or_else(|why| Order {
            tailnet: String::new(),
            gateway: None,
            node: Err(why),
            request: Some(name),
        }));
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
            node: Ok(Wanted::Name(name)),
            request: request_name,
        }),
        Some(Request::Gateway(gateway)) => {
            let object = context.stores.gateways.get(&ObjectRef::new(&gateway));
            let object = object.ok_or_else(|| format!("there is no TailnetGateway {gateway}"))?;
            Ok(Order {
                tailnet: object.spec.tailnet_ref.name.clone(),
                node: Ok(Wanted::Id(
                    node_of(&object).ok_or_else(|| format!("{gateway} has no node yet"))?,
                )),
                gateway: Some(gateway),
                request: request_name,
            })
        }
    }
}

/// One handover to its end; gives the gateway's name.
async fn one(context: Arc<Context>, order: Order) -> Option<String> {
    let mut place = match order.node {
        Ok(Wanted::Left(node)) => Some((order.tailnet.clone(), node)),
        Ok(Wanted::Id(_) | Wanted::Name(_)) | Err(_) => None,
    };
    let result = carry_out(&context, &order, &mut place).await;
    if let Ok(Wanted::Left(_)) = order.node {
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
    let wanted = order.node.as_ref().map_err(Clone::clone)?;
    let mut waits_for = "no answer".to_owned();
    let begun = timeout(BEGIN_WITHIN, async {
        loop {
            match begin_or_resume(context, order, wanted, place).await {
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
    wanted: &Wanted,
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
    let node = match wanted {
        Wanted::Id(id) | Wanted::Left(id) => nodes.get(*id),
        Wanted::Name(name) => nodes
            .iter()
            .find(|node| node.given_name.eq_ignore_ascii_case(name)),
    };
    let id = match (wanted, node) {
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
    if let Wanted::Left(_) = wanted {
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
    if let Some(gateway) = &order.gateway
        && !bears_the_name_of(context, gateway, &node.hostname)
    {
        let hostname = &node.hostname;
        return Err(Trouble::Ours(format!(
            "node {id} has the host name {hostname} at Headscale, and is not that of {gateway}"
        )));
    }
    let subject = Subject {
        tailnet,
        server: &server.source().server().to_string(),
        gateway: order.gateway.as_deref(),
    };
    match begin(
        &subject,
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

/// Numbers of nodes are given again by a Headscale that was set up anew, host names are not.
fn bears_the_name_of(context: &Context, gateway: &str, hostname: &str) -> bool {
    let object = context.stores.gateways.get(&ObjectRef::new(gateway));
    object.is_some_and(|object| object.spec.hostname.eq_ignore_ascii_case(hostname))
}

/// The tailnet's Headscale, with the address and the key that the Tailnet names now.
fn server(context: &Context, tailnet: &str) -> Result<Arc<NodeCache>, String> {
    let view = context.hub.view(tailnet);
    let view = view.ok_or_else(|| "the tailnet was not asked yet".to_owned())?;
    view.server.clone()
}

/// The Headscale that this handover began at: as the Tailnet knows it now, or else as it was last.
fn its_server(
    context: &Context,
    record: &Record,
    last: Option<&Arc<NodeCache>>,
) -> Result<Arc<NodeCache>, String> {
    let now = server(context, &record.tailnet).and_then(|now| {
        let theirs = now.source().server().to_string();
        if theirs == record.server {
            return Ok(now);
        }
        Err(format!(
            "it began at {}, and the Tailnet names {theirs} now",
            record.server
        ))
    });
    now.or_else(|why| last.cloned().ok_or(why))
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
    let mut last = None;
    loop {
        let turn = match its_server(context, record, last.as_ref()) {
            Ok(server) => turn(context, record, last.insert(server)).await,
            Err(why) => without_server(context, record, why).await,
        };
        match turn {
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

/// The end, if a person has taken the record away; else what has to be waited for.
async fn without_server(
    context: &Context,
    record: &Record,
    why: String,
) -> Result<Option<Outcome>, String> {
    match record::find(context, &record.tailnet, record.node).await? {
        Some(found) if found == *record => Err(format!(
            "{why}; to give it up, restore the approvals by hand and delete its ConfigMap"
        )),
        Some(_) | None => Ok(Some(Outcome::default())),
    }
}

async fn turn(
    context: &Context,
    record: &Record,
    cache: &NodeCache,
) -> Result<Option<Outcome>, String> {
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
