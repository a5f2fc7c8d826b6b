//! The custom resources as Kubernetes sees them: wire types, schemas, rules.

mod domain;
mod egress;
mod export;
mod gateway;
mod ingress;
mod rules;
mod site;
mod status;
mod tailnet;

pub use domain::{Invalid, egress, gateway, ingress, site, tailnet};
pub use egress::{TailnetEgress, TailnetEgressSpec};
pub use export::{crds, to_yaml};
pub use gateway::{
    DeletionPolicy, ExtraZone, GatewayDns, GatewayIdentity, GatewayRoutes, GatewayService,
    StaticRecord, TailnetGateway, TailnetGatewaySpec,
};
pub use ingress::{TailnetIngress, TailnetIngressSpec, TailnetIngressStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use site::{TailnetSite, TailnetSiteSpec};
pub use status::{GatewayStatus, RouteStatus, Status};
pub use tailnet::{Headscale, Policy, PolicyMode, Tailnet, TailnetDns, TailnetSpec};

/// A reference to an object by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameRef {
    /// Name of the object. Example: `corp`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A reference to one key of a Secret or ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the Secret or ConfigMap, in the controller's namespace. Example:
    /// `headscale-api`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in it. Default: `apiKey` for an API key, `hosts` for a hosts file, `policy.hujson` for a
    /// policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}
