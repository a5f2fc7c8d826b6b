//! Whether the gateway's node is logged in, and what is done when it is not.
//!
//! What was lost is renewed unless the spec says otherwise; what an administrator expired or deleted
//! is respected unless the spec says otherwise. The evidence is what three parties say of the same
//! login: Headscale's list, the state Secret, and tailscaled by its agent.

mod words;

use jiff::{SignedDuration, Timestamp};
use tsunaro_model::gateway::OnGone;
use tsunaro_model::report::Tri;
pub(super) use words::{remarks, strangers, told};

use super::plan::{Rest, Step};
use super::snapshot::{KeyFate, KeySecret, Snapshot, StateSecret};
use crate::headscale::{Node, NodeId};

/// tailscaled may ask for a login for a moment while it starts with a good state.
const STARTING: SignedDuration = SignedDuration::from_secs(20);
/// Headscale calls a node that vanished offline after 7 to 15 s. One that is connected for longer,
/// while tailscaled here asks for a login, is somebody else's.
const LINGERING: SignedDuration = SignedDuration::from_secs(90);

/// A node is in the list before it is connected, before tailscaled has written its state, and before the
/// agent has heard of it: what the others say against a login this young is older than it. The rest is
/// for clocks that differ.
const YOUNG: SignedDuration = SignedDuration::from_secs(60);

/// Where the login stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// Headscale does not say.
    Unknown,
    /// Never was, and no key is there.
    First,
    /// Under way, or not known for long enough.
    Waiting,
    /// Logged in, connected or not.
    In,
    /// Gone.
    Out(Loss),
}

/// How a login was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// tailscaled has nothing to log in with any more: its state is gone.
    Lost {
        /// The node that it was, if Headscale still has it.
        node: Option<NodeId>,
    },
    /// The key was not used in time, or was expired or deleted at Headscale.
    KeyOver,
    /// Another node than this gateway's is logged in with its key.
    KeyTaken {
        /// That node.
        by: NodeId,
    },
    /// The key Secret was replaced by one that is not this gateway's.
    KeyForeign,
    /// An administrator expired the node.
    Expired {
        /// The node.
        node: NodeId,
    },
    /// An administrator deleted the node.
    Deleted {
        /// The node.
        node: NodeId,
    },
}

/// Where the login stands at `now`.
pub(super) fn login(snapshot: &Snapshot, now: Timestamp) -> Login {
    if snapshot.nodes().is_none() {
        return Login::Unknown;
    }
    match snapshot.node() {
        Some(node) => of_node(snapshot, node, now),
        None => without_node(snapshot, now),
    }
}

/// The next step about the login.
pub(super) fn step(snapshot: &Snapshot, now: Timestamp) -> Option<Step> {
    // Whatever comes next: a key that may be out there unseen must go.
    if let KeySecret::Intended { expiration, .. } = &snapshot.key {
        snapshot.nodes()?;
        return Some(Step::DiscardLostKey(*expiration));
    }
    match login(snapshot, now) {
        Login::Unknown => None,
        Login::First => mint(snapshot, now),
        Login::In | Login::Waiting => missing_state(snapshot),
        Login::Out(loss) => match policy(snapshot, &loss) {
            OnGone::Hold => None,
            OnGone::Renew => renew(snapshot, &loss, now),
        },
    }
}

/// Why the login is not renewed now, if it should be or may not be.
pub(super) fn rest(snapshot: &Snapshot, now: Timestamp) -> Option<Rest> {
    let limited = || snapshot.next_mint(now).map(Rest::MintLimit);
    match login(snapshot, now) {
        Login::First => limited(),
        Login::Out(loss) if policy(snapshot, &loss) == OnGone::Hold => Some(Rest::LoginHeld(loss)),
        Login::Out(Loss::Expired { .. }) => None,
        Login::Out(_) => limited(),
        Login::Unknown | Login::Waiting | Login::In => None,
    }
}

