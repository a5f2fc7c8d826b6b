//! tailscaled under its supervisor.

use k8s_openapi::api::core::v1::Container;

use super::super::Input;
use super::super::paths::{
    BIN_DIR, CA_FILE, INSTALLED_BINARY, SOCKET_DIR, SOCKET_FILE, TAILSCALED_CONFIG_DIR,
    TAILSCALED_CONFIG_FILE, TOKEN_DIR, TUN, in_dir,
};
use super::{mount, read_only, requests, security, variable, volumes, words};

/// WireGuard's UDP port, fixed so that firewalls and NetworkPolicies can name it; by itself tailscaled
/// takes any.
const WIREGUARD_PORT: u16 = 41641;

/// Started before the agent and ended after it. Without probes: a restarting tailscaled must not take
/// the Pod's DNS with it.
pub(super) fn container(input: &Input<'_>) -> Container {
    let config = in_dir(TAILSCALED_CONFIG_DIR, TAILSCALED_CONFIG_FILE);
    let socket = in_dir(SOCKET_DIR, SOCKET_FILE);
    let state = &input.gateway.state_secret;
    let mut environment = vec![
        // Nothing is sent to a log server.
        variable("TS_NO_LOGS_NO_SUPPORT", "true"),
        // The image's iptables may not fit the node's kernel; nftables needs no program.
        variable("TS_DEBUG_FIREWALL_MODE", "nftables"),
        // The state is read without the cluster's DNS.
        variable("TS_KUBERNETES_READ_API_SERVER_ADDRESS_FROM_ENV", "true"),
        // Where the supervisor learns that tailscaled is stuck without its state store.
        variable("TSUNARO_TAILSCALED_SOCKET", &socket),
    ];
    if input
        .tailnet
        .is_some_and(|tailnet| tailnet.ca_bundle.is_some())
    {
        let file = in_dir(TAILSCALED_CONFIG_DIR, CA_FILE);
        environment.push(variable("SSL_CERT_FILE", file));
    }
    Container {
        name: "tailscale".to_owned(),
        image: Some(input.gateway.image.to_string()),
        restart_policy: Some("Always".to_owned()),
        command: Some(words(&[INSTALLED_BINARY, "supervise", "--"])),
        args: Some(words(&[
            "tailscaled",
            &format!("--config={config}"),
            &format!("--state=kube:{state}"),
            &format!("--socket={socket}"),
            &format!("--port={WIREGUARD_PORT}"),
        ])),
        env: Some(environment),
        security_context: Some(security::network_admin()),
        resources: Some(requests("50m", "64Mi")),
        volume_mounts: Some(vec![
            read_only(volumes::BIN, BIN_DIR),
            mount(volumes::SOCKET, SOCKET_DIR),
            read_only(volumes::TAILSCALED_CONFIG, TAILSCALED_CONFIG_DIR),
            read_only(volumes::TOKEN, TOKEN_DIR),
            mount(volumes::TUN, TUN),
        ]),
        ..Container::default()
    }
}
