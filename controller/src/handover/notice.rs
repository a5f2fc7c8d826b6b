//! Sees that a gateway is about to stop.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tsunaro_model::report::Phase;

use super::drive::Order;
use crate::cluster::Context;
use crate::crd::TailnetGateway;
use crate::headscale::NodeId;
use crate::reconcile::Agent;

/// Seconds after a Pod should have been gone.
const STUCK_AFTER: i64 = 10;

/// Orders a handover of a gateway whose Pod is ending, once each time it does.
pub fn notice(context: &Context, object: &TailnetGateway) {
    let name = object.name_any();
    let Some(pod) = context.pod_of(&name) else {
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
    let tailnet = object.spec.tailnet_ref.name.clone();
    context
        .handovers
        .order(Order::of_gateway(tailnet, name, node));
}

pub(super) fn node_of(object: &TailnetGateway) -> Option<NodeId> {
    object.status.as_ref()?.node_id.as_ref()?.parse().ok()
}

fn says(context: &Context, gateway: &str, phase: Phase) -> bool {
    matches!(context.agents.heard(gateway), Some(Agent::Reported(report)) if report.phase == phase)
}

fn is_ending(context: &Context, object: &TailnetGateway, pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || says(context, &object.name_any(), Phase::Leaving)
}

/// A Pod on a machine that is cut off is deleted for hours, and its node may serve all the while.
fn is_stuck(pod: &Pod) -> bool {
    let due = pod.metadata.deletion_timestamp.as_ref();
    let now = Timestamp::now().as_second();
    due.is_some_and(|due| now - due.0.as_second() > STUCK_AFTER)
}

/// Nodes of gateways that are about to stop: nothing is handed over to them.
pub(super) fn leaving(context: &Context, tailnet: &str) -> BTreeSet<NodeId> {
    let gateways = context.stores.gateways_of(tailnet);
    let ending = gateways.iter().filter(|object| {
        let pod = context.pod_of(&object.name_any());
        pod.is_some_and(|pod| is_ending(context, object, &pod) && !is_stuck(&pod))
    });
    ending.filter_map(|object| node_of(object)).collect()
}
