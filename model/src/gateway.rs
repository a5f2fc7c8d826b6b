//! The custom resources of a gateway as domain types: what has been parsed is valid.
//!
//! One validation serves the files of `render` and `check` and the objects that the controller
//! reads from the API server: those come in as JSON, which is YAML too.

mod agent;
mod hosts;
mod image;
mod meaning;
mod parse;
mod pinned;
mod structure;
mod together;
mod wire;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

pub use agent::{AgentPaths, agent_config, wanted_routes};
pub use hosts::{HostsFile, Source, hosts_file};
pub use image::{Image, ImageError};
use ipnet::Ipv4Net;
pub use parse::{Object, Parsed, parse};
pub use pinned::{PINNED_FIELDS, changed_pinned_fields};
pub use together::check_together;

use crate::config::DnsConfig;
use crate::finding::Position;
use crate::name::DnsName;

/// `apiVersion` of the custom resources.
pub const API_VERSION: &str = "tsunaro.io/v1alpha1";

/// One gateway: a subnet router and split-DNS resolver in one Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// The object's name; it names the Pod, the load balancer Service and the rest.
    pub name: String,
    /// The object's UID. None in a file that never was in a cluster.
    pub uid: Option<String>,
    /// Nothing is created or changed.
    pub suspend: bool,
    /// What deleting the object does.
    pub deletion_policy: DeletionPolicy,
    /// The tailnet it joins.
    pub tailnet: String,
    /// Its node name at Headscale.
    pub hostname: String,
    /// Its tags at Headscale, at least one.
    pub tags: Vec<String>,
    /// The Secret that holds the node's identity.
    pub state_secret: String,
    /// The tailscale image.
    pub image: Image,
    /// What it routes.
    pub routes: Routes,
    /// How tailnet clients reach its resolver.
    pub service: Service,
    /// How the cluster reaches its resolver, and what it answers.
    pub dns: Dns,
    /// What to do when its login is gone.
    pub identity: Identity,
    /// The controller has begun to create it: its identity must not change any more.
    pub pinned: bool,
}

/// What deleting a gateway's object does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeletionPolicy {
    /// Node, Secret and objects stay.
    #[default]
    Retain,
    /// All of them go.
    Delete,
}

/// What a gateway routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    /// The site's LAN prefixes, 1 to 128.
    pub lan: Vec<Ipv4Net>,
    /// Every egress target becomes a /32.
    pub advertise_egress_targets: bool,
    /// Prefixes that another one covers are left out.
    pub aggregate: bool,
    /// What comes from the tailnet leaves with the gateway's own address.
    pub snat: bool,
}

/// How tailnet clients reach a gateway's resolver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The address that clients ask.
    pub load_balancer_ip: Ipv4Addr,
    /// Which implementation serves the Service. None: the cluster's default.
    pub load_balancer_class: Option<String>,
    /// The whole range of tailnet-facing load balancer addresses, advertised.
    pub tailnet_lb_cidr: Ipv4Net,
    /// Labels by which the implementation picks its pool.
    pub pool_labels: BTreeMap<String, String>,
}

/// How the cluster reaches a gateway's resolver, and what it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// The Service that the cluster's resolver forwards to.
    pub service_name: String,
    /// Its fixed address.
    pub service_cluster_ip: Ipv4Addr,
    /// The agent's image. None: the controller's default.
    pub image: Option<Image>,
    /// Zone, records, extra zones and TTLs, as in the agent's config file.
    pub config: DnsConfig,
}

/// What to do when a gateway's login is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its state was lost.
    pub on_loss: OnGone,
    /// An administrator expired or deleted its node.
    pub on_revoked: OnGone,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            on_loss: OnGone::Renew,
            on_revoked: OnGone::Hold,
        }
    }
}

/// What to do about a login that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnGone {
    /// Log in again as a new node.
    Renew,
    /// Report it and wait for a person.
    Hold,
}

/// A tailnet: its control server, policy and names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tailnet {
    /// The object's name.
    pub name: String,
    /// Headscale's base URL, without a final slash.
    pub url: String,
    /// The Secret with Headscale's API key.
    pub api_key: KeyRef,
    /// Certificates that sign Headscale's, in PEM, besides the system's.
    pub ca_bundle: Option<String>,
    /// Who writes the policy.
    pub policy: Policy,
    /// Tags whose routes the policy approves by itself.
    pub route_approvers: Vec<String>,
    /// The ConfigMap with the hosts file. None: no dynamic names.
    pub hosts: Option<KeyRef>,
    /// Names of ingresses, with `{name}` and `{namespace}`. None: ingresses have no names.
    pub ingress_names: Option<String>,
    /// Prefixes that nobody may advertise.
    pub reserved_networks: Vec<Ipv4Net>,
}

/// One key of a Secret or ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRef {
    /// The object's name.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// Who writes Headscale's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// A person; the controller only says what is missing.
    Observe,
    /// The controller, on top of this base.
    Apply {
        /// A HuJSON policy to begin from. None: an empty one.
        base: Option<KeyRef>,
    },
}

/// One host outside the cluster that Pods reach through the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The object's namespace. None: the default one.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
    /// The tailnet.
    pub tailnet: String,
    /// The host's address.
    pub target: Ipv4Addr,
    /// Full names that the hosts file gives it.
    pub dns_aliases: Vec<DnsName>,
}

/// One name of the cluster for tailnet clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// The object's namespace. None: the default one.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
    /// The tailnet.
    pub tailnet: String,
    /// Where clients reach it; what was observed wins over what was asked for. None: not yet known.
    pub address: Option<Ipv4Addr>,
}

/// A network at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The object's name.
    pub name: String,
    /// The tailnet.
    pub tailnet: String,
    /// The network's prefixes.
    pub prefixes: Vec<Ipv4Net>,
    /// Who to ask about it.
    pub owner: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Tags of those who advertise it. Empty: the tailnet's route approvers.
    pub advertised_by: Vec<String>,
}

/// Where an object begins in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The object.
    pub object: Object,
    /// Its first line and column.
    pub position: Position,
}

#[cfg(test)]
mod tests;
