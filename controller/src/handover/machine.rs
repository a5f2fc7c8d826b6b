//! What comes next in a handover, from what is written down and what Headscale shows.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::headscale::{Node, NodeId, NodeList};

/// After this the approvals are given back whatever has become of it. Headscale moves a prefix within
/// 0.7 s; a gateway's lame duck is 5 s.
const PATIENCE: SignedDuration = SignedDuration::from_secs(15);

/// What is written down before anything is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The tailnet.
    pub tailnet: String,
    /// The address of its Headscale: at another one the number is another node's.
    pub server: String,
    /// The gateway, if the node is one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The node that leaves.
    pub node: NodeId,
    /// Its host name: a Headscale that was set up anew gives its number to another.
    pub hostname: String,
    /// Its name in the tailnet.
    pub name: String,
    /// All that was approved for it, for a person who has to restore it by hand.
    pub approved: BTreeSet<IpNet>,
    /// What is taken from it for a moment.
    pub taken: BTreeSet<IpNet>,
    /// What it serves and no standby could.
    pub kept: BTreeSet<IpNet>,
    /// When it began.
    pub began: Timestamp,
}

/// Whose node is to be handed over.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The tailnet.
    pub tailnet: &'a str,
    /// The address of its Headscale.
    pub server: &'a str,
    /// The gateway, if the node is one's.
    pub gateway: Option<&'a str>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Approve exactly these prefixes of the node.
    Approve(BTreeSet<IpNet>),
    /// Look again soon.
    Wait,
    /// All is as it was, apart from who serves.
    End(Outcome),
}

/// How a handover ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which node serves a prefix now.
    pub moved: BTreeMap<IpNet, String>,
    /// What stayed, for want of a standby that took it.
    pub kept: BTreeSet<IpNet>,
}

/// What a handover of this node takes: each prefix that it serves and that another node, online,
/// approved and not `leaving` itself, advertises.
///
/// # Errors
/// The prefixes that stay where they are, if that is all of them.
pub fn begin(
    subject: &Subject<'_>,
    node: &Node,
    nodes: &NodeList,
    leaving: &BTreeSet<NodeId>,
    now: Timestamp,
) -> Result<Record, BTreeSet<IpNet>> {
    let (taken, kept): (BTreeSet<IpNet>, BTreeSet<IpNet>) = node
        .serving
        .iter()
        .copied()
        .partition(|prefix| could_move(node.id, prefix, nodes, leaving, now));
    if taken.is_empty() {
        return Err(kept);
    }
    Ok(Record {
        tailnet: subject.tailnet.to_owned(),
        server: subject.server.to_owned(),
        gateway: subject.gateway.map(str::to_owned),
        node: node.id,
        hostname: node.hostname.clone(),
        name: node.given_name.clone(),
        approved: node.approved.clone(),
        taken,
        kept,
        began: now,
    })
}

/// The next move. Doing one twice does no harm, and any number of them may have been done by a
/// controller that is no more.
pub fn next(record: &Record, nodes: &NodeList, leaving: &BTreeSet<NodeId>, now: Timestamp) -> Move {
    let server = |prefix: &IpNet| {
        nodes
            .iter()
            .find(|node| node.id != record.node && node.online && node.serving.contains(prefix))
    };
    let outcome = || {
        let mut outcome = Outcome {
            moved: BTreeMap::new(),
            kept: record.kept.clone(),
        };
        for prefix in &record.taken {
            match server(prefix) {
                Some(node) => {
                    outcome.moved.insert(*prefix, node.given_name.clone());
                }
                None => {
                    outcome.kept.insert(*prefix);
                }
            }
        }
        outcome
    };
    let node = nodes.get(record.node);
    let Some(node) = node.filter(|node| node.hostname == record.hostname) else {
        return Move::End(outcome());
    };
    let over = now.duration_since(record.began) >= PATIENCE;
    let (pending, stranded): (Vec<IpNet>, Vec<IpNet>) = record
        .taken
        .iter()
        .filter(|prefix| server(prefix).is_none())
        .partition(|prefix| !over && could_move(record.node, prefix, nodes, leaving, now));
    let mut wanted = node.approved.clone();
    if pending.is_empty() {
        wanted.extend(&record.taken);
    } else {
        wanted.retain(|prefix| !record.taken.contains(prefix));
        // Its standby is gone meanwhile: better this router for a while than none.
        wanted.extend(stranded);
    }
    if wanted != node.approved {
        return Move::Approve(wanted);
    }
    if pending.is_empty() {
        Move::End(outcome())
    } else {
        Move::Wait
    }
}

/// Whether another node would take over the prefix.
fn could_move(
    from: NodeId,
    prefix: &IpNet,
    nodes: &NodeList,
    leaving: &BTreeSet<NodeId>,
    now: Timestamp,
) -> bool {
    nodes.iter().any(|node| {
        node.id != from
            && !leaving.contains(&node.id)
            && node.online
            && !node.expiry.is_over(now)
            && node.advertised.contains(prefix)
            && node.approved.contains(prefix)
    })
}

#[cfg(test)]
mod tests;
