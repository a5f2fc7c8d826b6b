//! The reconciler on a real API server and a real Headscale. Images are not there, so no Pod runs:
//! what is held is what the controller writes, in both places, and what it says.

#![allow(
    clippy::indexing_slicing,
    reason = "indexing a JSON value by a name yields null, it does not panic"
)]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::kube::{KubeNode, KubeOptions};
use tsunaro_integration::lab::{CONTROL_URL, Cmd, Lab, LabOptions, Process, Signal, Start};
use tsunaro_integration::{Wait, say, wait_until};

const NAMESPACE: &str = "tsunaro-system";
const SOON: Duration = Duration::from_secs(30);

struct Site {
    node: KubeNode,
    lab: Lab,
    controller: PathBuf,
}

impl Site {
    fn start() -> Result<Self> {
        let lab = Lab::start(LabOptions {
            gateways: [Start::Off, Start::Off],
            peer: Start::Off,
            ..LabOptions::default()
        })?;
        let node = KubeNode::start(KubeOptions {
            lab: Some(&lab),
            ..KubeOptions::default()
        })?;
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
        let site = Self {
            node,
            lab,
            controller: controller()?,
        };
        site.apply(
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        )?;
        site.apply(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "headscale-api", "namespace": NAMESPACE },
            "stringData": { "apiKey": site.lab.headscale().rest().api_key() },
        }))?;
        site.apply(&json!({
            "apiVersion": "tsunaro.io/v1alpha1", "kind": "Tailnet", "metadata": { "name": "corp" },
            "spec": {
                "headscale": {
                    "url": CONTROL_URL,
                    "apiKeySecretRef": { "name": "headscale-api" },
                    "caBundle": std::fs::read_to_string(site.lab.peer().ca())?,
                },
                "dns": { "hostsConfigMap": { "name": "tailnet-hosts" } },
            },
        }))?;
        Ok(site)
    }

    fn run(&self) -> Result<Process> {
        self.node.machine().spawn(
            Cmd::new(&self.controller)
                .args(["run", "--headscale-interval", "2", "--resync", "5"])
                .args(["--http-listen", "127.0.0.1:9182", "--log-format", "text"])
                .env("KUBECONFIG", self.node.kubeconfig().display().to_string())
                .env(
                    "RUST_LOG",
                    "debug,kube=info,hyper=info,hyper_util=info,tower=info,rustls=info,h2=info",
                ),
        )
    }

    fn apply(&self, object: &Value) -> Result<()> {
        self.node.apply(&object.to_string())
    }

    fn names(&self, kinds: &str) -> Result<Vec<String>> {
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

    fn condition(&self, gateway: &str, kind: &str) -> Result<(String, String)> {
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

    fn wait_condition(&self, gateway: &str, kind: &str, expected: &str) -> Result<String> {
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
    fn usable_keys(&self) -> Result<usize> {
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
    fn versions(&self) -> Result<Vec<String>> {
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

fn controller() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package",
            "tsunaro-controller",
            "--message-format=json",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let messages = String::from_utf8(output.stdout)?;
    let executable = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "tsunaro-controller").then_some(())?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executable.context("cargo named no executable of tsunaro-controller")
}

fn gateway(name: &str, number: u8, change: impl FnOnce(&mut Value)) -> Value {
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
                "serviceClusterIP": format!("10.96.1.{number}"),
            },
        },
    });
    change(&mut object);
    object
}

