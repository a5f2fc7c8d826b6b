//! `TailnetGateway`.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NameRef;
use super::status::GatewayStatus;

/// What the gateway is to be. Fields that are fixed once pinned can neither change nor appear nor
/// vanish after `status.pinned` became true: delete the gateway with `deletionPolicy: Delete` and
/// make a new one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "tsunaro.io",
    version = "v1alpha1",
    kind = "TailnetGateway",
    plural = "tailnetgateways",
    shortname = "tngw",
    shortname = "tgw",
    category = "tsunaro",
    status = "GatewayStatus",
    derive = "PartialEq",
    doc = "A subnet router and split-DNS resolver between this cluster, its site and a Headscale tailnet, in one Pod.",
    printcolumn = r#"{"name":"Hostname","type":"string","jsonPath":".spec.hostname","description":"Node name at Headscale."}"#,
    printcolumn = r#"{"name":"Suspended","type":"boolean","jsonPath":".spec.suspend","description":"Nothing is created or changed while true."}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status","description":"The Pod runs, and the node is online and advertises its routes."}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason","description":"Why it is ready or not."}"#,
    printcolumn = r#"{"name":"Routes","type":"string","jsonPath":".status.routesServing","description":"Prefixes that carry traffic, of those that are wanted."}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Tailnet-IP","type":"string","jsonPath":".status.ipv4","priority":1,"description":"Address of the node in the tailnet."}"#,
    printcolumn = r#"{"name":"Service-IP","type":"string","jsonPath":".status.serviceIP","priority":1,"description":"Address that tailnet clients ask for names."}"#,
    printcolumn = r#"{"name":"Node-ID","type":"string","jsonPath":".status.nodeId","priority":1,"description":"Id of the node at Headscale."}"#,
    printcolumn = r#"{"name":"Zone","type":"string","jsonPath":".spec.dns.zone","priority":1,"description":"Domain that the gateway answers for."}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1,"description":"What the reason means here."}"#
)]
#[serde(rename_all = "camelCase")]
pub struct TailnetGatewaySpec {
    /// Whether to leave everything as it is: nothing is created before this is first false, and
    /// nothing is changed when it becomes true again; what runs goes on running. Default: true.
    #[serde(default = "yes")]
    pub suspend: bool,
    /// What deleting this object does. `Retain` leaves the node, its Secret and all objects running;
    /// `Delete` removes them. Default: `Retain`.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// The Tailnet to join. Fixed once pinned. Example: `{ name: corp }`.
    pub tailnet_ref: NameRef,
    /// Name of the node at Headscale: one label of a-z, 0-9 and hyphens, at most 63 characters.
    /// Fixed once pinned. Example: `prod-1-gw`.
    #[schemars(length(min = 1, max = 63))]
    pub hostname: String,
    /// Tags of the node at Headscale, 1 to 16, each `tag:` and a name. For automatic approval one of
    /// them must be among the policy's route approvers. Fixed once pinned. Default: `[tag:fabric]`.
    #[serde(default = "fabric")]
    #[schemars(length(min = 1, max = 16), inner(length(max = 67)), extend("x-kubernetes-list-type" = "set"))]
    pub tags: Vec<String>,
    /// The Secret that holds the node's identity, in the controller's namespace. It is created empty; an
    /// existing one that is not this gateway's is never touched. Fixed once pinned. Example:
    /// `{ name: prod-1-gw-state }`.
    pub state_secret_ref: NameRef,
    /// The tailscale image, with a version tag or a digest, never `latest`. A change takes effect when
    /// the Pod is deleted. Example: `ghcr.io/tailscale/tailscale:v1.102.4`.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// Number of Pods: always 1, since a node identity belongs to one process. For redundancy make a
    /// second TailnetGateway with the same routes. Default: 1.
    #[serde(default = "one")]
    pub replicas: i32,
    /// What the gateway routes. Changes are applied live, without a restart.
    pub routes: GatewayRoutes,
    /// The load balancer Service by which tailnet clients ask for names.
    pub service: GatewayService,
    /// The resolver: its zone and records, and how the cluster reaches it.
    pub dns: GatewayDns,
    /// What to do when the node's login is gone. Default: `{ onLoss: Renew, onRevoked: Hold }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<GatewayIdentity>,
    /// Refused: a gateway forwards no TCP ports. Make a TailnetIngress for each service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = "array", "items" = { "type": "object", "x-kubernetes-preserve-unknown-fields": true }))]
    pub forwards: Option<Value>,
    /// Refused: a gateway forwards no TCP ports. Make a TailnetIngress for each service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = "string"))]
    pub forward_image: Option<Value>,
    /// Refused: the controller makes its own pre-auth keys, single-use and tag-bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = "object", "x-kubernetes-preserve-unknown-fields" = true))]
    pub auth_key_secret_ref: Option<Value>,
    /// Refused: a gateway is always a new node and never adopts an existing router.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = "object", "x-kubernetes-preserve-unknown-fields" = true))]
    pub adoption: Option<Value>,
}

/// What deleting the object does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Everything stays.
    #[default]
    Retain,
    /// Everything goes.
    Delete,
}

/// What the gateway routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRoutes {
    /// Prefixes of the site's network, 1 to 128: IPv4 without host bits; not the default route, not
    /// loopback, link-local, multicast or 100.64.0.0/10. Example: `[192.0.2.0/24]`.
    #[schemars(length(min = 1, max = 128), inner(length(max = 43)), extend("x-kubernetes-list-type" = "set"))]
    pub lan: Vec<String>,
    /// Whether the target of every TailnetEgress of this tailnet is advertised as a /32. Default: true.
    #[serde(default = "yes")]
    pub advertise_egress_targets: bool,
    /// Whether prefixes that another one covers are left out. Set it to false when something else
    /// expects to see each /32. Default: true.
    #[serde(default = "yes")]
    pub aggregate: bool,
    /// Whether hosts of the site see the gateway's own address as the sender of what the tailnet sends.
    /// With false they see the peer's, and need a route for 100.64.0.0/10 to the gateway. Default: true.
    #[serde(default = "yes")]
    pub snat: bool,
}

