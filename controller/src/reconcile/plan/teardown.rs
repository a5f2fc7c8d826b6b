//! Deletion: nothing at all, or everything that is ours in an order that leaves no orphan.

use super::super::marks::FORGET_NODE;
use super::super::snapshot::{Control, KeySecret, Owner, Receipt, Snapshot, StateSecret};
use super::{Kind, Plan, Rest, Step};
use crate::crd::DeletionPolicy;

pub(super) fn plan(snapshot: &Snapshot) -> Plan {
    let subject = &snapshot.subject;
    if !subject.finalizer {
        return Plan::Rest(Rest::Gone);
    }
    match subject.deletion_policy {
        DeletionPolicy::Retain => Plan::Do(Step::RemoveFinalizer),
        DeletionPolicy::Delete => everything(snapshot),
    }
}

fn everything(snapshot: &Snapshot) -> Plan {
    let Some(gateway) = snapshot.spec.gateway() else {
        return blocked(
            "the spec is not valid, so the names of what is to be deleted are not known: correct it, or set \
             deletionPolicy to Retain",
        );
    };
    if gateway.suspend {
        return blocked(
            "suspend is true, and nothing is changed meanwhile: set it to false to delete everything, or set \
             deletionPolicy to Retain to keep everything",
        );
    }
    if let Some(plan) = workload(snapshot) {
        return plan;
    }
    if let Some(plan) = at_headscale(snapshot) {
        return plan;
    }
    objects(snapshot)
}

/// The StatefulSet, then its Pod: while that runs, the node would come back.
fn workload(snapshot: &Snapshot) -> Option<Plan> {
    let uid = &snapshot.subject.uid;
    let set = snapshot
        .children
        .iter()
        .find(|child| child.kind == Kind::StatefulSet)?;
    match set.owner(uid) {
        Owner::Ours if !set.is_going() => Some(Plan::Do(Step::Delete(Kind::StatefulSet))),
        Owner::Ours => Some(Plan::Rest(Rest::PodEnding)),
        Owner::Missing => {
            let ending = snapshot.pod.is_some();
            ending.then_some(Plan::Rest(Rest::PodEnding))
        }
        // Then the Pod is not ours either.
        Owner::Foreign(_) => None,
    }
}

/// The node and the key that was not used.
fn at_headscale(snapshot: &Snapshot) -> Option<Plan> {
    let begun = snapshot.receipt.is_ours()
        || !snapshot.notes.strays.is_empty()
        || !matches!(snapshot.key, KeySecret::Missing | KeySecret::Foreign(_));
    let known = snapshot.subject.before.node_id.is_some();
    if !(begun || known) || snapshot.subject.forget_node {
        return None;
    }
    let why = match &snapshot.control {
        Control::Listed(_) => None,
        Control::NoTailnet => Some("its Tailnet is gone".to_owned()),
        Control::BadTailnet(why) => Some(format!("its Tailnet is not valid ({why})")),
        Control::NoApiKey(why) | Control::Unreachable(why) => Some(why.clone()),
    };
    if let Some(why) = why {
        return Some(blocked(&format!(
            "the node at Headscale cannot be deleted: {why}. This is tried again; to leave the node behind, \
             annotate the gateway with {FORGET_NODE}=true"
        )));
    }
    if let Some(node) = snapshot.node() {
        return Some(Plan::Do(Step::DeleteNode(node.id)));
    }
    if !snapshot.notes.strays.is_empty() {
        return Some(Plan::Do(Step::ExpireStrays));
    }
    match &snapshot.key {
        KeySecret::Holding { id, .. } => Some(Plan::Do(Step::ExpireKey(*id))),
        KeySecret::Intended { expiration, .. } => Some(Plan::Do(Step::DiscardLostKey(*expiration))),
        KeySecret::Missing
        | KeySecret::Foreign(_)
        | KeySecret::Idle { .. }
        | KeySecret::Spent { .. } => None,
    }
}

fn objects(snapshot: &Snapshot) -> Plan {
    let uid = &snapshot.subject.uid;
    let next = snapshot
        .children
        .iter()
        .rev()
        .find(|child| child.owner(uid) == Owner::Ours && !child.is_going());
    if let Some(child) = next {
        return Plan::Do(Step::Delete(child.kind));
    }
    match &snapshot.key {
        KeySecret::Missing | KeySecret::Foreign(_) => {}
        KeySecret::Idle { .. }
        | KeySecret::Intended { .. }
        | KeySecret::Holding { .. }
        | KeySecret::Spent { .. } => return Plan::Do(Step::DeleteKey),
    }
    if matches!(snapshot.state, StateSecret::Ours { .. }) {
        return Plan::Do(Step::DeleteState);
    }
    if matches!(snapshot.receipt, Receipt::Ours { .. }) {
        return Plan::Do(Step::DeleteReceipt);
    }
    Plan::Do(Step::RemoveFinalizer)
}

fn blocked(why: &str) -> Plan {
    Plan::Rest(Rest::DeletionBlocked(why.to_owned()))
}
