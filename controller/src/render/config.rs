//! The ConfigMap: the agent's config file, tailscaled's, and the certificates of its control server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tsunaro_model::config;
use tsunaro_model::gateway::{AgentPaths, agent_config};

use super::paths::{
    AGENT_CONFIG_FILE, CA_FILE, HOSTS_DIR, HOSTS_FILE, KEY_DIR, KEY_FILE, TAILSCALED_CONFIG_FILE,
    in_dir,
};
use super::{Input, Names, meta};

/// The control server of a dry run without a Tailnet: a name that never resolves (RFC 6761 §6.4), so
/// that tailscaled does not turn to its built-in one.
const NO_CONTROL_SERVER: &str = "https://no-tailnet-given.invalid";
/// The user who may change tailscaled's settings: the name of uid 65534 in the tailscale image.
const OPERATOR: &str = "nobody";

pub(super) fn config_map(input: &Input<'_>) -> ConfigMap {
    let mut data = BTreeMap::from([
        (AGENT_CONFIG_FILE.to_owned(), agent(input)),
        (TAILSCALED_CONFIG_FILE.to_owned(), tailscaled(input)),
    ]);
    if let Some(pem) = input.tailnet.and_then(|tailnet| tailnet.ca_bundle.clone()) {
        data.insert(CA_FILE.to_owned(), pem);
    }
    ConfigMap {
        metadata: meta::object(input, &Names::of(input.gateway).config_map),
        data: Some(data),
        ..ConfigMap::default()
    }
}

fn agent(input: &Input<'_>) -> String {
    let paths = AgentPaths {
        hosts: in_dir(HOSTS_DIR, HOSTS_FILE),
        auth_key: in_dir(KEY_DIR, KEY_FILE),
    };
    config::render(&agent_config(
        input.gateway,
        input.tailnet,
        input.egresses,
        paths,
    ))
}

/// No routes and no key: the agent sets both by the LocalAPI. Not locked, so that it can.
fn tailscaled(input: &Input<'_>) -> String {
    let server = input
        .tailnet
        .map_or(NO_CONTROL_SERVER, |tailnet| &tailnet.url);
    let config = json!({
        "version": "alpha0",
        "Locked": false,
        "Enabled": true,
        "ServerURL": server,
        "Hostname": input.gateway.hostname,
        "OperatorUser": OPERATOR,
        "AcceptDNS": false,
        "AcceptRoutes": false,
    });
    format!("{config:#}\n")
}
