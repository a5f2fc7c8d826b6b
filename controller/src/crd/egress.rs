//! `TailnetEgress`, as far as a gateway reads it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NameRef;
use super::status::Status;

/// One host outside the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "tsunaro.io",
    version = "v1alpha1",
    kind = "TailnetEgress",
    plural = "tailnetegresses",
    shortname = "tneg",
    category = "tsunaro",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "One host at the site: gateways of its tailnet advertise it as a /32 and serve its names.",
    printcolumn = r#"{"name":"Tailnet","type":"string","jsonPath":".spec.tailnetRef.name"}"#,
    printcolumn = r#"{"name":"Target","type":"string","jsonPath":".spec.target","description":"Address of the host."}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TailnetEgressSpec {
    /// The Tailnet whose gateways route to the host. Example: `{ name: corp }`.
    pub tailnet_ref: NameRef,
    /// IPv4 address of the host. Example: `10.0.10.20`.
    #[schemars(length(min = 1, max = 45))]
    pub target: String,
    /// Full names that the hosts file gives to the host, at most 32. A name inside an extra zone of a
    /// gateway wins over what its upstreams say. Default: none. Example:
    /// `[billing-db.prod-1.tailnet.example.internal]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 254)))]
    pub dns_aliases: Option<Vec<String>>,
}