#[test]
fn a_gateway_is_made_kept_and_unmade() -> Result<()> {
    let site = Site::start()?;
    let process = site.run()?;

    // Suspended: nothing is created.
    site.apply(&gateway("gw-a", 60, |object| {
        object["spec"]["suspend"] = json!(true);
    }))?;
    site.wait_condition("gw-a", "Ready", "False/Suspended")?;
    ensure!(site.usable_keys()? == 0, "a key for a suspended gateway");
    ensure!(
        !site
            .names("secrets")?
            .iter()
            .any(|name| name.contains("gw-a")),
        "a Secret for a suspended gateway"
    );

    // Created, with everything and one key.
    let began = std::time::Instant::now();
    site.apply(&gateway("gw-a", 60, |_| {}))?;
    wait_until("the receipt", SOON, || {
        let maps = site.names("configmaps")?;
        ensure!(
            maps.contains(&"ConfigMap gw-a-fresh".to_owned()),
            "{maps:?}"
        );
        Ok(Some(()))
    })?;
    say(&format!(
        "from apply to the receipt: {:.2} s",
        began.elapsed().as_secs_f64()
    ));
    let mut all = site.names("serviceaccounts,roles,rolebindings,poddisruptionbudgets,services,configmaps,statefulsets,secrets")?;
    all.retain(|name| name.contains("gw-a"));
    all.sort();
    assert_eq!(
        all,
        [
            "ConfigMap gw-a-agent",
            "ConfigMap gw-a-fresh",
            "PodDisruptionBudget gw-a",
            "Role gw-a",
            "RoleBinding gw-a",
            "Secret gw-a-authkey",
            "Secret gw-a-state",
            "Service gw-a",
            "Service gw-a-dns",
            "Service gw-a-headless",
            "ServiceAccount gw-a",
            "StatefulSet gw-a",
        ]
    );
    assert_eq!(site.usable_keys()?, 1);
    site.wait_condition("gw-a", "Ready", "False/PodNotReady")?;
    site.wait_condition("gw-a", "Accepted", "True/Accepted")?;
    site.wait_condition("gw-a", "ResolvedRefs", "True/Resolved")?;
    site.wait_condition("gw-a", "ServiceReady", "False/LBPending")?;

    // What others change is put right.
    site.node
        .kubectl(&[
            "--namespace",
            NAMESPACE,
            "patch",
            "role",
            "gw-a",
            "--type=json",
            r#"--patch=[{"op":"replace","path":"/rules/0/verbs","value":["*"]}]"#,
        ])?
        .ok()?;
    site.node
        .kubectl(&["--namespace", NAMESPACE, "delete", "service", "gw-a-dns"])?
        .ok()?;
    wait_until("role and Service as they were", SOON, || {
        let role = site.node.get(&["--namespace", NAMESPACE, "role", "gw-a"])?;
        ensure!(
            role["rules"][0]["verbs"] == json!(["get", "update"]),
            "{}",
            role["rules"]
        );
        site.node
            .get(&["--namespace", NAMESPACE, "service", "gw-a-dns"])?;
        Ok(Some(()))
    })?;

    // At rest nothing is written, also by a controller that was killed and starts anew.
    let at_rest = |what: &str| -> Result<()> {
        let before = site.versions()?;
        let until = std::time::Instant::now() + Duration::from_secs(12);
        wait_until(what, Duration::from_secs(20), || {
            assert_eq!(site.versions()?, before, "{what}");
            Ok((std::time::Instant::now() >= until).then_some(()))
        })
    };
    site.wait_condition("gw-a", "ServiceReady", "False/LBPending")?;
    at_rest("two resyncs without a write")?;
    process.kill(Signal::SIGKILL)?;
    process.wait(Duration::from_secs(5))?;
    let process = site.run()?;
    at_rest("a restart without a write")?;
    assert_eq!(site.usable_keys()?, 1);

    // Blocked by a Secret, a Service and an older gateway's host name.
    site.apply(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "gw-b-state", "namespace": NAMESPACE }, "stringData": { "_machinekey": "x" } }))?;
    site.apply(&gateway("gw-b", 61, |_| {}))?;
    let message = site.wait_condition("gw-b", "Ready", "False/FreshBlocked")?;
    ensure!(
        message.contains("gw-b-state") && message.contains("delete secret"),
        "{message}"
    );
    site.apply(&json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "gw-c-dns", "namespace": NAMESPACE }, "spec": { "ports": [{ "port": 80 }] } }))?;
    site.apply(&gateway("gw-c", 62, |_| {}))?;
    let message = site.wait_condition("gw-c", "Ready", "False/FreshBlocked")?;
    ensure!(message.contains("gw-c-dns"), "{message}");
    site.apply(&gateway("gw-d", 63, |object| {
        object["spec"]["hostname"] = json!("gw-a");
    }))?;
    let message = site.wait_condition("gw-d", "Accepted", "False/Invalid")?;
    ensure!(message.contains("gw-a"), "{message}");
    assert_eq!(site.usable_keys()?, 1);

    // Retain keeps everything; the same name again is blocked by the receipt.
    site.node
        .kubectl(&["delete", "tailnetgateway", "gw-a", "--timeout=20s"])?
        .ok()?;
    ensure!(
        site.names("statefulsets")?
            .contains(&"StatefulSet gw-a".to_owned()),
        "Retain lost the StatefulSet"
    );
    assert_eq!(site.usable_keys()?, 1);
    site.node
        .kubectl(&["delete", "tailnetgateway", "gw-d"])?
        .ok()?;
    site.apply(&gateway("gw-a", 60, |_| {}))?;
    let message = site.wait_condition("gw-a", "Ready", "False/FreshBlocked")?;
    ensure!(message.contains("gw-a-fresh"), "{message}");

    // Delete takes everything, the unused key too; without Headscale it waits and says so.
    site.apply(&gateway("gw-e", 64, |object| {
        object["spec"]["deletionPolicy"] = json!("Delete");
    }))?;
    wait_until("the receipt of gw-e", SOON, || {
        ensure!(
            site.names("configmaps")?
                .contains(&"ConfigMap gw-e-fresh".to_owned())
        );
        Ok(Some(()))
    })?;
    assert_eq!(site.usable_keys()?, 2);
    site.lab.headscale().stop(Signal::SIGTERM)?;
    site.node
        .kubectl(&["delete", "tailnetgateway", "gw-e", "--wait=false"])?
        .ok()?;
    let message = wait_until(
        "the deletion to be blocked",
        Duration::from_secs(90),
        || {
            let (is, message) = site.condition("gw-e", "Ready")?;
            ensure!(is == "False/DeletionBlocked", "{is}: {message}");
            Ok(Some(message))
        },
    )?;
    ensure!(message.contains("forget-node"), "{message}");
    site.lab.headscale().start()?;
    site.node
        .kubectl(&[
            "wait",
            "--for=delete",
            "tailnetgateway/gw-e",
            "--timeout=90s",
        ])?
        .ok()?;
    let left: Vec<String> = site.names("serviceaccounts,roles,rolebindings,poddisruptionbudgets,services,configmaps,statefulsets,secrets")?
        .into_iter().filter(|name| name.contains("gw-e")).collect();
    assert_eq!(left, [""; 0]);
    assert_eq!(site.usable_keys()?, 1);
    process.terminate(Duration::from_secs(10))?;
    Ok(())
}
