//! The next step of one gateway.

mod fresh;
mod teardown;

use std::collections::BTreeSet;

pub use fresh::Block;
use ipnet::IpNet;
use jiff::Timestamp;
use tsunaro_model::gateway;

use super::login;
use super::snapshot::{Child, Control, Owner, Snapshot, Spec, StateSecret, v4};
use crate::headscale::{KeyId, NodeId};

/// One of the nine objects, in the order in which they are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Who tailscaled is to the API server.
    ServiceAccount,
    /// What it may do.
    Role,
    /// That it may.
    RoleBinding,
    /// That nobody drains the Pod by accident.
    DisruptionBudget,
    /// DNS for tailnet clients.
    Service,
    /// DNS for the cluster.
    DnsService,
    /// The StatefulSet's own Service.
    HeadlessService,
    /// The config files.
    ConfigMap,
    /// The Pod's template.
    StatefulSet,
}

impl Kind {
    /// All of them in order.
    pub const ALL: [Self; 9] = [
        Self::ServiceAccount,
        Self::Role,
        Self::RoleBinding,
        Self::DisruptionBudget,
        Self::Service,
        Self::DnsService,
        Self::HeadlessService,
        Self::ConfigMap,
        Self::StatefulSet,
    ];

    /// Its kind in Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::DisruptionBudget => "PodDisruptionBudget",
            Self::Service | Self::DnsService | Self::HeadlessService => "Service",
            Self::ConfigMap => "ConfigMap",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Do this, then ask again.
    Do(Step),
    /// There is nothing to do now.
    Rest(Rest),
}

/// One step. Doing it twice does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Put the finalizer on the gateway: from now on there may be something to clean up.
    AddFinalizer,
    /// Say in the status that the identity cannot change any more.
    Pin,
    /// Create the state Secret, empty.
    CreateState,
    /// Expire the key with this expiration, should it have been minted: its text is lost.
    DiscardLostKey(Timestamp),
    /// Write down the intended expiration, mint a key, store it.
    MintKey,
    /// Apply one of the nine objects.
    Apply(Kind),
    /// Write the receipt, with the key by which the node logs in.
    WriteReceipt(Option<KeyId>),
    /// Take the used key out of its Secret, and with it the note of a renewal.
    EmptyKey,
    /// Note that the login of this node is being renewed, before the node is deleted.
    BeginRenewal(NodeId),
    /// Take back the expiry of the node.
    ReviveNode(NodeId),
    /// Note that this node is not the gateway's, although it used a key of it.
    NoteStranger(NodeId),
    /// Tell kubelet to refresh the Pod's mounts.
    RefreshMounts,
    /// Approve these prefixes of the node: the whole list as it is to be.
    ApproveRoutes(NodeId, BTreeSet<IpNet>),
    /// Delete one of the nine objects.
    Delete(Kind),
    /// Delete the node at Headscale.
    DeleteNode(NodeId),
    /// Expire the gateway's keys that are in no Secret any more.
    ExpireStrays,
    /// Expire the unused key in the Secret.
    ExpireKey(KeyId),
    /// Delete the key Secret.
    DeleteKey,
    /// Delete the state Secret.
    DeleteState,
    /// Delete the receipt.
    DeleteReceipt,
    /// Let the gateway's object go.
    RemoveFinalizer,
}

impl Step {
    /// A name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add_finalizer",
            Self::Pin => "pin",
            Self::CreateState => "create_state",
            Self::DiscardLostKey(_) => "discard_lost_key",
            Self::MintKey => "mint_key",
            Self::Apply(_) => "apply",
            Self::WriteReceipt(_) => "write_receipt",
            Self::EmptyKey => "empty_key",
            Self::BeginRenewal(_) => "begin_renewal",
            Self::ReviveNode(_) => "revive_node",
            Self::NoteStranger(_) => "note_stranger",
            Self::RefreshMounts => "refresh_mounts",
            Self::ApproveRoutes(..) => "approve_routes",
            Self::Delete(_) => "delete",
            Self::DeleteNode(_) => "delete_node",
            Self::ExpireStrays => "expire_strays",
            Self::ExpireKey(_) => "expire_key",
            Self::DeleteKey => "delete_key",
            Self::DeleteState => "delete_state",
            Self::DeleteReceipt => "delete_receipt",
            Self::RemoveFinalizer => "remove_finalizer",
        }
    }

    /// Whether it is decided upon a list of nodes that is no older than the decision.
    pub fn needs_fresh_list(&self) -> bool {
        matches!(
            self,
            Self::MintKey
                | Self::BeginRenewal(_)
                | Self::ReviveNode(_)
                | Self::NoteStranger(_)
                | Self::ApproveRoutes(..)
                | Self::DeleteNode(_)
        )
    }
}

