//! The controller as a process beside a real API server and a real Headscale.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::kube::{KubeNode, KubeOptions};
use tsunaro_integration::lab::{CONTROL_URL, Cmd, Lab, LabOptions, Process, Start};
use tsunaro_integration::{Wait, controller_binary, say};

use crate::{NAMESPACE, SOON};

pub(crate) struct Beside {
    pub(crate) node: KubeNode,
    pub(crate) lab: Lab,
    pub(crate) controller: PathBuf,
}

/// What of a node is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    /// Pods are made and scheduled, and wait for an image that is not there.
    Images,
    /// Nothing but the API server and its store.
    Kubelet,
}

impl Beside {
    /// With the lab's tailnet as `corp`.
    pub(crate) fn start() -> Result<Self> {
        let beside = Self::start_with(Without::Images)?;
        beside.tailnet(CONTROL_URL)?;
        Ok(beside)
    }

    /// Without a Tailnet.
    pub(crate) fn start_with(without: Without) -> Result<Self> {
        let pod = match without {
            Without::Images => Start::Off,
            // It stands for the Pod.
            Without::Kubelet => Start::Daemon,
        };
        let lab = Lab::start(LabOptions {
            gateways: [pod, Start::Off],
            peer: Start::Off,
            ..LabOptions::default()
        })?;
        let options = KubeOptions {
            lab: Some(&lab),
            ..KubeOptions::default()
        };
        let node = match without {
            Without::Images => KubeNode::start(options)?,
            Without::Kubelet => KubeNode::start_control_plane(options)?,
        };
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        for crd in std::fs::read_dir(root.join("deploy/crds"))? {
            node.apply(&std::fs::read_to_string(crd?.path())?)?;
        }
        node.kubectl(&[
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=30s",
        ])?
        .ok()?;
        let beside = Self {
            node,
            lab,
            controller: controller_binary()?,
        };
        beside.apply(
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        )?;
        beside.apply(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "headscale-api", "namespace": NAMESPACE },
            "stringData": { "apiKey": beside.lab.headscale().rest().api_key() },
        }))?;
        Ok(beside)
    }

    /// The Tailnet `corp`, with Headscale at this URL.
    pub(crate) fn tailnet(&self, url: &str) -> Result<()> {
        let mut headscale = json!({ "url": url, "apiKeySecretRef": { "name": "headscale-api" } });
        if url.starts_with("https:") {
            headscale["caBundle"] = std::fs::read_to_string(self.lab.peer().ca())?.into();
        }
        self.apply(&json!({
            "apiVersion": "tsunaro.io/v1alpha1", "kind": "Tailnet", "metadata": { "name": "corp" },
            "spec": { "headscale": headscale, "dns": { "hostsConfigMap": { "name": "tailnet-hosts" } } },
        }))
    }

    pub(crate) fn run(&self) -> Result<Process> {
        self.node.machine().spawn(
            Cmd::new(&self.controller)
                .args(["run", "--headscale-interval", "2", "--resync", "5"])
                .args(["--leader-elect", "false"])
                .args(["--http-listen", "127.0.0.1:9182", "--log-format", "text"])
                .env("KUBECONFIG", self.node.kubeconfig().display().to_string())
                .env(
                    "RUST_LOG",
                    "debug,kube=info,hyper=info,hyper_util=info,tower=info,rustls=info,h2=info",
                ),
        )
    }

    pub(crate) fn apply(&self, object: &Value) -> Result<()> {
        self.node.apply(&object.to_string())
    }

    pub(crate) fn names(&self, kinds: &str) -> Result<Vec<String>> {
        let list = self.node.get(&["--namespace", NAMESPACE, kinds])?;
        Ok(list["items"]
            .as_array()
            .context("items")?
            .iter()
            .map(|item| {
                format!(
                    "{} {}",
                    item["kind"].as_str().unwrap_or_default(),
                    item["metadata"]["name"].as_str().unwrap_or_default()
                )
            })
            .collect())
    }

    pub(crate) fn condition(&self, gateway: &str, kind: &str) -> Result<(String, String)> {
        let object = self.node.get(&["tailnetgateway", gateway])?;
        let conditions = object["status"]["conditions"]
            .as_array()
            .context("no conditions")?
            .clone();
        let found = conditions
            .iter()
            .find(|c| c["type"] == kind)
            .context("no such condition")?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Ok((
            format!("{}/{}", text("status"), text("reason")),
            text("message"),
        ))
    }

    pub(crate) fn wait_condition(
        &self,
        gateway: &str,
        kind: &str,
        expected: &str,
    ) -> Result<String> {
        let log = self.node.machine().dir().join("tsunaro-controller.log");
        Wait::new(format!("{kind}={expected} of {gateway}"), SOON)
            .logs([log])
            .until(|| {
                let (is, message) = self.condition(gateway, kind)?;
                ensure!(is == expected, "{is}: {message}");
                Ok(Some(message))
            })
    }

    /// Usable keys with the gateways' tag.
    pub(crate) fn usable_keys(&self) -> Result<usize> {
        let keys = self
            .lab
            .headscale()
            .rest()
            .call("GET", "preauthkey", None)?;
        let now = jiff::Timestamp::now();
        let usable = |key: &&Value| {
            let expires: Option<jiff::Timestamp> =
                key["expiration"].as_str().and_then(|at| at.parse().ok());
            key["used"] != true && expires.is_some_and(|at| at > now)
        };
        Ok(keys["preAuthKeys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(usable)
            .count())
    }

    /// `resourceVersion`s of all that the controller may write.
    pub(crate) fn versions(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for args in [
            &[
                "--namespace",
                NAMESPACE,
                "serviceaccounts,roles,rolebindings,poddisruptionbudgets,services,configmaps,secrets",
            ][..],
            &["tailnetgateways,tailnets"],
        ] {
            for item in self.node.get(args)?["items"]
                .as_array()
                .into_iter()
                .flatten()
            {
                all.push(format!(
                    "{} {} {}",
                    item["kind"], item["metadata"]["name"], item["metadata"]["resourceVersion"]
                ));
            }
        }
        Ok(all)
    }
}

