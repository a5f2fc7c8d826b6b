//! From a gateway to the nine Kubernetes objects that run it. Pure: equal input, equal objects.
//!
//! Secrets are no part of them: the state Secret and the key Secret hold data that others write, and
//! the receipt is made once. No object has owner references, since garbage collection would take
//! what `deletionPolicy: Retain` promises to keep.

mod access;
mod config;
mod disruption;
mod meta;
mod names;
mod paths;
mod pod;
mod services;
mod workload;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
pub use names::Names;
use serde::Serialize;
use serde_json::Value;
use tsunaro_model::gateway::{Egress, Gateway, Tailnet};

/// The label with the UID of the gateway that an object belongs to.
pub const UID_LABEL: &str = meta::UID;
/// The key of the pre-auth key in its Secret.
pub const AUTH_KEY: &str = paths::KEY_FILE;

/// The image with both binaries, of this version.
pub const DEFAULT_AGENT_IMAGE: &str =
    concat!("ghcr.io/tsunaro/tsunaro:v", env!("CARGO_PKG_VERSION"));

/// What the objects are made from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The gateway.
    pub gateway: &'a Gateway,
    /// Its tailnet. None: only in dry runs; the control server's address is then one that no name
    /// server knows.
    pub tailnet: Option<&'a Tailnet>,
    /// Egresses of any tailnet.
    pub egresses: &'a [Egress],
    /// Where the objects live.
    pub namespace: &'a str,
}

/// The nine objects, in the order in which they are to be applied.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Objects {
    /// Who tailscaled is to the API server.
    pub service_account: ServiceAccount,
    /// What it may do: read and write its state Secret.
    pub role: Role,
    /// That it may.
    pub role_binding: RoleBinding,
    /// That nobody drains the Pod by accident.
    pub disruption_budget: PodDisruptionBudget,
    /// DNS for tailnet clients.
    pub service: Service,
    /// DNS for the cluster.
    pub dns_service: Service,
    /// The StatefulSet's own Service, and metrics.
    pub headless_service: Service,
    /// The config files of the agent and of tailscaled.
    pub config_map: ConfigMap,
    /// The Pod.
    pub stateful_set: StatefulSet,
}

/// Renders the nine objects.
pub fn render(input: &Input<'_>) -> Objects {
    Objects {
        service_account: access::service_account(input),
        role: access::role(input),
        role_binding: access::role_binding(input),
        disruption_budget: disruption::disruption_budget(input),
        service: services::load_balancer(input),
        dns_service: services::cluster(input),
        headless_service: services::headless(input),
        config_map: config::config_map(input),
        stateful_set: workload::stateful_set(input),
    }
}

impl Objects {
    /// The objects as JSON, in order, as a server-side apply wants them.
    ///
    /// # Errors
    /// A value that JSON cannot hold; these objects have none.
    pub fn to_values(&self) -> Result<[Value; 9], serde_json::Error> {
        let Self {
            service_account,
            role,
            role_binding,
            disruption_budget,
            service,
            dns_service,
            headless_service,
            config_map,
            stateful_set,
        } = self;
        Ok([
            serde_json::to_value(service_account)?,
            serde_json::to_value(role)?,
            serde_json::to_value(role_binding)?,
            serde_json::to_value(disruption_budget)?,
            serde_json::to_value(service)?,
            serde_json::to_value(dns_service)?,
            serde_json::to_value(headless_service)?,
            serde_json::to_value(config_map)?,
            serde_json::to_value(stateful_set)?,
        ])
    }
}

#[cfg(test)]
mod tests;
