//! One lab for all clients: the agent beside tailscaled on a gateway, an upstream behind it, a
//! peer whose MagicDNS is told to ask it, and a LAN host for all other clients.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tsunaro_integration::agent_binary;
use tsunaro_integration::lab::{
    Cmd, GATEWAYS_LAN, KeyOptions, LAN, LAN_HOST, LB_ADDRESS, LB_RANGE, Lab, LabOptions, Node,
    Process, Start, UPSTREAMS, Zone,
};
use tsunaro_integration::mount::Mount;

/// The gateway's zone.
pub(crate) const ZONE: &str = "prod-1.tailnet.example.internal";
/// Its extra zone.
pub(crate) const EXTRA: &str = "corp.example";
/// The gateway as a LAN host reaches it.
pub(crate) const GATEWAY: &str = GATEWAYS_LAN[0];
/// The address of every name that does not exist.
pub(crate) const WILDCARD: &str = "198.51.100.80";
/// Addresses of `many`: too many for one datagram of any size that is asked for.
pub(crate) const MANY: u8 = 200;

/// The lab with a running agent.
pub(crate) struct Site {
    // Before the lab, so that they end before it.
    _agent: Process,
    _upstream: Process,
    hosts: Mutex<Mount>,
    /// The lab.
    pub(crate) lab: Lab,
}

impl Site {
    /// Starts the lab and the agent, and waits until it is ready.
    pub(crate) fn start() -> Result<Self> {
        let agent = agent_binary()?;
        let at = || vec![LB_ADDRESS.to_owned()];
        let lab = Lab::start(LabOptions {
            gateways: [Start::Daemon, Start::Off],
            peer_accepts_dns: true,
            split_dns: vec![(ZONE.to_owned(), at()), (EXTRA.to_owned(), at())],
            ..LabOptions::default()
        })?;
        let corp = Zone::new(EXTRA)
            .record("mail 60 IN A 192.0.2.25")
            .record("wiki 60 IN A 192.0.2.40")
            .record("proxy 60 IN A 203.0.113.99")
            .record("proxy 60 IN TXT from-upstream");
        let upstream = lab.upstream().serve(UPSTREAMS[0], &[corp])?;
        let key = lab
            .headscale()
            .rest()
            .preauth_key(&KeyOptions::tagged("tag:fabric"))?;
        let node = lab.gateway(1)?;
        // As in the Pod, whose safe sysctl lets it bind port 53 without a capability.
        node.sh("sysctl -q -w net.ipv4.ip_unprivileged_port_start=0")?;
        let mounts = node.dir().join("mounts");
        let config = Mount::new(mounts.join("config"), &[("gateway.yaml", &config())])?;
        let hosts_mount = Mount::new(mounts.join("hosts"), &[("hosts", &hosts(""))])?;
        Mount::new(mounts.join("key"), &[("authkey", &key)])?;
        let agent = node.spawn(
            Cmd::new(agent)
                .args(["run", "--dns-listen", "0.0.0.0:53"])
                .args(["--http-listen", "127.0.0.1:9181"])
                .arg("--config")
                .arg(config.path("gateway.yaml"))
                .arg("--tailscaled-socket")
                .arg(node.socket())
                .name("agent")
                .unprivileged(),
        )?;
        lab.wait_until("readiness", Duration::from_secs(30), || {
            Ok((node.http_get("http://127.0.0.1:9181/readyz")?.0 == 200).then_some(()))
        })?;
        Ok(Self {
            _agent: agent,
            _upstream: upstream,
            hosts: Mutex::new(hosts_mount),
            lab,
        })
    }

    /// The machine on which clients run that are no part of the tailnet.
    pub(crate) fn client(&self) -> &Node {
        self.lab.lan_host()
    }

    /// Swaps the hosts file for one with another line.
    pub(crate) fn add_host(&self, line: &str) -> Result<()> {
        self.hosts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .swap(&[("hosts", &hosts(line))])
            .context("swap the hosts file")
    }
}

/// A full name of the zone.
pub(crate) fn z(label: &str) -> String {
    format!("{label}.{ZONE}")
}

/// The addresses of `many`.
pub(crate) fn many() -> Vec<String> {
    (1..=MANY)
        .map(|host| Ipv4Addr::new(203, 0, 113, host).to_string())
        .collect()
}

fn hosts(line: &str) -> String {
    let mut text = format!(
        "198.51.100.20 {api}\n2001:db8::23 {six}\n198.51.100.24 {both}\n2001:db8::24 {both}\n\
         {WILDCARD} proxy.{EXTRA}\n{line}\n",
        api = z("kube-api-platform"),
        six = z("six"),
        both = z("both"),
    );
    for address in many() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{address} {}", z("many"));
    }
    text
}

fn config() -> String {
    format!(
        "apiVersion: agent.tsunaro.io/v1alpha1\n\
         kind: GatewayConfig\n\
         hosts: ../hosts/hosts\n\
         dns:\n\
         \x20 zone: {ZONE}\n\
         \x20 addresses: [{LB_ADDRESS}]\n\
         \x20 staticRecords:\n\
         \x20   - {{ name: router, address: {LAN_HOST} }}\n\
         \x20   - {{ name: api, target: kube-api-platform }}\n\
         \x20   - {{ name: chain, target: api }}\n\
         \x20   - {{ name: wiki, target: wiki.{EXTRA} }}\n\
         \x20   - {{ name: outside, target: www.example.org }}\n\
         \x20 wildcardAddress: {WILDCARD}\n\
         \x20 extraZones:\n\
         \x20   - {{ zone: {EXTRA}, upstreams: [\"{}\"] }}\n\
         tailnet:\n\
         \x20 authKeyFile: ../key/authkey\n\
         routes:\n\
         \x20 lan: [{LAN}]\n\
         \x20 tailnetLBCIDR: {LB_RANGE}\n",
        UPSTREAMS[0]
    )
}
