//! From the custom resources to the agent's config and the set of routes.

use ipnet::Ipv4Net;

use super::{Dns, Egress, Gateway, Routes, Tailnet};
use crate::config::{Config, Listen, RoutesConfig, TailnetConfig};
use crate::routes;

/// Where the agent finds its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPaths {
    /// The hosts file.
    pub hosts: String,
    /// The pre-auth key.
    pub auth_key: String,
}

/// The agent's config. Where to listen is left to its flags. Without a tailnet, or with one that
/// has no hosts ConfigMap, there are no dynamic names.
pub fn agent_config(
    gateway: &Gateway,
    tailnet: Option<&Tailnet>,
    egresses: &[Egress],
    paths: AgentPaths,
) -> Config {
    let AgentPaths { hosts, auth_key } = paths;
    let Dns { config: dns, .. } = &gateway.dns;
    Config {
        listen: Listen::default(),
        hosts: tailnet
            .and_then(|tailnet| tailnet.hosts.as_ref())
            .map(|_| hosts),
        dns: dns.clone(),
        tailnet: TailnetConfig {
            auth_key_file: Some(auth_key),
        },
        routes: Some(routes_config(gateway, egresses)),
    }
}

/// What the gateway advertises: canonical, sorted.
pub fn wanted_routes(gateway: &Gateway, egresses: &[Egress]) -> Vec<Ipv4Net> {
    routes::wanted(&routes_config(gateway, egresses))
}

fn routes_config(gateway: &Gateway, egresses: &[Egress]) -> RoutesConfig {
    let Routes {
        lan,
        advertise_egress_targets,
        aggregate,
        snat,
    } = &gateway.routes;
    let mut targets: Vec<_> = egresses
        .iter()
        .filter(|egress| *advertise_egress_targets && egress.tailnet == gateway.tailnet)
        .map(|egress| egress.target)
        .collect();
    targets.sort_unstable();
    targets.dedup();
    RoutesConfig {
        lan: lan.clone(),
        tailnet_lb_cidr: Some(gateway.service.tailnet_lb_cidr),
        egress_targets: targets,
        aggregate: *aggregate,
        snat: *snat,
        refused: Vec::new(),
    }
}
