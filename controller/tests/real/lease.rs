//! The controller as it is deployed, with its own rights and its Lease, at a real API server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::kube::{KubeNode, KubeOptions};
use tsunaro_integration::lab::{Cmd, Process};
use tsunaro_integration::{Wait, controller_binary};

const NAMESPACE: &str = "tsunaro-system";
const CONTROLLER: &str = "tsunaro-controller";
const SOON: Duration = Duration::from_secs(60);

/// Two tasks that wait for the same stores of kube are not both woken: the Lease may not make work wait.
#[test]
fn a_controller_that_may_not_see_everything_leaves_the_lease_to_others_and_works_as_soon_as_it_may()
-> Result<()> {
    let node = KubeNode::start_control_plane(KubeOptions::default())?;
    for path in ["deploy/crds", "deploy/manifests/1-namespace.yaml"] {
        apply(&node, path)?;
    }
    let established = ["--for=condition=Established", "crd", "--all"];
    node.kubectl(&[&["wait"], &established[..]].concat())?
        .ok()?;
    apply(&node, "deploy/controller")?;
    node.kubectl(&["delete", "clusterrolebinding", CONTROLLER])?
        .ok()?;
    apply(&node, "docs/examples/prod-1/kubernetes/tailnetgateway.yaml")?;
    let process = start(&node)?;
    let log = |what: &str| {
        Wait::new(format!("\"{what}\" in the log"), SOON)
            .logs([process.log_path().to_owned()])
            .until(|| Ok(process.log().contains(what).then_some(())))
    };
    log("The API server has not told everything yet")?;
    ensure!(
        process
            .log()
            .contains("apply the RBAC of deploy/controller"),
        "{}",
        process.log()
    );
    let leases = node.get(&["--namespace", NAMESPACE, "leases"])?;
    ensure!(leases["items"] == json!([]), "{leases}");

    apply(&node, "deploy/controller")?;
    log("Working")?;
    let lease = node.get(&["--namespace", NAMESPACE, "lease", CONTROLLER])?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    ensure!(!holder.is_empty(), "{lease}");
    Wait::new("a condition of the gateway", SOON)
        .logs([process.log_path().to_owned()])
        .until(|| {
            let gateway = node.get(&["tailnetgateway", "prod-1-gw"])?;
            let all = gateway["status"]["conditions"].as_array();
            let is = |c: &&Value| c["type"] == "ResolvedRefs" && c["status"] == "False";
            Ok(all
                .is_some_and(|all| all.iter().any(|c| is(&c)))
                .then_some(()))
        })?;
    process.terminate(Duration::from_secs(10))?;
    let lease = node.get(&["--namespace", NAMESPACE, "lease", CONTROLLER])?;
    ensure!(lease["spec"].get("holderIdentity").is_none(), "{lease}");
    Ok(())
}

/// The controller with the rights of its ServiceAccount.
fn start(node: &KubeNode) -> Result<Process> {
    let token = [
        "--namespace",
        NAMESPACE,
        "create",
        "token",
        CONTROLLER,
        "--duration=1h",
    ];
    let token = node.kubectl(&token)?.ok()?;
    let read = std::fs::read(node.kubeconfig())?;
    let mut config: Value = serde_json::from_slice(&read)?;
    config["users"][0]["user"] = json!({ "token": token.trim() });
    let path = node.machine().dir().join("controller.kubeconfig");
    std::fs::write(&path, config.to_string())?;
    node.machine().spawn(
        Cmd::new(controller_binary()?)
            .args(["run", "--log-format", "text"])
            .args(["--http-listen", "127.0.0.1:9182"])
            .env("TSUNARO_NAMESPACE", NAMESPACE)
            .env("KUBECONFIG", path.display().to_string()),
    )
}

fn apply(node: &KubeNode, path: &str) -> Result<()> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", path].iter().collect();
    let path = path.to_str().context("a path that is not UTF-8")?;
    node.kubectl(&["apply", "--server-side", "--filename", path])?
        .ok()
        .map(drop)
}