/// Whether the key in the Secret was used, or a renewal is through: the Secret is emptied.
pub(super) fn is_over(snapshot: &Snapshot, now: Timestamp) -> bool {
    match &snapshot.key {
        KeySecret::Holding { id, .. } => snapshot.node().is_some_and(|node| node.key == Some(*id)),
        KeySecret::Idle { .. } | KeySecret::Spent { .. } => {
            snapshot.notes.renewing.is_some() && login(snapshot, now) == Login::In
        }
        KeySecret::Missing | KeySecret::Foreign(_) | KeySecret::Intended { .. } => false,
    }
}

fn of_node(snapshot: &Snapshot, node: &Node, now: Timestamp) -> Login {
    if node.expiry.is_over(now) {
        return Login::Out(Loss::Expired { node: node.id });
    }
    let Some(since) = asks_since(snapshot) else {
        return Login::In;
    };
    // Taken back in Headscale, and tailscaled has not heard yet: its report proves no loss.
    if says_expired(snapshot) {
        return Login::Waiting;
    }
    let asked = now.duration_since(since);
    if node.online {
        return if asked < LINGERING {
            Login::Waiting
        } else {
            Login::Out(Loss::KeyTaken { by: node.id })
        };
    }
    let young = node
        .created
        .is_some_and(|at| now.duration_since(at) < YOUNG);
    let settled = !snapshot.state.has_login() || asked >= STARTING;
    if young || !settled || has_usable_key(snapshot, now) {
        return Login::Waiting;
    }
    Login::Out(Loss::Lost {
        node: Some(node.id),
    })
}

fn without_node(snapshot: &Snapshot, now: Timestamp) -> Login {
    match &snapshot.key {
        KeySecret::Holding { id, .. } => {
            if has_usable_key(snapshot, now) {
                return Login::Waiting;
            }
            let mut nodes = snapshot.nodes().into_iter().flat_map(|nodes| nodes.iter());
            let taker = nodes
                .find(|node| node.key == Some(*id) && !snapshot.notes.strangers.contains(&node.id));
            return Login::Out(match taker {
                Some(taker) => Loss::KeyTaken { by: taker.id },
                None => Loss::KeyOver,
            });
        }
        // The next step is to discard that key.
        KeySecret::Intended { .. } => return Login::Waiting,
        KeySecret::Foreign(_) => return Login::Out(Loss::KeyForeign),
        KeySecret::Missing | KeySecret::Idle { .. } | KeySecret::Spent { .. } => {}
    }
    if let Some(known) = snapshot.known_node()
        && snapshot.notes.renewing != Some(known)
    {
        return Login::Out(Loss::Deleted { node: known });
    }
    if snapshot.notes.renewing.is_some() || !snapshot.notes.strangers.is_empty() {
        return Login::Out(Loss::Lost { node: None });
    }
    if snapshot.state.has_login() || snapshot.key.is_spent() {
        // It was logged in once, and nobody remembers as which node.
        let asks = asks_since(snapshot).is_some_and(|at| now.duration_since(at) >= STARTING);
        return if asks {
            Login::Out(Loss::Lost { node: None })
        } else {
            Login::Waiting
        };
    }
    Login::First
}

/// Whether the key in the Secret can still log in.
fn has_usable_key(snapshot: &Snapshot, now: Timestamp) -> bool {
    let KeySecret::Holding { expiration, .. } = &snapshot.key else {
        return false;
    };
    *expiration > now && matches!(snapshot.key_fate, None | Some(KeyFate::Usable))
}

/// Since when tailscaled asks for a login; None if it does not, or nobody heard it ask.
fn asks_since(snapshot: &Snapshot) -> Option<Timestamp> {
    let report = snapshot.report()?;
    if report.tailnet.as_ref()?.backend_state != "NeedsLogin" {
        return None;
    }
    let ready = report
        .conditions
        .iter()
        .find(|condition| condition.kind == "TailnetReady" && condition.status == Tri::False)?;
    ready.last_transition_time.parse().ok()
}

