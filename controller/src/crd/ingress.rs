//! `TailnetIngress`, as far as a gateway reads it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NameRef;

/// One service of the cluster that tailnet clients know by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "tsunaro.io",
    version = "v1alpha1",
    kind = "TailnetIngress",
    plural = "tailnetingresses",
    shortname = "tning",
    category = "tsunaro",
    namespaced,
    status = "TailnetIngressStatus",
    derive = "PartialEq",
    doc = "One service of the cluster that tailnet clients know by a name of the tailnet's ingressNameTemplate.",
    printcolumn = r#"{"name":"Tailnet","type":"string","jsonPath":".spec.tailnetRef.name"}"#,
    printcolumn = r#"{"name":"Address","type":"string","jsonPath":".spec.address","description":"Where clients are to reach it."}"#,
    printcolumn = r#"{"name":"Observed","type":"string","jsonPath":".status.address","description":"Where clients reach it now; wins over the address."}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TailnetIngressSpec {
    /// The Tailnet whose clients use it. Example: `{ name: corp }`.
    pub tailnet_ref: NameRef,
    /// IPv4 address at which tailnet clients reach the service, usually a load balancer address inside
    /// a gateway's `tailnetLBCIDR`. Default: what `status.address` says. Example: `198.51.100.20`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 45))]
    pub address: Option<String>,
}

/// What whoever serves the ingress observed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TailnetIngressStatus {
    /// The `metadata.generation` that this status is about; -1 before anybody saw the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// IPv4 address at which clients reach it now; wins over the spec's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Conditions, `Ready` among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
