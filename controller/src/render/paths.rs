//! Where things are in the containers.

/// Where the agent's binary is in its image.
pub(super) const AGENT_BINARY: &str = "/tsunaro-agent";
/// Where the install container puts a copy, for the tailscale container.
pub(super) const BIN_DIR: &str = "/opt/tsunaro";
/// That copy.
pub(super) const INSTALLED_BINARY: &str = "/opt/tsunaro/tsunaro-agent";

/// The agent's config file: directory, and file in it.
pub(super) const AGENT_CONFIG_DIR: &str = "/etc/tsunaro/config";
pub(super) const AGENT_CONFIG_FILE: &str = "gateway.yaml";
/// The hosts file.
pub(super) const HOSTS_DIR: &str = "/etc/tsunaro/hosts";
pub(super) const HOSTS_FILE: &str = "hosts";
/// The pre-auth key; also its key in the Secret.
pub(super) const KEY_DIR: &str = "/etc/tsunaro/key";
pub(super) const KEY_FILE: &str = "authkey";

/// tailscaled's config file and the certificates of its control server.
pub(super) const TAILSCALED_CONFIG_DIR: &str = "/etc/tailscaled";
pub(super) const TAILSCALED_CONFIG_FILE: &str = "tailscaled.json";
pub(super) const CA_FILE: &str = "ca.crt";

/// The directory that both containers share, and tailscaled's socket in it.
pub(super) const SOCKET_DIR: &str = "/run/tailscale";
pub(super) const SOCKET_FILE: &str = "tailscaled.sock";
/// Where client libraries look for the token.
pub(super) const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The device of kernel-mode tailscaled.
pub(super) const TUN: &str = "/dev/net/tun";

/// `directory/file`.
pub(super) fn in_dir(directory: &str, file: &str) -> String {
    format!("{directory}/{file}")
}
