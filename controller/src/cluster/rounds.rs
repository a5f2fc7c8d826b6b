//! Rounds over the tailnets: one list of nodes per interval for all gateways, policy, hosts file.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use tokio::time::Instant;

use super::{Context, tailnets};
use crate::metrics::TailnetLabel;

/// Between two lists while a gateway is not settled.
const HURRY: Duration = Duration::from_secs(1);
/// Between two looks at the policy and at the API key.
const SLOWLY: Duration = Duration::from_secs(60);

/// Goes around for ever, each tailnet at its own pace.
///
/// # Errors
/// Never.
pub async fn run(context: Arc<Context>) -> anyhow::Result<()> {
    let mut followed = HashSet::new();
    let mut rounds = FuturesUnordered::new();
    loop {
        for tailnet in context.stores.tailnets.state() {
            if followed.insert(tailnet.name_any()) {
                rounds.push(one(Arc::clone(&context), tailnet.name_any()));
            }
        }
        tokio::select! {
            () = context.hub.appeared() => {}
            Some(gone) = rounds.next() => {
                context.hub.forget(&gone);
                followed.remove(&gone);
            }
        }
    }
}

/// Rounds over one tailnet until it is gone.
async fn one(context: Arc<Context>, name: String) -> String {
    let wake = context.hub.waker(&name);
    let mut tailnet = tailnets::Tailnet::new(name.clone());
    let mut slow_at = Instant::now();
    while let Some(object) = context.stores.tailnets.get(&ObjectRef::new(&name)) {
        let began = Instant::now();
        let changed = context.hub.take_changed(&name);
        let slow = changed || began >= slow_at;
        if slow {
            slow_at = began + SLOWLY;
        }
        if context.may_work() {
            tailnet.round(&context, &object, slow).await;
        }
        tokio::select! {
            () = tokio::time::sleep_until(began + context.settings.headscale_interval) => {}
            () = wake.notified() => {
                // New names are served at once; the rest has its pace.
                let object = context.stores.tailnets.get(&ObjectRef::new(&name));
                if let Some(object) = object.filter(|_| context.may_work()) {
                    tailnet.names(&context, &object).await;
                }
                tokio::time::sleep_until(began + HURRY).await;
            }
        }
    }
    context.metrics.reachable.remove(&TailnetLabel {
        tailnet: name.clone(),
    });
    name
}
