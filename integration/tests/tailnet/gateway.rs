//! A gateway of the lab with our agent in it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tsunaro_integration::agent_binary;
use tsunaro_integration::lab::{
    Cmd, EGRESS_TARGET, KeyOptions, LAN, LAN_HOST, LB_ADDRESS, LB_RANGE, Lab, Process, TailnetNode,
};
use tsunaro_integration::mount::Mount;

/// The zone of the worked example.
pub(crate) const ZONE: &str = "prod-1.tailnet.example.internal";

/// The agent and its mounted files.
pub(crate) struct Gateway<'a> {
    pub(crate) node: &'a TailnetNode,
    pub(crate) config: Mount,
    pub(crate) hosts: Mount,
    pub(crate) agent: Process,
}

/// The config with these egress targets.
pub(crate) fn config(targets: &[&str]) -> String {
    config_with(&format!("  egressTargets: [{}]\n", targets.join(", ")))
}

/// The config with these lines at the end of its routes.
pub(crate) fn config_with(routes: &str) -> String {
    format!(
        "apiVersion: agent.tsunaro.io/v1alpha1\n\
         kind: GatewayConfig\n\
         hosts: ../hosts/hosts\n\
         dns:\n\
         \x20 zone: {ZONE}\n\
         \x20 addresses: [{LB_ADDRESS}]\n\
         \x20 staticRecords:\n\
         \x20   - {{ name: router, address: {LAN_HOST} }}\n\
         \x20   - {{ name: api, target: kube-api-platform.{ZONE} }}\n\
         \x20 wildcardAddress: 198.51.100.80\n\
         tailnet:\n\
         \x20 authKeyFile: ../key/authkey\n\
         routes:\n\
         \x20 lan: [{LAN}]\n\
         \x20 tailnetLBCIDR: {LB_RANGE}\n\
         {routes}"
    )
}

/// A hosts file in which `dyn` has this address.
pub(crate) fn hosts(address: &str) -> String {
    format!("198.51.100.20 kube-api-platform.{ZONE}\n{address} dyn.{ZONE}\n")
}

impl<'a> Gateway<'a> {
    /// Starts the agent on gateway `number`, with a key for its tailscaled in the key file.
    pub(crate) fn start(lab: &'a Lab, number: usize, targets: &[&str]) -> Result<Self> {
        let key = fresh_key(lab)?;
        Self::lay(lab, number, targets, &key, &[])
    }

    /// The same with this content of the key file.
    pub(crate) fn start_with_key(
        lab: &'a Lab,
        number: usize,
        targets: &[&str],
        key: &str,
    ) -> Result<Self> {
        Self::lay(lab, number, targets, key, &[])
    }

    /// The same with more flags of the agent.
    pub(crate) fn start_with_flags(lab: &'a Lab, number: usize, flags: &[&str]) -> Result<Self> {
        let key = fresh_key(lab)?;
        Self::lay(lab, number, &[], &key, flags)
    }

    /// The agent anew over the files of one that has ended.
    pub(crate) fn start_again(lab: &'a Lab, ended: Self) -> Result<Self> {
        let Self {
            node,
            config,
            hosts,
            agent,
        } = ended;
        drop(agent);
        let agent = spawn(node, &config, &[])?;
        let gateway = Self {
            node,
            config,
            hosts,
            agent,
        };
        gateway.wait_condition(lab, "DNSReady", "True/Serving")?;
        Ok(gateway)
    }

    fn lay(
        lab: &'a Lab,
        number: usize,
        targets: &[&str],
        key: &str,
        flags: &[&str],
    ) -> Result<Self> {
        let node = lab.gateway(number)?;
        // As in the Pod, whose safe sysctl lets it bind port 53 without a capability.
        node.sh("sysctl -q -w net.ipv4.ip_unprivileged_port_start=0")?;
        let mounts = node.dir().join("mounts");
        let config = Mount::new(mounts.join("config"), &[("gateway.yaml", &config(targets))])?;
        let hosts = Mount::new(mounts.join("hosts"), &[("hosts", &hosts("198.51.100.21"))])?;
        Mount::new(mounts.join("key"), &[("authkey", key)])?;
        let agent = spawn(node, &config, flags)?;
        Ok(Self {
            node,
            config,
            hosts,
            agent,
        })
    }

    /// The status report.
    pub(crate) fn status(&self) -> Result<Value> {
        let (code, body) = self.node.http_get("http://127.0.0.1:9181/status")?;
        ensure!(code == 200, "/status answered {code}");
        serde_json::from_str(&body).context("the status is no JSON")
    }

    /// One text of the status report, by its JSON pointer; empty when it is absent.
    pub(crate) fn text(&self, pointer: &str) -> Result<String> {
        let status = self.status()?;
        let text = status.pointer(pointer).and_then(Value::as_str);
        Ok(text.unwrap_or_default().to_owned())
    }

