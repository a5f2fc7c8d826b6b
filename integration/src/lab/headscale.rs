//! The control server: its process, its configuration and its command line.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use super::certs::{CONTROL_NAME, Certs};
use super::command::Cmd;
use super::node::Node;
use super::process::Process;
use super::rest::Rest;
use super::wires::CONTROL;
use crate::Wait;
use crate::peers::Peers;

/// The control server's URL, as nodes see it.
pub const CONTROL_URL: &str = "https://hs.lab.test:8443";

/// The policy that a lab starts with: `tag:fabric` may advertise the lab's
/// ranges without an approval by hand, and all may talk to all.
pub const DEFAULT_POLICY: &str = r#"{
  "tagOwners": { "tag:fabric": [], "tag:peer": [] },
  "autoApprovers": {
    "routes": {
      "192.0.2.0/24": ["tag:fabric"],
      "198.51.100.0/24": ["tag:fabric"],
      "10.0.10.0/24": ["tag:fabric"]
    }
  },
  "acls": [{ "action": "accept", "src": ["*"], "dst": ["*:*"] }]
}"#;

/// Headscale in the namespace `control`.
#[derive(Debug)]
pub struct Headscale {
    node: Node,
    binary: PathBuf,
    config: PathBuf,
    process: Mutex<Option<Process>>,
    rest: Rest,
}

impl Headscale {
    /// Writes the configuration, starts the server, and mints an API key.
    /// `split_dns` are zones with the resolvers that peers should ask.
    pub(super) fn start_new(
        node: &Node,
        peers: &Peers,
        certs: &Certs,
        split_dns: &[(String, Vec<String>)],
    ) -> Result<Self> {
        let config = node.write("headscale.yaml", &config(node, certs, split_dns)?)?;
        let mut headscale = Self {
            rest: Rest::new(node, certs),
            node: node.clone(),
            binary: peers.headscale.clone(),
            config,
            process: Mutex::new(None),
        };
        headscale.start()?;
        let key = headscale.cli(&["apikeys", "create", "--expiration", "24h"])?;
        let key = key
            .split_whitespace()
            .last()
            .context("headscale printed no API key")?;
        headscale.rest.set_key(key)?;
        Ok(headscale)
    }

    /// Starts the server and waits until it answers.
    pub fn start(&self) -> Result<()> {
        let process = self.node.spawn(
            Cmd::new(&self.binary)
                .arg("serve")
                .arg("--config")
                .arg(&self.config)
                .name("headscale"),
        )?;
        Wait::new("headscale's health", Duration::from_secs(20))
            .logs([process.log_path().to_owned()])
            .until(|| {
                if let Some(status) = process.try_wait()? {
                    bail!("headscale has ended: {status}");
                }
                self.rest.healthy().map(|()| Some(()))
            })?;
        *self.slot() = Some(process);
        Ok(())
    }

    /// Ends the server by a signal and waits for its end.
    pub fn stop(&self, signal: Signal) -> Result<()> {
        let process = self.slot().take().context("headscale does not run")?;
        process.kill(signal)?;
        process.wait(Duration::from_secs(15))?;
        Ok(())
    }

    /// Sends a signal, as SIGSTOP or SIGCONT.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.slot()
            .as_ref()
            .context("headscale does not run")?
            .kill(signal)
    }

    /// Runs the server's own command line; its standard output.
    pub fn cli(&self, args: &[&str]) -> Result<String> {
        let cmd = Cmd::new(&self.binary).arg("--config").arg(&self.config);
        self.node.run(cmd.args(args))?.ok()
    }

    /// Its REST interface.
    #[must_use]
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// The machine it runs on.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn config(node: &Node, certs: &Certs, split_dns: &[(String, Vec<String>)]) -> Result<String> {
    let dir = node.dir();
    let at = |name: &str| dir.join(name);
    let split: serde_json::Map<String, serde_json::Value> = split_dns
        .iter()
        .map(|(zone, resolvers)| (zone.clone(), resolvers.clone().into()))
        .collect();
    // JSON is YAML.
    let config = serde_json::json!({
        "server_url": CONTROL_URL,
        "listen_addr": "0.0.0.0:8443",
        "metrics_listen_addr": "127.0.0.1:9090",
        "grpc_listen_addr": "127.0.0.1:50443",
        "tls_cert_path": certs.cert,
        "tls_key_path": certs.key,
        "noise": { "private_key_path": at("noise.key") },
        "prefixes": {
            "v4": "100.64.0.0/10", "v6": "fd7a:115c:a1e0::/48", "allocation": "sequential",
        },
        "derp": {
            "server": {
                "enabled": true,
                "region_id": 999,
                "region_code": "lab",
                "region_name": CONTROL_NAME,
                "verify_clients": true,
                "stun_listen_addr": "0.0.0.0:3478",
                "private_key_path": at("derp.key"),
                "automatically_add_embedded_derp_region": true,
                "ipv4": CONTROL,
            },
            "urls": [],
            "paths": [],
            "auto_update_enabled": false,
        },
        "disable_check_updates": true,
        "database": { "type": "sqlite", "sqlite": { "path": at("db.sqlite") } },
        "policy": { "mode": "database" },
        "log": { "level": "info", "format": "text" },
        "dns": {
            "magic_dns": true,
            "base_domain": "tailnet.lab.test",
            "override_local_dns": false,
            "nameservers": { "global": [], "split": split },
        },
        "unix_socket": at("headscale.sock"),
        "logtail": { "enabled": false },
    });
    Ok(serde_json::to_string_pretty(&config)?)
}
