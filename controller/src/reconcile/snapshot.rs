//! All that a plan and a verdict are made from, as it was at one moment.

mod child;
mod pod;
mod secrets;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

pub use child::{Child, Owner, digest, drifted, ours};
use ipnet::{IpNet, Ipv4Net};
use jiff::Timestamp;
pub use pod::{Pod, Workload, pod, workload};
pub use secrets::{
    KeyFate, KeyNotes, KeySecret, Receipt, StateSecret, counts, key_notes, key_secret, receipt,
    state_secret,
};
use serde_json::Value;
use tsunaro_model::gateway::{Gateway, Tailnet};
use tsunaro_model::report::StatusReport;

use crate::crd::{DeletionPolicy, GatewayStatus};
use crate::headscale::{KeyId, Node, NodeId, NodeList};

/// Everything about one gateway.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The object itself.
    pub subject: Subject,
    /// What it asks for.
    pub spec: Spec,
    /// Its tailnet, if there is a valid one.
    pub tailnet: Option<Tailnet>,
    /// What Headscale says.
    pub control: Control,
    /// Headscale's policy, if it is known.
    pub policy: Option<Arc<Value>>,
    /// The Secret with the node's identity.
    pub state: StateSecret,
    /// The Secret with the pre-auth key.
    pub key: KeySecret,
    /// What is written beside the key.
    pub notes: KeyNotes,
    /// What Headscale says of the key, if it was asked: only when a login was refused.
    pub key_fate: Option<KeyFate>,
    /// The receipt.
    pub receipt: Receipt,
    /// The nine objects in the order in which they are applied; empty without a valid spec.
    pub children: Vec<Child>,
    /// The Pod.
    pub pod: Option<Pod>,
    /// A digest of what the Pod mounts and what may change while it runs.
    pub mounts: String,
    /// What the agent in the Pod says.
    pub agent: Agent,
    /// Nodes of the tailnet whose approvals are being moved: nobody else changes them meanwhile.
    pub busy: BTreeSet<NodeId>,
    /// Objects that somebody else changes again and again: they are left for a while.
    pub contested: BTreeSet<super::Kind>,
}

/// The gateway's object, apart from what it asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// It is being deleted.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// What deleting it does.
    pub deletion_policy: DeletionPolicy,
    /// A person asked to delete it without Headscale.
    pub forget_node: bool,
    /// The loss that a person wants to have renewed, in the words of the condition.
    pub renew: Option<String>,
    /// What was last said about it.
    pub before: GatewayStatus,
}

/// What a gateway asks for.
#[derive(Debug, Clone)]
pub enum Spec {
    /// Something that cannot be, in words for a condition.
    Invalid(String),
    /// This.
    Valid {
        /// The gateway.
        gateway: Box<Gateway>,
        /// Remarks for people.
        warnings: Vec<String>,
        /// The prefixes that it is to advertise.
        wanted: Vec<Ipv4Net>,
    },
}

impl Spec {
    /// The gateway, if it is valid.
    pub fn gateway(&self) -> Option<&Gateway> {
        match self {
            Self::Valid { gateway, .. } => Some(gateway),
            Self::Invalid(_) => None,
        }
    }

    /// What is to be advertised.
    pub fn wanted(&self) -> &[Ipv4Net] {
        match self {
            Self::Valid { wanted, .. } => wanted,
            Self::Invalid(_) => &[],
        }
    }
}

/// What Headscale says, or why it says nothing.
#[derive(Debug, Clone)]
pub enum Control {
    /// There is no such Tailnet.
    NoTailnet,
    /// The Tailnet is not valid, for this reason.
    BadTailnet(String),
    /// There is no API key to ask with, for this reason.
    NoApiKey(String),
    /// It gave no list of its nodes.
    Unreachable(String),
    /// These are its nodes.
    Listed(Arc<NodeList>),
}

/// What the agent says.
#[derive(Debug, Clone)]
pub enum Agent {
    /// There is nobody to ask.
    Absent,
    /// It is being asked for the first time.
    Connecting,
    /// It does not answer, for this reason.
    Unreachable(String),
    /// Its newest report.
    Reported(Arc<StatusReport>),
}