/// A gateway with addresses of this last part, see [`KubeNode::service_address`].
pub(crate) fn gateway(name: &str, number: u8, change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "apiVersion": "tsunaro.io/v1alpha1", "kind": "TailnetGateway", "metadata": { "name": name },
        "spec": {
            "suspend": false,
            "tailnetRef": { "name": "corp" },
            "hostname": name,
            "stateSecretRef": { "name": format!("{name}-state") },
            "image": "registry.example/tailscale:v1.102.4",
            "routes": { "lan": ["192.0.2.0/24"] },
            "service": { "loadBalancerIP": format!("198.51.100.{number}"), "tailnetLBCIDR": "198.51.100.0/24" },
            "dns": {
                "zone": format!("{name}.tailnet.example.internal"),
                "serviceName": format!("{name}-dns"),
                "serviceClusterIP": format!("10.96.0.{number}"),
            },
        },
    });
    change(&mut object);
    object
}

/// The commands in parentheses that a message gives.
pub(crate) fn commands(message: &str) -> Vec<String> {
    message
        .split('(')
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|inside| inside.starts_with("kubectl ") || inside.starts_with("headscale "))
        .map(str::to_owned)
        .collect()
}

/// Does what a message says.
pub(crate) fn obey(node: &KubeNode, lab: &Lab, message: &str) -> Result<()> {
    let commands = commands(message);
    ensure!(!commands.is_empty(), "no command in: {message}");
    for command in &commands {
        say(&format!("$ {command}"));
        let words: Vec<&str> = command.split(' ').collect();
        match words.as_slice() {
            ["kubectl", args @ ..] => node.kubectl(args)?.ok()?,
            ["headscale", args @ ..] => lab.headscale().cli(&[args, &["--force"]].concat())?,
            _ => anyhow::bail!("no command of ours: {command}"),
        };
    }
    Ok(())
}