/// Why there is nothing to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// All is as it should be, as far as writing goes.
    Settled,
    /// `suspend` is true.
    Suspended,
    /// The spec is not valid.
    Invalid,
    /// Something that it refers to is missing.
    Unresolved(Unresolved),
    /// Something that this gateway did not make is in its way.
    Blocked(Block),
    /// Too many keys were minted; the next one may be at this moment.
    MintLimit(Timestamp),
    /// The login is gone, and a person decides.
    LoginHeld(login::Loss),
    /// The Pod has to end before the deletion goes on.
    PodEnding,
    /// The deletion waits for a person, for this reason.
    DeletionBlocked(String),
    /// The object may go.
    Gone,
}

/// What is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// There is no such Tailnet.
    NoTailnet,
    /// The Tailnet is not valid.
    BadTailnet(String),
    /// There is no usable API key.
    NoApiKey(String),
    /// Headscale does not answer, and without it nothing can begin.
    Unreachable(String),
}

/// The next step of a gateway, or why there is none.
pub fn plan(snapshot: &Snapshot, now: Timestamp) -> Plan {
    if snapshot.subject.deleting {
        return teardown::plan(snapshot);
    }
    let gateway = match &snapshot.spec {
        Spec::Valid { gateway, .. } => gateway,
        Spec::Invalid(_) => return Plan::Rest(Rest::Invalid),
    };
    if gateway.suspend {
        return Plan::Rest(Rest::Suspended);
    }
    let begun = snapshot.receipt.is_ours();
    if let Some(unresolved) = unresolved(&snapshot.control, begun) {
        return Plan::Rest(Rest::Unresolved(unresolved));
    }
    if let Some(block) = fresh::block(snapshot) {
        return Plan::Rest(Rest::Blocked(block));
    }
    if !snapshot.subject.finalizer {
        return Plan::Do(Step::AddFinalizer);
    }
    if snapshot.subject.before.pinned != Some(true) {
        return Plan::Do(Step::Pin);
    }
    // With a receipt, an identity was there: a new Secret would only hide that it is gone.
    if snapshot.state == StateSecret::Missing && !begun {
        return Plan::Do(Step::CreateState);
    }
    if let Some(step) = login::step(snapshot, now) {
        return Plan::Do(step);
    }
    let login_rest = login::rest(snapshot, now);
    // Without a key there is nothing to run for, yet.
    if let Some(rest) = login_rest.clone().filter(|_| !begun) {
        return Plan::Rest(rest);
    }
    let open = |child: &&Child| child.is_drifted() && !snapshot.contested.contains(&child.kind);
    if let Some(child) = snapshot.children.iter().find(open) {
        return Plan::Do(Step::Apply(child.kind));
    }
    if !begun {
        return Plan::Do(Step::WriteReceipt(snapshot.key.id()));
    }
    if login::is_over(snapshot, now) {
        return Plan::Do(Step::EmptyKey);
    }
    if let Some(pod) = snapshot.pod.as_ref().filter(|pod| !pod.going)
        && pod.mounts.as_ref() != Some(&snapshot.mounts)
    {
        return Plan::Do(Step::RefreshMounts);
    }
    if let Some(step) = approval(snapshot) {
        return Plan::Do(step);
    }
    Plan::Rest(login_rest.unwrap_or(Rest::Settled))
}

/// What is missing. Once the gateway runs, Headscale may be away: nothing is taken back for that.
fn unresolved(control: &Control, begun: bool) -> Option<Unresolved> {
    match control {
        Control::NoTailnet => Some(Unresolved::NoTailnet),
        Control::BadTailnet(why) => Some(Unresolved::BadTailnet(why.clone())),
        Control::NoApiKey(why) if !begun => Some(Unresolved::NoApiKey(why.clone())),
        Control::Unreachable(why) if !begun => Some(Unresolved::Unreachable(why.clone())),
        Control::NoApiKey(_) | Control::Unreachable(_) | Control::Listed(_) => None,
    }
}

/// Approves what the node advertises and the gateway wants, where the policy is the controller's.
fn approval(snapshot: &Snapshot) -> Option<Step> {
    let tailnet = snapshot.tailnet.as_ref()?;
    if !matches!(tailnet.policy, gateway::Policy::Apply { .. }) {
        return None;
    }
    let node = snapshot
        .node()
        .filter(|node| !snapshot.busy.contains(&node.id))?;
    let missing: Vec<IpNet> = snapshot
        .spec
        .wanted()
        .iter()
        .copied()
        .map(v4)
        .filter(|prefix| node.advertised.contains(prefix) && !node.approved.contains(prefix))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let all = node.approved.iter().copied().chain(missing).collect();
    Some(Step::ApproveRoutes(node.id, all))
}

/// Who stands in the way of one of the nine objects.
fn foreign_child(snapshot: &Snapshot) -> Option<Block> {
    let uid = &snapshot.subject.uid;
    snapshot
        .children
        .iter()
        .find_map(|child| match child.owner(uid) {
            Owner::Foreign(owner) => Some(Block::Object {
                kind: child.kind,
                name: child.name.clone(),
                owner,
            }),
            Owner::Missing | Owner::Ours => None,
        })
}

#[cfg(test)]
mod tests;