    /// `True/Advertised` for a condition of the status report.
    pub(crate) fn condition(&self, kind: &str) -> Result<String> {
        self.entry("conditions", "type", kind)
            .map(|found| short(&found))
    }

    /// The message of a condition.
    pub(crate) fn message(&self, kind: &str) -> Result<String> {
        let found = self.entry("conditions", "type", kind)?;
        Ok(field(&found, "message"))
    }

    /// Waits until a condition reads so, with this in its message.
    pub(crate) fn wait_told(
        &self,
        lab: &Lab,
        kind: &str,
        expected: &str,
        words: &str,
    ) -> Result<()> {
        self.wait_condition(lab, kind, expected)?;
        let message = self.message(kind)?;
        ensure!(
            message.contains(words),
            "{kind}={expected} does not say {words:?}: {message}"
        );
        Ok(())
    }

    /// `True/Ok` for a kernel check of the status report.
    pub(crate) fn check(&self, name: &str) -> Result<String> {
        self.entry("kernelChecks", "name", name)
            .map(|found| short(&found))
    }

    /// The route truth of a prefix.
    pub(crate) fn route(&self, prefix: &str) -> Result<Value> {
        self.entry("routes", "prefix", prefix)
    }

    fn entry(&self, list: &str, key: &str, value: &str) -> Result<Value> {
        let status = self.status()?;
        let entries = status.get(list).and_then(Value::as_array);
        entries
            .with_context(|| format!("no {list}"))?
            .iter()
            .find(|entry| field(entry, key) == value)
            .cloned()
            .with_context(|| format!("no {value} in {list}"))
    }

    /// Waits until a condition reads so.
    pub(crate) fn wait_condition(&self, lab: &Lab, kind: &str, expected: &str) -> Result<()> {
        lab.wait_until(
            &format!("{kind}={expected}"),
            Duration::from_secs(45),
            || {
                let got = self.condition(kind)?;
                ensure!(got == expected, "it is {got}");
                Ok(Some(()))
            },
        )
    }

    /// What tailscaled advertises, sorted.
    pub(crate) fn advertised(&self) -> Result<Vec<String>> {
        let (_, prefs) = self.node.localapi("GET", "prefs", "")?;
        let prefs: Value = serde_json::from_str(&prefs).context("prefs are no JSON")?;
        let routes = prefs
            .get("AdvertiseRoutes")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let mut routes: Vec<String> = routes
            .iter()
            .filter_map(|r| r.as_str().map(str::to_owned))
            .collect();
        routes.sort();
        Ok(routes)
    }

    /// Waits until tailscaled advertises exactly these, sorted.
    pub(crate) fn wait_advertised(&self, lab: &Lab, expected: &[&str]) -> Result<()> {
        lab.wait_until("the advertised routes", Duration::from_secs(45), || {
            let got = self.advertised()?;
            ensure!(got == expected, "they are {got:?}");
            Ok(Some(()))
        })
    }
}

/// One text of an entry of the report.
pub(crate) fn field(entry: &Value, name: &str) -> String {
    let text = entry.get(name).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn short(entry: &Value) -> String {
    format!("{}/{}", field(entry, "status"), field(entry, "reason"))
}

/// A key for a gateway that was never used.
pub(crate) fn fresh_key(lab: &Lab) -> Result<String> {
    lab.headscale()
        .rest()
        .preauth_key(&KeyOptions::tagged("tag:fabric"))
}

fn spawn(node: &TailnetNode, config: &Mount, flags: &[&str]) -> Result<Process> {
    node.spawn(
        Cmd::new(agent_binary()?)
            .args([
                "run",
                "--dns-listen",
                "0.0.0.0:53",
                "--http-listen",
                "127.0.0.1:9181",
            ])
            .arg("--config")
            .arg(config.path("gateway.yaml"))
            .arg("--tailscaled-socket")
            .arg(node.socket())
            .args(flags.iter().copied())
            .name("agent")
            .unprivileged(),
    )
}

/// The full set with the egress target.
pub(crate) fn all_routes() -> Vec<String> {
    let mut routes = vec![
        LAN.to_owned(),
        LB_RANGE.to_owned(),
        format!("{EGRESS_TARGET}/32"),
    ];
    routes.sort();
    routes
}

/// Waits until the peer has, or no longer has, a route to `prefix` in its table 52.
pub(crate) fn wait_peer_route(lab: &Lab, prefix: &str, present: bool) -> Result<()> {
    // `ip route` writes a /32 without its length.
    let shown = prefix.trim_end_matches("/32").to_owned();
    lab.wait_until(
        &format!("{prefix} at the peer: {present}"),
        Duration::from_secs(30),
        || {
            let table = lab.peer().sh("ip route show table 52")?;
            let found = table
                .lines()
                .any(|line| line.split_whitespace().next() == Some(&shown));
            ensure!(found == present, "the table is {table}");
            Ok(Some(()))
        },
    )
}
