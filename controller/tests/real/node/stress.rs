//! The controller under stress: routers that leave, logins that go, two controllers, neighbours that
//! write, servers that fail.

mod faults;
mod handover;
mod interrupted;
mod login;
mod neighbours;
mod replicas;
mod tenants;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::controller_binary;
use tsunaro_integration::lab::{CONTROL_URL, Cmd, LAN, Lab, Process};

use crate::beside::gateway;
use crate::installed::condition_of;
use crate::site::{NAMESPACE, Site, TAILSCALE_IMAGE};

/// A real node with Pods that log in, and the controller as a process beside them.
pub(crate) struct Live {
    pub(crate) site: Site,
    controller: PathBuf,
}

impl Live {
    pub(crate) fn start() -> Result<Self> {
        let controller = controller_binary()?;
        let site = Site::start()?;
        let deploy = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        for file in ["crds", "manifests/1-namespace.yaml"] {
            let path = deploy.join(file).display().to_string();
            site.kubectl(&["apply", "--server-side", "-f", &path])?;
        }
        site.kubectl(&[
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=30s",
        ])?;
        let live = Self { site, controller };
        live.apply(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "headscale-api", "namespace": NAMESPACE },
            "stringData": { "apiKey": live.site.lab.headscale().rest().api_key() },
        }))?;
        live.apply(&json!({
            "apiVersion": "tsunaro.io/v1alpha1", "kind": "Tailnet", "metadata": { "name": "corp" },
            "spec": {
                "headscale": {
                    "url": CONTROL_URL,
                    "apiKeySecretRef": { "name": "headscale-api" },
                    "caBundle": std::fs::read_to_string(live.site.lab.peer().ca())?,
                },
            },
        }))?;
        Ok(live)
    }

    /// A controller of its own flags.
    pub(crate) fn run(&self, flags: &[&str]) -> Result<Process> {
        let config = self.site.node.kubeconfig().display().to_string();
        self.site.node.machine().spawn(
            Cmd::new(&self.controller)
                .args([
                    "run",
                    "--http-listen",
                    "127.0.0.1:9182",
                    "--log-format",
                    "text",
                ])
                .args(flags.iter().copied())
                .env("KUBECONFIG", config),
        )
    }

    pub(crate) fn apply(&self, object: &Value) -> Result<()> {
        self.site.node.apply(&object.to_string())
    }

    /// A gateway for the lab's LAN and nothing but it.
    pub(crate) fn gateway(
        &self,
        name: &str,
        number: u8,
        change: impl FnOnce(&mut Value),
    ) -> Result<()> {
        self.apply(&gateway(name, number, |object| {
            object["spec"]["image"] = TAILSCALE_IMAGE.into();
            change(object);
        }))
    }

    /// Until it is ready and its routes are approved.
    pub(crate) fn wait_well(&self, name: &str) -> Result<()> {
        self.wait_condition(name, "Ready", "True/FreshRuntimeReady")?;
        self.wait_condition(name, "RoutesInSync", "True/Approved")
            .map(drop)
    }

    pub(crate) fn wait_condition(&self, name: &str, kind: &str, expected: &str) -> Result<String> {
        self.wait(&format!("{kind}={expected} of {name}"), || {
            let (is, message) =
                condition_of(&self.site.node.get(&["tailnetgateway", name])?, kind)?;
            ensure!(is == expected, "{is}: {message}");
            Ok(Some(message))
        })
    }

    /// Waits at most three minutes; a timeout shows the controller's log.
    pub(crate) fn wait<T>(
        &self,
        what: &str,
        probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let log = self
            .site
            .node
            .machine()
            .dir()
            .join("tsunaro-controller.log");
        tsunaro_integration::Wait::new(what, Duration::from_secs(180))
            .logs([log])
            .until(probe)
    }

    /// A number of the controller's metrics.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let (code, text) = self
            .site
            .node
            .machine()
            .http_get("http://127.0.0.1:9182/metrics")?;
        ensure!(code == 200, "{code}");
        number(&text, name)
    }
}

/// The value of a metric in a text.
pub(crate) fn number(text: &str, name: &str) -> Result<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .with_context(|| format!("no {name}"))?
        .parse()
        .context("a number")
}

/// What is approved for each node, by its name.
pub(crate) fn approvals(lab: &Lab) -> Result<BTreeMap<String, Vec<String>>> {
    let nodes = lab.headscale().rest().nodes()?;
    let all = nodes.into_iter().map(|mut node| {
        node.approved_routes.sort();
        (node.given_name, node.approved_routes)
    });
    Ok(all.collect())
}

/// Who carries the traffic to the LAN.
pub(crate) fn primary(lab: &Lab) -> Result<String> {
    let nodes = lab.headscale().rest().nodes()?;
    let primary = nodes
        .into_iter()
        .find(|node| node.subnet_routes.iter().any(|route| route == LAN));
    Ok(primary.context("nobody serves the LAN")?.given_name)
}
