//! The pre-auth key: one at most, and gone once it was used.

use jiff::Timestamp;

use super::super::snapshot::{KeySecret, Snapshot};
use super::{Plan, Rest, Step};

/// What the first login needs next; None when it needs nothing.
pub(super) fn plan(snapshot: &Snapshot, now: Timestamp) -> Option<Plan> {
    // Whatever comes next: a key that may be out there unseen must go.
    if let KeySecret::Intended { expiration, .. } = &snapshot.key {
        snapshot.nodes()?;
        return Some(Plan::Do(Step::DiscardLostKey(*expiration)));
    }
    if snapshot.has_logged_in() {
        return None;
    }
    match &snapshot.key {
        KeySecret::Missing | KeySecret::Idle { .. } => {}
        // An expired key logs nobody in; another one takes its place.
        KeySecret::Holding { expiration, .. } if *expiration <= now => {}
        KeySecret::Holding { .. }
        | KeySecret::Spent { .. }
        | KeySecret::Intended { .. }
        | KeySecret::Foreign(_) => return None,
    }
    // Without Headscale nobody knows whether the node is there already.
    snapshot.nodes()?;
    Some(match snapshot.key.next_mint(now).filter(|at| *at > now) {
        Some(at) => Plan::Rest(Rest::MintLimit(at)),
        None => Plan::Do(Step::MintKey),
    })
}

/// Whether the key in the Secret was used: a node has logged in with it.
pub(super) fn is_over(snapshot: &Snapshot) -> bool {
    let KeySecret::Holding { id, .. } = &snapshot.key else {
        return false;
    };
    snapshot.node().is_some_and(|node| node.key == Some(*id))
}