impl Snapshot {
    /// The nodes, if Headscale gave them.
    pub fn nodes(&self) -> Option<&NodeList> {
        match &self.control {
            Control::Listed(nodes) => Some(nodes),
            Control::NoTailnet
            | Control::BadTailnet(_)
            | Control::NoApiKey(_)
            | Control::Unreachable(_) => None,
        }
    }

    /// The gateway's node. It has our host name: ids of nodes and keys and addresses are small numbers
    /// that a Headscale which was set up anew gives again, to others. Of those that logged in with a key
    /// of ours, it is the one whose address tailscaled says it has; else the one that was known before;
    /// else, while tailscaled has no address, the newest. Should our keys be gone from Headscale, or the
    /// Secret that names them, the one that was known before.
    pub fn node(&self) -> Option<&Node> {
        let nodes = self.nodes()?;
        let keys = self.keys();
        let ours = |node: &&Node| {
            node.key.is_some_and(|key| keys.contains(&key))
                && !self.notes.strangers.contains(&node.id)
        };
        let addresses = self.addresses();
        let has_address = |node: &&Node| node.addresses.iter().any(|at| addresses.contains(at));
        let newest = || {
            let named = nodes.iter().rev().filter(|node| self.bears_its_name(node));
            named.filter(ours)
        };
        let known = self.known_node().and_then(|id| nodes.get(id));
        let known = known.filter(|node| self.bears_its_name(node));
        newest()
            .find(has_address)
            .or_else(|| known.filter(ours))
            .or_else(|| newest().next().filter(|_| addresses.is_empty()))
            .or(known)
    }

    /// Whether a node has the gateway's host name.
    pub fn bears_its_name(&self, node: &Node) -> bool {
        let gateway = self.spec.gateway();
        gateway.is_some_and(|gateway| node.hostname.eq_ignore_ascii_case(&gateway.hostname))
    }

    /// The node that was last seen as the gateway's.
    pub fn known_node(&self) -> Option<NodeId> {
        let known = self.subject.before.node_id.as_ref()?.parse().ok()?;
        (!self.notes.strangers.contains(&known)).then_some(known)
    }

    /// The tailnet addresses that tailscaled says it has.
    fn addresses(&self) -> Vec<IpAddr> {
        self.report()
            .and_then(|report| report.tailnet.as_ref())
            .filter(|tailnet| tailnet.backend_state != "NeedsLogin")
            .into_iter()
            .flat_map(|tailnet| &tailnet.addresses)
            .filter_map(|address| address.parse().ok())
            .collect()
    }

    /// The ids of keys that were minted for this gateway.
    pub fn keys(&self) -> Vec<KeyId> {
        self.key
            .id()
            .into_iter()
            .chain(self.receipt.key())
            .collect()
    }

    /// When keys were minted in the hour before `now`, oldest first.
    pub fn minted_lately(&self, now: Timestamp) -> Vec<Timestamp> {
        let remembered = self.notes.minted.iter().copied();
        let all: BTreeSet<Timestamp> = remembered.chain(self.key.minted_lately(now)).collect();
        all.into_iter()
            .filter(|at| now.duration_since(*at) < secrets::HOUR)
            .collect()
    }

    /// When the next key may be minted; None for now.
    pub fn next_mint(&self, now: Timestamp) -> Option<Timestamp> {
        secrets::next_mint(&self.minted_lately(now), now)
    }

    /// The agent's report.
    pub fn report(&self) -> Option<&StatusReport> {
        match &self.agent {
            Agent::Reported(report) => Some(report),
            Agent::Absent | Agent::Connecting | Agent::Unreachable(_) => None,
        }
    }

    /// The address that the load balancer gave.
    pub fn service_addresses(&self) -> Vec<Ipv4Addr> {
        let service = self
            .children
            .iter()
            .find(|child| child.kind == super::Kind::Service);
        service
            .and_then(|child| child.live.as_ref())
            .and_then(|live| live.pointer("/status/loadBalancer/ingress"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|ingress| ingress.get("ip")?.as_str()?.parse().ok())
            .collect()
    }
}

/// A prefix of a list of both families.
pub(super) fn v4(prefix: Ipv4Net) -> IpNet {
    IpNet::V4(prefix)
}
