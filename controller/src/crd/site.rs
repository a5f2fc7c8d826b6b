//! `TailnetSite`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NameRef;
use super::status::Status;

/// One network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "tsunaro.io",
    version = "v1alpha1",
    kind = "TailnetSite",
    plural = "tailnetsites",
    shortname = "tnsite",
    category = "tsunaro",
    status = "Status",
    derive = "PartialEq",
    doc = "A network at a site: declared once, so that overlaps are seen and its state is known.",
    printcolumn = r#"{"name":"Tailnet","type":"string","jsonPath":".spec.tailnetRef.name"}"#,
    printcolumn = r#"{"name":"Prefixes","type":"string","jsonPath":".spec.prefixes"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Owner","type":"string","jsonPath":".spec.owner","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TailnetSiteSpec {
    /// The Tailnet that reaches the network. Example: `{ name: corp }`.
    pub tailnet_ref: NameRef,
    /// Prefixes of the network, 1 to 128: IPv4 without host bits. Example: `[192.0.2.0/24]`.
    #[schemars(length(min = 1, max = 128), inner(length(max = 43)), extend("x-kubernetes-list-type" = "set"))]
    pub prefixes: Vec<String>,
    /// Who to ask about it. Default: nobody. Example: `platform`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub owner: Option<String>,
    /// What it is. Default: nothing. Example: `prod-1 datacenter LAN, advertised by prod-1-gw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Tags of the nodes that advertise it, at most 16. Default: the tailnet's route approvers.
    /// Example: `[tag:fabric]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(max = 67)), extend("x-kubernetes-list-type" = "set"))]
    pub advertised_by: Option<Vec<String>>,
}
