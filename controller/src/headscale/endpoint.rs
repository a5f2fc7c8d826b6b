//! The requests that we send.

use std::fmt;

use http::Method;

use super::id::NodeId;

/// One request of Headscale's HTTP server (`proto/headscale/v1/headscale.proto`, and
/// `hscontrol/app.go` for health and version).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Health,
    Version,
    ApiKeys,
    MintKey,
    Keys,
    ExpireKey,
    Nodes,
    ExpireNode(NodeId),
    DisableExpiry(NodeId),
    DeleteNode(NodeId),
    ApproveRoutes(NodeId),
    Policy,
    SetPolicy,
}

impl Endpoint {
    pub(super) const fn method(self) -> Method {
        match self {
            Self::Health
            | Self::Version
            | Self::ApiKeys
            | Self::Keys
            | Self::Nodes
            | Self::Policy => Method::GET,
            Self::MintKey
            | Self::ExpireKey
            | Self::ExpireNode(_)
            | Self::DisableExpiry(_)
            | Self::ApproveRoutes(_) => Method::POST,
            Self::DeleteNode(_) => Method::DELETE,
            Self::SetPolicy => Method::PUT,
        }
    }

    pub(super) fn path_and_query(self) -> String {
        match self {
            Self::Health => "/health".to_owned(),
            Self::Version => "/version".to_owned(),
            Self::ApiKeys => "/api/v1/apikey".to_owned(),
            Self::MintKey | Self::Keys => "/api/v1/preauthkey".to_owned(),
            Self::ExpireKey => "/api/v1/preauthkey/expire".to_owned(),
            Self::Nodes => "/api/v1/node".to_owned(),
            Self::ExpireNode(id) => format!("/api/v1/node/{id}/expire"),
            Self::DisableExpiry(id) => format!("/api/v1/node/{id}/expire?disableExpiry=true"),
            Self::DeleteNode(id) => format!("/api/v1/node/{id}"),
            Self::ApproveRoutes(id) => format!("/api/v1/node/{id}/approve_routes"),
            Self::Policy | Self::SetPolicy => "/api/v1/policy".to_owned(),
        }
    }

    /// Whether the API key goes with it. The others need none, so they get none.
    pub(super) const fn needs_key(self) -> bool {
        !matches!(self, Self::Health | Self::Version)
    }

    /// Whether doing it twice is as good as once. Minting makes a second key.
    pub(super) const fn is_idempotent(self) -> bool {
        !matches!(self, Self::MintKey)
    }

    /// What can be missing at the server, so that its "not found" is about that.
    pub(super) const fn object(self) -> Option<&'static str> {
        match self {
            Self::ExpireKey => Some("pre-auth key"),
            Self::ExpireNode(_)
            | Self::DisableExpiry(_)
            | Self::DeleteNode(_)
            | Self::ApproveRoutes(_) => Some("node"),
            Self::Policy => Some("policy"),
            Self::Health
            | Self::Version
            | Self::ApiKeys
            | Self::MintKey
            | Self::Keys
            | Self::Nodes
            | Self::SetPolicy => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path_and_query();
        let path = path.strip_prefix("/api/v1").unwrap_or(&path);
        write!(f, "{} {path}", self.method())
    }
}
