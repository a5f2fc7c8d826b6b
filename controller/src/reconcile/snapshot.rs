//! All that a plan and a verdict are made from, as it was at one moment.

mod child;
mod pod;
mod secrets;

use std::net::Ipv4Addr;
use std::sync::Arc;

pub use child::{Child, Owner, digest, drifted, ours};
use ipnet::{IpNet, Ipv4Net};
pub use pod::{Pod, Workload, pod, workload};
pub use secrets::{KeySecret, Receipt, StateSecret, key_secret, receipt, state_secret};
use serde_json::Value;
use tsunaro_model::gateway::{Gateway, Tailnet};
use tsunaro_model::report::StatusReport;

use crate::crd::{DeletionPolicy, GatewayStatus};
use crate::headscale::{KeyId, Node, NodeList};

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

    /// The gateway's node: the one that logged in with a key of ours. Should that key be gone from
    /// Headscale, or all that tells which keys are ours from here, the one that was known before.
    pub fn node(&self) -> Option<&Node> {
        let nodes = self.nodes()?;
        let keys = self.keys();
        let by_key = nodes
            .iter()
            .rev()
            .find(|node| node.key.is_some_and(|key| keys.contains(&key)));
        by_key.or_else(|| {
            let known = self.subject.before.node_id.as_ref()?.parse().ok()?;
            let hostname = &self.spec.gateway()?.hostname;
            nodes
                .get(known)
                .filter(|node| node.hostname.eq_ignore_ascii_case(hostname))
                .filter(|node| node.key.is_none() || keys.is_empty())
        })
    }

    /// The ids of keys that were minted for this gateway.
    pub fn keys(&self) -> Vec<KeyId> {
        self.key
            .id()
            .into_iter()
            .chain(self.receipt.key())
            .collect()
    }

    /// Whether the node has logged in at some time.
    pub fn has_logged_in(&self) -> bool {
        self.state.has_login() || self.key.is_spent() || self.node().is_some()
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
