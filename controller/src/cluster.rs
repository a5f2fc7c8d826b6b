//! The shell around [`crate::reconcile`]: what it needs is gathered here, and its steps are carried
//! out here.

mod agents;
mod apply;
pub(crate) mod bounded;
mod conditions;
mod conflicts;
mod contest;
mod egresses;
mod events;
pub(crate) mod failure;
mod gather;
mod hosts;
mod hub;
mod kinds;
mod pass;
mod policy;
mod rounds;
mod sites;
mod stores;
mod tailnets;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use agents::Agents;
pub(crate) use events::note;
pub use hub::Hub;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::runtime::events::Recorder;
use kube::runtime::reflector::ObjectRef;
pub use pass::{on_error, pass};
pub use rounds::run as tailnet_rounds;
pub use stores::{Stores, Watches};
use tokio::sync::mpsc;
use tokio::sync::watch::Receiver;

use crate::crd::{GatewayStatus, TailnetGateway};
use crate::handover::Handovers;
use crate::lease::Term;
use crate::metrics::Metrics;
use crate::reconcile::Memory;

/// How often things are looked at although nothing is heard of them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the objects live.
    pub namespace: String,
    /// Between two lists of the nodes of a tailnet; while a gateway is not settled, a second.
    pub headscale_interval: Duration,
    /// Between two looks at a gateway that rests.
    pub resync: Duration,
}

/// What every pass uses.
pub struct Context {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) stores: Stores,
    pub(crate) hub: Hub,
    pub(crate) agents: Agents,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) trigger: Trigger,
    pub(crate) handovers: Handovers,
    /// The lease is ours.
    term: Mutex<Option<Receiver<Term>>>,
    /// By the gateway's UID.
    known: Mutex<HashMap<String, Known>>,
}

/// What is remembered about a gateway between two passes; all of it may be lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) memory: Memory,
    /// The status that was written, and the version of the object that it was written upon: what the
    /// cache shows is older as long as it shows that version.
    pub(crate) written: Option<(Option<String>, GatewayStatus)>,
    /// When something was last done for it or said about it that was new.
    pub(crate) changed: Option<Instant>,
    /// Passes that failed one after the other.
    pub(crate) failures: usize,
    /// When keys were minted in the last hour, whatever became of the Secret that says so.
    pub(crate) minted: BTreeSet<jiff::Timestamp>,
    /// When the keys that were minted end, to the nanosecond, until they are seen to be of no use any more.
    pub(crate) keys: BTreeSet<jiff::Timestamp>,
    /// UID of the Pod whose end was handed over, until its agent serves again.
    pub(crate) handed_over: Option<String>,
    pub(crate) writes: contest::Writes,
}

/// Asks for a pass over a gateway.
#[derive(Debug, Clone)]
pub struct Trigger(mpsc::Sender<ObjectRef<TailnetGateway>>);

impl Trigger {
    /// A queue and its end. More requests than `capacity` wait until some were taken.
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<ObjectRef<TailnetGateway>>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self(sender), receiver)
    }

    /// Asks for a pass. After the end of the queue nobody wants one any more.
    pub(crate) async fn gateway(&self, name: &str) {
        let _ = self.0.send(ObjectRef::new(name)).await;
    }
}

impl Context {
    /// All that passes use.
    #[expect(
        clippy::too_many_arguments,
        reason = "made once, from parts that each have a maker of their own"
    )]
    pub fn new(
        client: Client,
        settings: Settings,
        stores: Stores,
        hub: Hub,
        agents: Agents,
        recorder: Recorder,
        metrics: Metrics,
        trigger: Trigger,
        handovers: Handovers,
    ) -> Self {
        Self {
            client,
            settings,
            stores,
            hub,
            agents,
            recorder,
            metrics,
            trigger,
            handovers,
            term: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// The lease is ours: what was known before, another may have changed.
    pub(crate) fn begin_term(&self, term: Receiver<Term>) {
        self.hub.forget_views();
        self.known().clear();
        *self.term() = Some(term);
    }

    /// The lease is lost: no step is begun any more.
    pub(crate) fn end_term(&self) {
        *self.term() = None;
        self.agents.forget_all();
    }

    /// Whether a step may be begun.
    pub(crate) fn may_work(&self) -> bool {
        let term = self.term();
        term.as_ref()
            .is_some_and(|term| term.borrow().holds(tokio::time::Instant::now()))
    }

    /// Ends a pass that may not begin another step.
    pub(crate) fn go_on(&self) -> Result<(), failure::Stopped> {
        if self.may_work() {
            return Ok(());
        }
        let what = "the holder of the lease".to_owned();
        Err(failure::Stopped::Changed(what))
    }

    /// The Pod of a gateway, as the watch knows it.
    pub(crate) fn pod_of(&self, gateway: &str) -> Option<Arc<Pod>> {
        let reference = ObjectRef::new(&format!("{gateway}-0"));
        self.stores
            .pods
            .get(&reference.within(&self.settings.namespace))
    }

    fn term(&self) -> MutexGuard<'_, Option<Receiver<Term>>> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
