//! What the controller observed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the controller observed of a gateway.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatus {
    /// The `metadata.generation` that this status is about; -1 before the controller saw the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The controller has begun to create the gateway: what makes it this node cannot change any
    /// more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// Id of the node at Headscale. Example: `42`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// IPv4 address of the node in the tailnet. Example: `100.64.0.17`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    /// Address that the load balancer gave to the Service. Example: `198.51.100.17`.
    #[serde(rename = "serviceIP", skip_serializing_if = "Option::is_none")]
    pub service_ip: Option<String>,
    /// Prefixes that carry traffic, of those that are wanted. Example: `2/3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes_serving: Option<String>,
    /// Every prefix that is wanted, advertised or approved, and how far it got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["prefix"]))]
    pub routes: Vec<RouteStatus>,
    /// Conditions: `Ready`, `Accepted`, `ResolvedRefs`, `RoutesInSync`, `WorkloadCurrent`,
    /// `ServiceReady`, `DNSReady`, `ClusterDNSForward`, `StaleNodes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How far one prefix got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteStatus {
    /// The prefix. Example: `192.0.2.0/24`.
    pub prefix: String,
    /// The spec or an egress asks for it.
    pub wanted: bool,
    /// The node advertises it, as Headscale sees it.
    pub advertised: bool,
    /// Headscale approved it for this node.
    pub approved: bool,
    /// This node carries its traffic now. False for a standby.
    pub serving: bool,
    /// Name of the node that carries its traffic now; absent when none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_by: Option<String>,
}

/// What the controller observed of another resource.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The `metadata.generation` that this status is about; -1 before the controller saw the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, `Ready` among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
