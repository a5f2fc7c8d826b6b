//! `Tailnet`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KeyRef;
use super::status::Status;

/// One tailnet: its control server, its policy, its names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "tsunaro.io",
    version = "v1alpha1",
    kind = "Tailnet",
    plural = "tailnets",
    shortname = "tn",
    category = "tsunaro",
    status = "Status",
    derive = "PartialEq",
    doc = "A tailnet under a Headscale control server: how to reach it, who writes its policy, and where its names are.",
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.headscale.url","description":"Headscale's address."}"#,
    printcolumn = r#"{"name":"Policy","type":"string","jsonPath":".spec.policy.mode","description":"Who writes the policy."}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status","description":"Headscale answers, and the references resolve."}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TailnetSpec {
    /// The control server.
    pub headscale: Headscale,
    /// Who writes Headscale's policy, and whose routes it approves. Default: mode `Observe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Where names of the tailnet come from. Default: there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<TailnetDns>,
    /// IPv4 prefixes that no gateway may advertise, at most 128, such as the cluster's own Pod and
    /// Service ranges. Not the site's network or the load balancer range. Default: none. Example:
    /// `[10.96.0.0/12]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), inner(length(max = 43)), extend("x-kubernetes-list-type" = "set"))]
    pub reserved_networks: Option<Vec<String>>,
}

/// The control server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Headscale {
    /// Its address as nodes reach it (`server_url`). Example: `https://headscale.example.org`.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The Secret with an API key, as `headscale apikeys create` prints it, in the controller's
    /// namespace. The default of `key` is `apiKey`. Example: `{ name: headscale-api }`.
    pub api_key_secret_ref: KeyRef,
    /// Certificates in PEM that sign Headscale's, besides those that every system knows. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65536))]
    pub ca_bundle: Option<String>,
}

/// Who writes Headscale's policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// `Observe` writes nothing and says in a condition which lines are missing; `Apply` adds tag
    /// owners and route approvers to the base policy and approves what is wanted. Default: `Observe`.
    #[serde(default)]
    pub mode: PolicyMode,
    /// Tags whose routes the policy approves by itself, at most 16. Default: the tags of each gateway.
    /// Example: `[tag:fabric]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(max = 67)), extend("x-kubernetes-list-type" = "set"))]
    pub route_approvers: Option<Vec<String>>,
    /// The ConfigMap with the HuJSON policy to begin from, for `Apply`, in the controller's namespace.
    /// The default of `key` is `policy.hujson`. Default: the policy that Headscale has. Example:
    /// `{ name: tailnet-policy }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_config_map_ref: Option<KeyRef>,
}

/// Who writes Headscale's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum PolicyMode {
    /// A person.
    #[default]
    Observe,
    /// The controller.
    Apply,
}

/// Where names of the tailnet come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TailnetDns {
    /// The ConfigMap with the hosts file that gateways serve, in the controller's namespace. The
    /// controller writes it from egresses and ingresses, unless it belongs to somebody else. The default of `key` is `hosts`. Example:
    /// `{ name: tailnet-hosts }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts_config_map: Option<KeyRef>,
    /// Full name of an ingress, with `{name}` and, if wanted, `{namespace}` in it. Default: ingresses
    /// have no names. Example: `{name}-{namespace}.prod-1.tailnet.example.internal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub ingress_name_template: Option<String>,
}
