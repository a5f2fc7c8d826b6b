//! Namespaces, bridges, addresses and routes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::run::Run;

/// The control server on the "internet".
pub const CONTROL: &str = "203.0.113.10";
/// The gateways on the "internet".
pub const GATEWAYS_INTERNET: [&str; 2] = ["203.0.113.21", "203.0.113.22"];
/// The peer on the "internet".
pub const PEER_INTERNET: &str = "203.0.113.31";
/// The site's LAN.
pub const LAN: &str = "192.0.2.0/24";
/// A host of the LAN.
pub const LAN_HOST: &str = "192.0.2.1";
/// The gateways on the LAN.
pub const GATEWAYS_LAN: [&str; 2] = ["192.0.2.21", "192.0.2.22"];
/// The upstream resolvers' machine on the LAN.
pub const UPSTREAM_LAN: &str = "192.0.2.53";
/// The tailnet's range of load balancer addresses.
pub const LB_RANGE: &str = "198.51.100.0/24";
/// The gateways' load balancer address, on the loopback of both.
pub const LB_ADDRESS: &str = "198.51.100.17";
/// The upstream resolvers' addresses.
pub const UPSTREAMS: [&str; 2] = ["198.51.100.53", "198.51.100.54"];
/// A range behind the LAN host, with an egress target in it.
pub const EGRESS_RANGE: &str = "10.0.10.0/24";
/// An egress target: on the LAN host.
pub const EGRESS_TARGET: &str = "10.0.10.20";

/// The router of the "internet". It knows no other network and says so at
/// once, so that probes of the real internet fail fast instead of timing out.
const ROUTER: &str = "203.0.113.1";

/// A namespace that a lab's bridges are plugged into: where it is on each.
#[derive(Debug, Clone)]
pub(crate) struct Guest {
    pub(crate) namespace: String,
    /// Names the bridges' ports; at most ten letters.
    pub(crate) name: String,
    pub(crate) internet: String,
    pub(crate) lan: String,
}

/// The namespaces' nodes; `wire` holds the bridges.
pub(super) const NODES: [&str; 6] = ["control", "gw1", "gw2", "peer", "lan", "upstream"];
const WIRE: &str = "wire";

/// Lays everything. Nothing touches the machine's own network namespace, so
/// that names of interfaces need not be unique and nothing can be left there.
pub(super) fn lay(run: &Run) -> Result<()> {
    let mut all = String::new();
    for node in NODES.into_iter().chain([WIRE]) {
        writeln!(all, "netns add {}", run.namespace(node))?;
    }
    ip(None, &all)?;

    let mut wire = format!(
        "link set lo up\n\
         link add internet type bridge\n\
         link add lan type bridge\n\
         address add {ROUTER}/24 dev internet\n\
         link set internet up\n\
         link set lan up\n"
    );
    let internet = [
        ("control", CONTROL),
        ("gw1", GATEWAYS_INTERNET[0]),
        ("gw2", GATEWAYS_INTERNET[1]),
        ("peer", PEER_INTERNET),
    ];
    for (node, _) in internet {
        plug(run, &mut wire, node, "eth0", "internet")?;
    }
    let lan = [
        ("gw1", GATEWAYS_LAN[0]),
        ("gw2", GATEWAYS_LAN[1]),
        ("lan", LAN_HOST),
        ("upstream", UPSTREAM_LAN),
    ];
    for (node, _) in lan {
        plug(run, &mut wire, node, "eth1", "lan")?;
    }
    ip(Some(&run.namespace(WIRE)), &wire)?;

    for node in NODES {
        let mut batch = String::from("link set lo up\n");
        for (_, address) in internet.iter().filter(|(name, _)| *name == node) {
            writeln!(batch, "address add {address}/24 dev eth0\nlink set eth0 up")?;
            writeln!(batch, "route add default via {ROUTER}")?;
        }
        for (_, address) in lan.iter().filter(|(name, _)| *name == node) {
            writeln!(batch, "address add {address}/24 dev eth1\nlink set eth1 up")?;
        }
        match node {
            "gw1" | "gw2" => {
                writeln!(batch, "address add {LB_ADDRESS}/32 dev lo")?;
                for upstream in UPSTREAMS {
                    writeln!(batch, "route add {upstream} via {UPSTREAM_LAN}")?;
                }
                writeln!(batch, "route add {EGRESS_RANGE} via {LAN_HOST}")?;
            }
            "lan" => writeln!(batch, "address add {EGRESS_TARGET}/32 dev lo")?,
            "upstream" => {
                for upstream in UPSTREAMS {
                    writeln!(batch, "address add {upstream}/32 dev lo")?;
                }
            }
            _ => {}
        }
        ip(Some(&run.namespace(node)), &batch)?;
    }
    for node in ["gw1", "gw2", WIRE] {
        forward(&run.namespace(node))?;
    }
    Ok(())
}

/// Plugs a namespace into the bridges, as the gateways are: eth0 on the
/// "internet", eth1 on the LAN, with routes to the upstream resolvers and to
/// the egress range. Without a lab, bridges of its own stand in for them.
pub(crate) fn attach(lab: Option<&Run>, guest: &Guest) -> Result<()> {
    let mut batch = String::from("link set lo up\n");
    if let Some(run) = lab {
        let mut wire = String::new();
        plug_namespace(&mut wire, &guest.name, &guest.namespace, "eth0", "internet")?;
        plug_namespace(&mut wire, &guest.name, &guest.namespace, "eth1", "lan")?;
        ip(Some(&run.namespace(WIRE)), &wire)?;
    } else {
        batch.push_str("link add eth0 type bridge\nlink add eth1 type bridge\n");
    }
    for (interface, address) in [("eth0", &guest.internet), ("eth1", &guest.lan)] {
        writeln!(
            batch,
            "address add {address}/24 dev {interface}\nlink set {interface} up"
        )?;
    }
    writeln!(batch, "route add default via {ROUTER}")?;
    for upstream in UPSTREAMS {
        writeln!(batch, "route add {upstream} via {UPSTREAM_LAN}")?;
    }
    writeln!(batch, "route add {EGRESS_RANGE} via {LAN_HOST}")?;
    ip(Some(&guest.namespace), &batch)
}

/// Makes a network namespace.
pub(crate) fn add_namespace(namespace: &str) -> Result<()> {
    ip(None, &format!("netns add {namespace}\n"))
}

fn plug(run: &Run, wire: &mut String, node: &str, interface: &str, bridge: &str) -> Result<()> {
    plug_namespace(wire, node, &run.namespace(node), interface, bridge)
}

fn plug_namespace(
    wire: &mut String,
    name: &str,
    namespace: &str,
    interface: &str,
    bridge: &str,
) -> Result<()> {
    let port = format!("{name}-{interface}");
    writeln!(
        wire,
        "link add {port} type veth peer name {interface} netns {namespace}\n\
         link set {port} master {bridge} up"
    )?;
    Ok(())
}

fn forward(namespace: &str) -> Result<()> {
    let output = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{namespace}"))
        .args(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        .output()
        .context("run nsenter")?;
    if !output.status.success() {
        bail!(
            "ip_forward: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Runs a batch of `ip` commands, in a namespace or in the machine's own.
fn ip(namespace: Option<&str>, batch: &str) -> Result<()> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-netns", namespace]);
    }
    let mut child = command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("run ip")?;
    child
        .stdin
        .take()
        .context("ip has no standard input")?
        .write_all(batch.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!(
            "ip -batch: {}, in:\n{batch}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