fn says_expired(snapshot: &Snapshot) -> bool {
    snapshot.report().is_some_and(|report| {
        let mut conditions = report.conditions.iter();
        conditions.any(|one| one.kind == "TailnetReady" && one.reason == "NodeExpired")
    })
}

/// What the spec, or a person for this one loss, wants.
fn policy(snapshot: &Snapshot, loss: &Loss) -> OnGone {
    let identity = snapshot
        .spec
        .gateway()
        .map(|gateway| gateway.identity)
        .unwrap_or_default();
    let said = match loss {
        Loss::KeyForeign => return OnGone::Hold,
        // The login was never through: nothing was lost.
        Loss::KeyOver => return OnGone::Renew,
        Loss::Lost { .. } | Loss::KeyTaken { .. } => identity.on_loss,
        Loss::Expired { .. } | Loss::Deleted { .. } => identity.on_revoked,
    };
    let begun = snapshot.notes.renewing.is_some() && !matches!(loss, Loss::Expired { .. });
    let asked = snapshot.subject.renew.as_deref().is_some_and(|asked| {
        let noted = asked
            .parse()
            .is_ok_and(|id| snapshot.notes.strangers.contains(&id));
        asked == token(snapshot, loss) || (noted && *loss == Loss::Lost { node: None })
    });
    if begun || asked { OnGone::Renew } else { said }
}

/// What a person writes into the annotation to have this loss renewed: it is about this one only.
pub(super) fn token(snapshot: &Snapshot, loss: &Loss) -> String {
    let node = match loss {
        Loss::Expired { node } | Loss::Deleted { node } | Loss::KeyTaken { by: node } => {
            Some(*node)
        }
        Loss::Lost { node } => node.or_else(|| snapshot.known_node()),
        Loss::KeyOver | Loss::KeyForeign => None,
    };
    match (node, snapshot.key.id()) {
        (Some(node), _) => node.to_string(),
        (None, Some(key)) => format!("key-{key}"),
        (None, None) => "first".to_owned(),
    }
}

fn renew(snapshot: &Snapshot, loss: &Loss, now: Timestamp) -> Option<Step> {
    let old = match loss {
        Loss::KeyForeign => return None,
        Loss::Expired { node } => return Some(Step::ReviveNode(*node)),
        Loss::KeyTaken { by } => return Some(Step::NoteStranger(*by)),
        Loss::KeyOver => return mint(snapshot, now),
        Loss::Deleted { node } => Some(*node),
        Loss::Lost { node } => *node,
    };
    if let Some(step) = missing_state(snapshot) {
        return Some(step);
    }
    // Not before a key may follow: until then the old node does no harm.
    if snapshot.next_mint(now).is_some() {
        return None;
    }
    let is_there = |old| {
        let node = snapshot.nodes().and_then(|nodes| nodes.get(old));
        node.is_some_and(|node| snapshot.bears_its_name(node))
    };
    match old {
        Some(old) if snapshot.notes.renewing != Some(old) => Some(Step::BeginRenewal(old)),
        Some(old) if is_there(old) => Some(Step::DeleteNode(old)),
        Some(_) | None => mint(snapshot, now),
    }
}

fn mint(snapshot: &Snapshot, now: Timestamp) -> Option<Step> {
    snapshot.next_mint(now).is_none().then_some(Step::MintKey)
}

/// tailscaled may not create its Secret, only change it.
fn missing_state(snapshot: &Snapshot) -> Option<Step> {
    let renews = snapshot
        .spec
        .gateway()
        .is_some_and(|gateway| gateway.identity.on_loss == OnGone::Renew);
    let approved = renews || snapshot.notes.renewing.is_some();
    let missing = snapshot.state == StateSecret::Missing && snapshot.receipt.is_ours();
    (missing && approved).then_some(Step::CreateState)
}

#[cfg(test)]
mod tests;
