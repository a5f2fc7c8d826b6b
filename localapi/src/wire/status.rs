//! The daemon's status.

use std::net::IpAddr;

use serde::Deserialize;
use tsunaro_model::tailnet::{Backend, DaemonStatus, NodeStatus};

use crate::redact::Redactor;

/// `ipnstate.Status`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StatusReply {
    version: String,
    backend_state: String,
    #[serde(default)]
    have_node_key: bool,
    #[serde(rename = "AuthURL", default)]
    auth_url: String,
    #[serde(rename = "TailscaleIPs")]
    tailscale_ips: Option<Vec<IpAddr>>,
    #[serde(rename = "Self")]
    node: Option<NodeReply>,
    health: Option<Vec<String>>,
}

/// `ipnstate.PeerStatus`, of this node.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodeReply {
    #[serde(rename = "ID")]
    id: String,
    host_name: String,
    tags: Option<Vec<String>>,
    online: bool,
    key_expiry: Option<String>,
    #[serde(default)]
    expired: bool,
}

impl TryFrom<StatusReply> for DaemonStatus {
    type Error = String;

    fn try_from(reply: StatusReply) -> Result<Self, String> {
        let StatusReply {
            version,
            backend_state,
            have_node_key,
            auth_url,
            tailscale_ips,
            node,
            health,
        } = reply;
        let redactor = Redactor::default();
        Ok(Self {
            version,
            backend: backend_by_name(&backend_state)?,
            have_node_key,
            addresses: tailscale_ips.unwrap_or_default(),
            health: (health.unwrap_or_default().iter())
                .map(|text| redactor.clean(text))
                .collect(),
            auth_url,
            node: node.and_then(NodeReply::into_node),
        })
    }
}

impl NodeReply {
    /// None before the first login, when tailscaled fills in zero values.
    fn into_node(self) -> Option<NodeStatus> {
        let Self {
            id,
            host_name,
            tags,
            online,
            key_expiry,
            expired,
        } = self;
        (!id.is_empty()).then(|| NodeStatus {
            id,
            hostname: host_name,
            tags: tags.unwrap_or_default(),
            online,
            // Go's zero time is in year 1.
            key_expiry: key_expiry.filter(|time| !time.starts_with("0001-")),
            expired,
        })
    }
}

/// `ipn.State` as `State.String` writes it.
fn backend_by_name(name: &str) -> Result<Backend, String> {
    Ok(match name {
        "NoState" => Backend::NoState,
        "InUseOtherUser" => Backend::InUseOtherUser,
        "NeedsLogin" => Backend::NeedsLogin,
        "NeedsMachineAuth" => Backend::NeedsMachineAuth,
        "Stopped" => Backend::Stopped,
        "Starting" => Backend::Starting,
        "Running" => Backend::Running,
        _ => return Err(format!("unknown BackendState {name:?}")),
    })
}

/// `ipn.State`.
pub(super) fn backend_by_number(number: u8) -> Result<Backend, String> {
    Ok(match number {
        0 => Backend::NoState,
        1 => Backend::InUseOtherUser,
        2 => Backend::NeedsLogin,
        3 => Backend::NeedsMachineAuth,
        4 => Backend::Stopped,
        5 => Backend::Starting,
        6 => Backend::Running,
        _ => return Err(format!("unknown State {number}")),
    })
}
