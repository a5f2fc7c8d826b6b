//! Starts a lab, and gives access to its parts.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::certs::{CONTROL_NAME, Certs};
use super::headscale::{DEFAULT_POLICY, Headscale};
use super::node::Node;
use super::rest::KeyOptions;
use super::run::Run;
use super::tailnet_node::{Prefs, TailnetNode};
use super::upstream::Upstream;
use super::wires::{self, CONTROL};
use crate::peers::{self, Peers};
use crate::{Step, Wait, packages};

/// The gateways' names in the tailnet.
pub const GATEWAY_HOSTNAMES: [&str; 2] = ["gw-1", "gw-2"];
/// The peer's name in the tailnet.
pub const PEER_HOSTNAME: &str = "peer-1";

/// How far a node's tailscaled is brought when the lab starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Not started.
    Off,
    /// Started, without a login: its socket answers.
    Daemon,
    /// Logged in and Running: gateways with `tag:fabric`, the peer with `tag:peer`.
    LoggedIn,
}

/// Which Headscale a lab runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlVersion {
    /// The pinned 0.29.
    V029,
    /// 0.28, for contract tests.
    V028,
}

/// What a lab starts with.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// The control server; by default 0.29.
    pub control: ControlVersion,
    /// The gateways; by default the first has a daemon and the second is off.
    pub gateways: [Start; 2],
    /// The peer; by default logged in.
    pub peer: Start,
    /// Whether the peer uses MagicDNS and split DNS; by default not.
    pub peer_accepts_dns: bool,
    /// Zones that Headscale tells peers to resolve at these addresses.
    pub split_dns: Vec<(String, Vec<String>)>,
    /// Headscale's policy, HuJSON.
    pub policy: String,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            control: ControlVersion::V029,
            gateways: [Start::Daemon, Start::Off],
            peer: Start::LoggedIn,
            peer_accepts_dns: false,
            split_dns: Vec::new(),
            policy: DEFAULT_POLICY.to_owned(),
        }
    }
}

/// A running tailnet on this machine. Dropping it removes all of it; if the
/// process is killed, the next start does.
#[derive(Debug)]
pub struct Lab {
    peers: Peers,
    headscale: Headscale,
    gateways: [TailnetNode; 2],
    peer: TailnetNode,
    lan_host: Node,
    upstream: Upstream,
    // Last, so that its drop finds the processes above ended.
    run: Run,
}

