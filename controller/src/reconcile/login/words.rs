//! What is said about the login, with the command that ends what waits for a person.

use jiff::Timestamp;

use super::super::marks::RENEW_LOGIN;
use super::super::names::reason;
use super::super::snapshot::{Snapshot, StateSecret};
use super::{Login, Loss, login, token};
use crate::headscale::Expiry;

/// A reason and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Words {
    pub(in super::super) reason: &'static str,
    pub(in super::super) message: String,
}

/// What is said of a login that is gone or under way; None while it stands.
pub(in super::super) fn told(snapshot: &Snapshot, now: Timestamp) -> Option<Words> {
    match login(snapshot, now) {
        Login::Unknown | Login::In => None,
        Login::Out(loss) => Some(of_loss(snapshot, &loss)),
        Login::First | Login::Waiting => {
            let message = if snapshot.notes.renewing.is_some() {
                "its login was lost; it is being logged in anew with a new key"
            } else {
                "the Pod runs and its node has not logged in yet"
            };
            Some(Words {
                reason: reason::REGISTERING,
                message: message.to_owned(),
            })
        }
    }
}

/// How a loss is told.
pub(in super::super) fn of_loss(snapshot: &Snapshot, loss: &Loss) -> Words {
    let name = &snapshot.subject.name;
    let renew = format!(
        "kubectl annotate --overwrite tailnetgateway {name} {RENEW_LOGIN}={}",
        token(snapshot, loss)
    );
    let (reason, message) = match loss {
        Loss::Expired { node } => {
            let when = snapshot.nodes().and_then(|nodes| nodes.get(*node));
            let at = match when.map(|node| node.expiry) {
                Some(Expiry::At(at)) => format!(" at {at:.0}"),
                Some(Expiry::Never) | None => String::new(),
            };
            (
                reason::NODE_EXPIRED,
                format!(
                    "node {node} was expired at Headscale{at}, and the gateway carries no traffic; let it in again \
                     (headscale nodes expire --identifier {node} --disable)"
                ),
            )
        }
        Loss::Deleted { node } => (
            reason::NODE_DELETED,
            format!(
                "node {node} was deleted at Headscale, and the gateway carries no traffic; let it log in as a new \
                 node ({renew})"
            ),
        ),
        Loss::Lost { .. } => (
            reason::LOGIN_LOST,
            format!(
                "tailscaled has lost its login and asks for a new one; let it log in as a new node ({renew})"
            ),
        ),
        Loss::KeyTaken { by } => (
            reason::KEY_USED_ELSEWHERE,
            format!(
                "node {by} is logged in with a pre-auth key of this gateway, and is not this gateway's; find out whose \
                 it is, delete it (headscale nodes delete --identifier {by}), and let this gateway log in anew ({renew})"
            ),
        ),
        Loss::KeyOver => (
            reason::REGISTERING,
            "its pre-auth key was not used in time; a new one is minted".to_owned(),
        ),
        Loss::KeyForeign => (
            reason::FRESH_BLOCKED,
            "its key Secret was replaced by one that is not this gateway's: delete that Secret"
                .to_owned(),
        ),
    };
    Words { reason, message }
}

/// What is worth a word although the gateway is ready.
pub(in super::super) fn remarks(snapshot: &Snapshot) -> String {
    let mut all = String::new();
    let Some(node) = snapshot.node() else {
        return all;
    };
    if node.given_name != node.hostname.to_ascii_lowercase() {
        let holder = snapshot.nodes().and_then(|nodes| {
            let mut others = nodes.iter().filter(|other| other.id != node.id);
            others.find(|other| other.given_name.eq_ignore_ascii_case(&node.hostname))
        });
        all += &format!(
            "; its name in the tailnet is {} instead of {}",
            node.given_name, node.hostname
        );
        all += &match holder {
            Some(holder) => format!(
                ", which node {id} has: delete that one if nobody needs it (headscale nodes delete --identifier {id})",
                id = holder.id
            ),
            None => format!(
                ", which is free (headscale nodes rename --identifier {} {})",
                node.id, node.hostname
            ),
        };
    }
    match snapshot.state {
        StateSecret::Missing => {
            all += "; its state Secret is gone, and the next restart of its Pod loses the login";
        }
        StateSecret::Ours { login: false } => {
            all += "; its state Secret holds no login, and the next restart of its Pod needs a new one";
        }
        StateSecret::Ours { login: true } | StateSecret::Foreign { .. } => {}
    }
    all
}

/// Nodes that logged in with keys of this gateway and are not its own, as long as they exist.
pub(in super::super) fn strangers(snapshot: &Snapshot) -> Option<String> {
    let nodes = snapshot.nodes()?;
    let all: Vec<String> = snapshot
        .notes
        .strangers
        .iter()
        .filter_map(|id| nodes.get(*id))
        .map(|node| {
            format!(
                "node {} (id {id}) is logged in with a pre-auth key of this gateway, and is not this gateway's: find out \
                 whose it is, and delete it (headscale nodes delete --identifier {id})",
                node.given_name,
                id = node.id
            )
        })
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}
