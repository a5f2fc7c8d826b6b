//! The objects as written: their structure is right, their values are not judged yet. What is
//! absent although required has been reported.

use crate::config::wire::{ExtraZone, StaticRecord};
use crate::document::{Given, Text};
use crate::finding::Place;

/// `metadata`, as far as anything here depends on it.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) name: Option<Text>,
    pub(super) namespace: Option<Text>,
    pub(super) uid: Option<Text>,
}

/// A `TailnetGateway`.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) metadata: Metadata,
    pub(super) spec: GatewaySpec,
    pub(super) pinned: Option<Given<bool>>,
}

/// Its `spec`.
#[derive(Debug)]
pub(super) struct GatewaySpec {
    pub(super) suspend: Option<Given<bool>>,
    pub(super) deletion_policy: Option<Text>,
    pub(super) tailnet_ref: Option<Text>,
    pub(super) hostname: Option<Text>,
    pub(super) tags: Option<Given<Vec<Text>>>,
    pub(super) state_secret_ref: Option<Text>,
    pub(super) image: Option<Text>,
    pub(super) replicas: Option<Given<i64>>,
    pub(super) routes: Option<GatewayRoutes>,
    pub(super) service: Option<GatewayService>,
    pub(super) dns: Option<GatewayDns>,
    pub(super) identity: Option<Identity>,
    /// Fields that older manifests may have and that are refused, each with its place.
    pub(super) rejected: Vec<(Rejected, Place)>,
}

/// Fields that the schema declares only to refuse them with a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejected {
    Forwards,
    ForwardImage,
    AuthKeySecretRef,
    Adoption,
}

/// `spec.routes`.
#[derive(Debug)]
pub(super) struct GatewayRoutes {
    pub(super) lan: Option<Given<Vec<Text>>>,
    pub(super) advertise_egress_targets: Option<Given<bool>>,
    pub(super) aggregate: Option<Given<bool>>,
    pub(super) snat: Option<Given<bool>>,
}

/// `spec.service`.
#[derive(Debug)]
pub(super) struct GatewayService {
    pub(super) load_balancer_ip: Option<Text>,
    pub(super) load_balancer_class: Option<Text>,
    pub(super) tailnet_lb_cidr: Option<Text>,
    pub(super) pool_labels: Option<Given<Vec<(Text, Text)>>>,
}

/// `spec.dns`.
#[derive(Debug)]
pub(super) struct GatewayDns {
    pub(super) zone: Option<Text>,
    pub(super) service_name: Option<Text>,
    pub(super) service_cluster_ip: Option<Text>,
    pub(super) image: Option<Text>,
    pub(super) static_records: Option<Given<Vec<StaticRecord>>>,
    pub(super) wildcard_address: Option<Text>,
    pub(super) extra_zones: Option<Given<Vec<ExtraZone>>>,
    pub(super) ttl: Option<Given<i64>>,
    pub(super) negative_ttl: Option<Given<i64>>,
}

/// `spec.identity`.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) on_loss: Option<Text>,
    pub(super) on_revoked: Option<Text>,
}

/// A `Tailnet`.
#[derive(Debug)]
pub(super) struct Tailnet {
    pub(super) metadata: Metadata,
    pub(super) headscale: Option<Headscale>,
    pub(super) policy: Option<Policy>,
    pub(super) dns: Option<TailnetDns>,
    pub(super) reserved_networks: Option<Given<Vec<Text>>>,
}

/// `spec.headscale`.
#[derive(Debug)]
pub(super) struct Headscale {
    pub(super) url: Option<Text>,
    pub(super) api_key_secret_ref: Option<KeyRef>,
    pub(super) ca_bundle: Option<Text>,
}

/// A reference to one key of a Secret or ConfigMap.
#[derive(Debug)]
pub(super) struct KeyRef {
    pub(super) name: Option<Text>,
    pub(super) key: Option<Text>,
}

/// `spec.policy`.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) mode: Option<Text>,
    pub(super) route_approvers: Option<Given<Vec<Text>>>,
    pub(super) base_config_map: Option<KeyRef>,
}

/// `spec.dns` of a tailnet.
#[derive(Debug)]
pub(super) struct TailnetDns {
    pub(super) hosts_config_map: Option<KeyRef>,
    pub(super) ingress_name_template: Option<Text>,
}

/// A `TailnetEgress`.
#[derive(Debug)]
pub(super) struct Egress {
    pub(super) metadata: Metadata,
    pub(super) tailnet_ref: Option<Text>,
    pub(super) target: Option<Text>,
    pub(super) dns_aliases: Option<Given<Vec<Text>>>,
}

/// A `TailnetIngress`.
#[derive(Debug)]
pub(super) struct Ingress {
    pub(super) metadata: Metadata,
    pub(super) tailnet_ref: Option<Text>,
    pub(super) address: Option<Text>,
    pub(super) observed_address: Option<Text>,
}

/// A `TailnetSite`.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) metadata: Metadata,
    pub(super) tailnet_ref: Option<Text>,
    pub(super) prefixes: Option<Given<Vec<Text>>>,
    pub(super) owner: Option<Text>,
    pub(super) description: Option<Text>,
    pub(super) advertised_by: Option<Given<Vec<Text>>>,
}

/// One object of a file.
#[derive(Debug)]
pub(super) enum Object {
    Gateway(Box<Gateway>),
    Tailnet(Box<Tailnet>),
    Egress(Egress),
    Ingress(Ingress),
    Site(Site),
}