impl Lab {
    /// Starts a lab. Needs root, Go and the packages of `apt-packages.txt`.
    pub fn start(options: LabOptions) -> Result<Self> {
        let LabOptions {
            control: control_version,
            gateways: gateway_starts,
            peer: peer_start,
            peer_accepts_dns,
            split_dns,
            policy,
        } = options;
        check_machine()?;
        let mut peers = Peers::ensure()?;
        if control_version == ControlVersion::V028 {
            peers.headscale = peers::headscale_028()?;
        }
        let run = Run::begin()?;
        let step = Step::new(format!("start of lab {}", run.id()));
        wires::lay(&run)?;
        let certs = Certs::make(run.dir())?;

        let resolvers: String = wires::UPSTREAMS
            .iter()
            .map(|at| format!("nameserver {at}\n"))
            .collect();
        let node = |name: &'static str, resolv_conf: &str| {
            let hosts = format!("127.0.0.1 localhost\n::1 localhost\n{CONTROL} {CONTROL_NAME}\n");
            Node::new(name, run.namespace(name), run.dir(), &hosts, resolv_conf)
        };
        let tailnet_node = |name, resolv_conf: &str, hostname, is_peer: bool| {
            let prefs = Prefs {
                hostname,
                accept_dns: is_peer && peer_accepts_dns,
                accept_routes: is_peer,
            };
            TailnetNode::new(node(name, resolv_conf)?, &peers, &certs, prefs)
        };
        let gateways = [
            tailnet_node("gw1", &resolvers, GATEWAY_HOSTNAMES[0], false)?,
            tailnet_node("gw2", &resolvers, GATEWAY_HOSTNAMES[1], false)?,
        ];
        let peer = tailnet_node("peer", "", PEER_HOSTNAME, true)?;
        let nodes = || {
            let starts = gateway_starts.into_iter().chain([peer_start]);
            gateways.iter().chain([&peer]).zip(starts)
        };
        for (node, start) in nodes() {
            if start != Start::Off {
                node.start()?;
            }
        }
        // Meanwhile the daemons come up.
        let control = node("control", "")?;
        let headscale = Headscale::start_new(&control, &peers, &certs, &split_dns)?;
        headscale.rest().set_policy(&policy)?;
        for (node, start) in nodes() {
            match start {
                Start::Off => {}
                Start::Daemon => node.wait_socket()?,
                Start::LoggedIn => {
                    let tag = if node.name() == "peer" {
                        "tag:peer"
                    } else {
                        "tag:fabric"
                    };
                    node.login(&headscale.rest().preauth_key(&KeyOptions::tagged(tag))?)?;
                }
            }
        }
        for (node, start) in nodes() {
            if start == Start::LoggedIn {
                node.wait_running()?;
            }
        }
        let lan_host = node("lan", "")?;
        let upstream = Upstream {
            node: node("upstream", "")?,
        };
        step.done();
        Ok(Self {
            peers,
            headscale,
            gateways,
            peer,
            lan_host,
            upstream,
            run,
        })
    }

    /// The run's id, part of all names of this lab.
    #[must_use]
    pub fn id(&self) -> &str {
        self.run.id()
    }

    /// The run's directory, with a directory for each node.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.run.dir()
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// The pinned programs.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The control server.
    #[must_use]
    pub fn headscale(&self) -> &Headscale {
        &self.headscale
    }

    /// The gateway 1 or 2.
    pub fn gateway(&self, number: usize) -> Result<&TailnetNode> {
        number
            .checked_sub(1)
            .and_then(|index| self.gateways.get(index))
            .with_context(|| format!("there is no gateway {number}, only 1 and 2"))
    }

    /// The peer.
    #[must_use]
    pub fn peer(&self) -> &TailnetNode {
        &self.peer
    }

    /// The host on the site's LAN, which also holds the egress target.
    #[must_use]
    pub fn lan_host(&self) -> &Node {
        &self.lan_host
    }

    /// The machine of the upstream resolvers.
    #[must_use]
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Waits for a condition, see [`Wait::until`]; a timeout shows the ends of
    /// all logs of the lab.
    pub fn wait_until<T>(
        &self,
        what: &str,
        timeout: Duration,
        probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        Wait::new(what, timeout)
            .logs([self.run.dir().to_owned()])
            .until(probe)
    }
}

/// Whether this machine can hold a lab; else one line with what is missing.
pub(crate) fn check_machine() -> Result<()> {
    let tun = Path::new("/dev/net/tun").exists();
    check(nix::unistd::geteuid().is_root(), &packages::missing(), tun)
}

fn check(root: bool, missing_packages: &[&str], tun: bool) -> Result<()> {
    if !root {
        bail!("the lab needs root, for network namespaces: run these tests as root");
    }
    if !missing_packages.is_empty() {
        bail!(
            "the lab needs the packages {}: run `cargo xtask setup`",
            missing_packages.join(", ")
        );
    }
    if !tun {
        bail!("the lab needs /dev/net/tun, for tailscaled: run `modprobe tun`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_machine_that_cannot_hold_a_lab_is_told_what_is_missing_in_one_line() {
        let says = |root, packages: &[&str], tun| {
            let text = check(root, packages, tun).unwrap_err().to_string();
            assert_eq!(text.lines().count(), 1);
            text
        };
        assert!(says(false, &["nsd"], false).contains("as root"));
        assert!(says(true, &["nsd"], true).contains("packages nsd: run `cargo xtask"));
        assert!(says(true, &[], false).contains("/dev/net/tun"));
        assert!(check(true, &[], true).is_ok());
    }
}
