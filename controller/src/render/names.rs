//! What everything of a gateway is called.

use tsunaro_model::gateway::Gateway;

/// Names of a gateway's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The gateway itself; also its StatefulSet, load balancer Service, ServiceAccount, Role,
    /// RoleBinding and PodDisruptionBudget.
    pub gateway: String,
    /// Its Pod.
    pub pod: String,
    /// The Service for the cluster.
    pub dns_service: String,
    /// The Service of the StatefulSet.
    pub headless_service: String,
    /// The ConfigMap with both config files.
    pub config_map: String,
    /// The Secret with the node's identity.
    pub state_secret: String,
    /// The Secret with the pre-auth key.
    pub key_secret: String,
    /// The receipt: an immutable ConfigMap that says which node was made for which object.
    pub receipt: String,
}

impl Names {
    /// The names of this gateway's objects.
    pub fn of(gateway: &Gateway) -> Self {
        let name = &gateway.name;
        Self {
            gateway: name.clone(),
            pod: format!("{name}-0"),
            dns_service: gateway.dns.service_name.clone(),
            headless_service: format!("{name}-headless"),
            config_map: format!("{name}-agent"),
            state_secret: gateway.state_secret.clone(),
            key_secret: format!("{name}-authkey"),
            receipt: format!("{name}-fresh"),
        }
    }
}