/// The load balancer Service by which tailnet clients ask for names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayService {
    /// IPv4 address of the Service, inside `tailnetLBCIDR`: the nameserver that Headscale's split-DNS
    /// names. Fixed once pinned. Example: `198.51.100.17`.
    #[serde(rename = "loadBalancerIP")]
    #[schemars(length(min = 1, max = 45))]
    pub load_balancer_ip: String,
    /// Class of the load balancer that serves the Service. Needed where a cloud's own load balancer
    /// would take it. Fixed once pinned. Default: none, the cluster's default. Example:
    /// `io.cilium/l2-announcer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub load_balancer_class: Option<String>,
    /// IPv4 prefix of all tailnet-facing load balancer addresses, advertised as a whole. Example:
    /// `198.51.100.0/24`.
    #[serde(rename = "tailnetLBCIDR")]
    #[schemars(length(min = 1, max = 43))]
    pub tailnet_lb_cidr: String,
    /// Labels of the Service, by which the load balancer picks its pool; at most 16. Default: none.
    /// Example: `{ io.cilium/lb-pool: tailnet }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16))]
    pub pool_labels: Option<BTreeMap<String, String>>,
}

/// The resolver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayDns {
    /// Domain that the gateway alone answers for, in lower case, without a final dot. Fixed once pinned.
    /// Example: `prod-1.tailnet.example.internal`.
    #[schemars(length(min = 1, max = 253))]
    pub zone: String,
    /// Name of the Service that the cluster's own resolver forwards to. Fixed once pinned. Example:
    /// `prod-1-gw-dns`.
    #[schemars(length(min = 1, max = 63))]
    pub service_name: String,
    /// IPv4 address of that Service: a free one of the cluster's Service range. Fixed once pinned. Example:
    /// `10.96.0.54`.
    #[serde(rename = "serviceClusterIP")]
    #[schemars(length(min = 1, max = 45))]
    pub service_cluster_ip: String,
    /// The agent's image, with a version tag or a digest, never `latest`. A change takes effect when
    /// the Pod is deleted. An image of CoreDNS, as older manifests have it, is answered by the default.
    /// Default: the image of the controller's own version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Records of the zone that never move, at most 256. They win over names of the hosts file.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub static_records: Option<Vec<StaticRecord>>,
    /// IPv4 address of every name of the zone that does not exist (RFC 4592). Default: none, such
    /// names do not exist. Example: `198.51.100.80`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 45))]
    pub wildcard_address: Option<String>,
    /// Other domains, at most 32: names that the hosts file has are answered, all others forwarded.
    /// Zones must lie beside each other. Fixed once pinned. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["zone"]))]
    pub extra_zones: Option<Vec<ExtraZone>>,
    /// Seconds that clients may keep an answer, 1 to 3600. Default: 30.
    #[serde(default = "thirty")]
    #[schemars(range(min = 1, max = 3600))]
    pub ttl: i32,
    /// Seconds that clients may keep "there is no such name", 1 to 3600. Default: 5.
    #[serde(default = "five", rename = "negativeTTL")]
    #[schemars(range(min = 1, max = 3600))]
    pub negative_ttl: i32,
}

/// One record: a name with an address or a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticRecord {
    /// Name relative to the zone, or `@` for the zone itself. Several entries of one name with
    /// addresses make one record set. Example: `api`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// IPv4 or IPv6 address of the name. Either this or `target`. Example: `192.0.2.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 45))]
    pub address: Option<String>,
    /// Name of which this one is an alias (CNAME): one label for a name in the zone, or a full name.
    /// Either this or `address`. Example: `kube-api-platform.prod-1.tailnet.example.internal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 254))]
    pub target: Option<String>,
}

/// Another domain and who knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraZone {
    /// The domain, in lower case, without a final dot. Example: `corp.example`.
    #[schemars(length(min = 1, max = 253))]
    pub zone: String,
    /// DNS servers that know it, 1 to 8 in order of preference: an address, or an address and a port
    /// (port 53 unless given). Example: `["198.51.100.53", "198.51.100.54:5353"]`.
    #[schemars(length(min = 1, max = 8), inner(length(max = 53)))]
    pub upstreams: Vec<String>,
}

/// What to do when the node's login is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayIdentity {
    /// The state Secret was lost or emptied: `Renew` logs in as a new node, at most three times an
    /// hour; `Hold` waits for a person. Default: `Renew`.
    #[serde(default = "renew")]
    pub on_loss: OnGone,
    /// An administrator expired or deleted the node at Headscale: `Hold` respects that and waits for a
    /// person; `Renew` logs in again. Default: `Hold`.
    #[serde(default = "hold")]
    pub on_revoked: OnGone,
}

/// What to do about a login that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnGone {
    /// Log in again.
    Renew,
    /// Wait for a person.
    Hold,
}

fn yes() -> bool {
    true
}

fn fabric() -> Vec<String> {
    vec!["tag:fabric".to_owned()]
}

fn one() -> i32 {
    1
}

fn thirty() -> i32 {
    30
}

fn five() -> i32 {
    5
}

fn renew() -> OnGone {
    OnGone::Renew
}

fn hold() -> OnGone {
    OnGone::Hold
}
