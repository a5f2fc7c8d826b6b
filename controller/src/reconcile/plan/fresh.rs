//! Fresh only: what exists and is not this gateway's is never adopted and never overwritten.

use super::super::snapshot::{KeySecret, Receipt, Snapshot, StateSecret};
use super::{Kind, foreign_child};
use crate::headscale::{Node, NodeId};
use crate::reconcile::marks::UID;

/// Kinds of the nine objects, as kubectl takes them; the Pod goes first.
const KINDS: &str =
    "statefulset,configmap,service,poddisruptionbudget,rolebinding,role,serviceaccount";

/// What stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// The state Secret exists and is not this gateway's.
    State {
        /// UID of the gateway that it was made for, if for one.
        owner: Option<String>,
        /// Nothing is in it.
        empty: bool,
    },
    /// The key Secret exists and is not this gateway's.
    Key {
        /// UID of the gateway that it was made for, if for one.
        owner: Option<String>,
    },
    /// The receipt is about another gateway.
    Receipt {
        /// That one's UID.
        owner: Option<String>,
    },
    /// One of the nine objects exists and is not this gateway's.
    Object {
        /// Which one.
        kind: Kind,
        /// Its name.
        name: String,
        /// UID of the gateway that it was made for, if for one.
        owner: Option<String>,
    },
    /// Headscale has a node with this host name that did not log in with a key of ours.
    Node {
        /// Its id.
        id: NodeId,
        /// Its host name.
        hostname: String,
        /// It is connected.
        online: bool,
    },
}

/// What stands in the way, the most telling first. Once the receipt is written, only objects of the
/// same name can, and a state Secret that was made for another gateway.
pub(super) fn block(snapshot: &Snapshot) -> Option<Block> {
    match &snapshot.receipt {
        Receipt::Foreign(owner) => {
            return Some(Block::Receipt {
                owner: owner.clone(),
            });
        }
        Receipt::Ours { .. } => return foreign_state(snapshot).or_else(|| foreign_child(snapshot)),
        Receipt::Missing => {}
    }
    if let Some(block) = foreign_state(snapshot) {
        return Some(block);
    }
    if let KeySecret::Foreign(owner) = &snapshot.key {
        return Some(Block::Key {
            owner: owner.clone(),
        });
    }
    foreign_child(snapshot).or_else(|| foreign_node(snapshot))
}

fn foreign_state(snapshot: &Snapshot) -> Option<Block> {
    let StateSecret::Foreign { owner, empty } = &snapshot.state else {
        return None;
    };
    Some(Block::State {
        owner: owner.clone(),
        empty: *empty,
    })
}

fn foreign_node(snapshot: &Snapshot) -> Option<Block> {
    let hostname = &snapshot.spec.gateway()?.hostname;
    let keys = snapshot.keys();
    let is_ours = |node: &&Node| node.key.is_some_and(|key| keys.contains(&key));
    let node = snapshot
        .nodes()?
        .with_hostname(hostname)
        .find(|node| !is_ours(node))?;
    Some(Block::Node {
        id: node.id,
        hostname: node.hostname.clone(),
        online: node.online,
    })
}

impl Block {
    /// What was found and what to do, for a condition.
    pub fn sentence(&self, names: &crate::render::Names, namespace: &str) -> String {
        let whose = |owner: &Option<String>| match owner {
            Some(uid) => format!("belongs to another gateway, with UID {uid}"),
            None => "was not made by this controller".to_owned(),
        };
        match self {
            Self::State { owner, empty } => {
                let what = if *empty {
                    "is empty but"
                } else {
                    "holds an identity and"
                };
                let name = &names.state_secret;
                format!(
                    "Secret {namespace}/{name} {what} {}; name another one in stateSecretRef, or, if nobody needs \
                     it any more, delete it (kubectl -n {namespace} delete secret {name})",
                    whose(owner)
                )
            }
            Self::Key { owner } => {
                let name = &names.key_secret;
                format!(
                    "Secret {namespace}/{name} {}; give this gateway another name, or, if nobody needs it any more, \
                     delete it (kubectl -n {namespace} delete secret {name})",
                    whose(owner)
                )
            }
            Self::Receipt { owner } => {
                let name = &names.receipt;
                let uid = owner.as_deref().unwrap_or("unknown");
                format!(
                    "receipt {namespace}/{name} says that a gateway with UID {uid} was created under this \
                     name and kept; to begin afresh delete its objects (kubectl -n {namespace} delete {KINDS} \
                     -l {UID}={uid}), its Secrets (kubectl -n {namespace} delete secret --ignore-not-found {} {}), its \
                     node at Headscale, and last the receipt (kubectl -n {namespace} delete configmap {name}); or \
                     give this gateway another name",
                    names.state_secret, names.key_secret
                )
            }
            Self::Object { kind, name, owner } => {
                let kind = kind.as_str();
                format!(
                    "{kind} {namespace}/{name} {}; give this gateway other names, or, if nobody needs it any more, \
                     delete it (kubectl -n {namespace} delete {} {name})",
                    whose(owner),
                    kind.to_ascii_lowercase()
                )
            }
            Self::Node {
                id,
                hostname,
                online,
            } => {
                let state = if *online { "online" } else { "offline" };
                format!(
                    "Headscale has a node {hostname} (id {id}, {state}) that this gateway did not make; \
                     delete it (headscale nodes delete --identifier {id}), or give this gateway another hostname"
                )
            }
        }
    }
}
