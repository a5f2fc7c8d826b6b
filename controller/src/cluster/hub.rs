//! What is known of each tailnet, shared by all passes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use crate::headscale::{NodeCache, NodeList};

/// What is known of a tailnet.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The server with its list of nodes, or why there is no key to ask it with.
    pub(crate) server: Result<Arc<NodeCache>, String>,
    /// The newest list, or why there is none.
    pub(crate) nodes: Result<Arc<NodeList>, String>,
    /// Its policy.
    pub(crate) policy: Option<Arc<Value>>,
}

/// All tailnets.
#[derive(Debug, Clone, Default)]
pub struct Hub(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    slots: Mutex<HashMap<String, Slot>>,
    /// A tailnet appeared.
    appeared: Notify,
    /// A record of a handover, or a request for one, changed.
    handover: Notify,
}

#[derive(Debug, Default)]
struct Slot {
    view: Option<Arc<View>>,
    wake: Arc<Notify>,
    /// Objects of the tailnet changed since its last round.
    changed: bool,
}

impl Hub {
    pub(crate) fn view(&self, tailnet: &str) -> Option<Arc<View>> {
        self.slots().get(tailnet)?.view.clone()
    }

    pub(super) fn set(&self, tailnet: &str, view: View) {
        self.slots().entry(tailnet.to_owned()).or_default().view = Some(Arc::new(view));
    }

    pub(super) fn forget(&self, tailnet: &str) {
        self.slots().remove(tailnet);
    }

    /// Objects of a tailnet changed: its policy and hosts file may have to.
    pub(super) fn changed(&self, tailnet: &str) {
        let mut slots = self.slots();
        let slot = slots.entry(tailnet.to_owned()).or_default();
        slot.changed = true;
        slot.wake.notify_one();
        self.0.appeared.notify_one();
    }

    /// A gateway is not settled: its nodes are worth a new look soon.
    pub(super) fn hurry(&self, tailnet: &str) {
        if let Some(slot) = self.slots().get(tailnet) {
            slot.wake.notify_one();
        }
    }

    pub(super) fn take_changed(&self, tailnet: &str) -> bool {
        let mut slots = self.slots();
        slots
            .get_mut(tailnet)
            .is_some_and(|slot| std::mem::take(&mut slot.changed))
    }

    pub(super) fn waker(&self, tailnet: &str) -> Arc<Notify> {
        Arc::clone(&self.slots().entry(tailnet.to_owned()).or_default().wake)
    }

    pub(super) async fn appeared(&self) {
        self.0.appeared.notified().await;
    }

    /// Views of an earlier term.
    pub(super) fn forget_views(&self) {
        for slot in self.slots().values_mut() {
            slot.view = None;
        }
    }

    pub(super) fn notice_handover(&self) {
        self.0.handover.notify_one();
    }

    pub(crate) async fn handover_noticed(&self) {
        self.0.handover.notified().await;
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
