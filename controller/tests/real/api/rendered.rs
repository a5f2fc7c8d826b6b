//! The nine objects of the worked example, as `render` prints them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::Named;
use crate::cluster::{Cluster, in_repository};

pub(crate) const TESTS: &[Named] = &[
    (
        "the_api_server_accepts_the_nine_rendered_objects_with_the_stateful_set_last",
        nine_objects,
    ),
    (
        "the_namespace_of_the_manifests_admits_the_pod_and_a_baseline_one_says_what_it_minds",
        pod_security,
    ),
];

const NAMESPACE: &str = "deploy/manifests/1-namespace.yaml";
const BEFORE: &str = "deploy/manifests/2-before.yaml";
const GATEWAY: &str = "deploy/manifests/3-gateway.yaml";

fn dry_run(cluster: &Cluster) -> Result<String> {
    for path in [NAMESPACE, BEFORE] {
        let path = in_repository(path);
        cluster.kubectl(&["apply", "--server-side", "--filename", &path])?;
    }
    let path = in_repository(GATEWAY);
    let output = cluster.try_kubectl(&[
        "apply",
        "--server-side",
        "--dry-run=server",
        "--filename",
        &path,
    ])?;
    // Warnings of the API server, about deprecated or unknown fields, would be here.
    ensure!(output.stderr.is_empty(), "{}", output.stderr);
    output.ok()
}

fn nine_objects(cluster: &Cluster) -> Result<()> {
    let said = dry_run(cluster)?;
    let objects: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_suffix(" serverside-applied (server dry run)"))
        .collect();
    ensure!(
        objects
            == [
                "serviceaccount/prod-1-gw",
                "role.rbac.authorization.k8s.io/prod-1-gw",
                "rolebinding.rbac.authorization.k8s.io/prod-1-gw",
                "poddisruptionbudget.policy/prod-1-gw",
                "service/prod-1-gw",
                "service/prod-1-gw-dns",
                "service/prod-1-gw-headless",
                "configmap/prod-1-gw-agent",
                "statefulset.apps/prod-1-gw",
            ],
        "{said}"
    );
    Ok(())
}

/// The Pod that the StatefulSet would make, in a namespace.
fn pod_in(cluster: &Cluster, namespace: &str) -> Result<Value> {
    let path = in_repository(GATEWAY);
    let local = [
        "create",
        "--dry-run=client",
        "--output=json",
        "--filename",
        &path,
    ];
    let objects = cluster.kubectl(&local)?;
    let mut objects = serde_json::Deserializer::from_str(&objects).into_iter::<Value>();
    let stateful_set = objects.nth(8).context("there are nine objects")??;
    let at = |pointer| stateful_set.pointer(pointer).context("a Pod's template");
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "prod-1-gw-0",
            "namespace": namespace,
            "labels": at("/spec/template/metadata/labels")?,
        },
        "spec": at("/spec/template/spec")?,
    }))
}

fn pod_security(cluster: &Cluster) -> Result<()> {
    let namespace = in_repository(NAMESPACE);
    cluster.kubectl(&["apply", "--server-side", "--filename", &namespace])?;
    let baseline = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "baseline",
            "labels": { "pod-security.kubernetes.io/enforce": "baseline" },
        },
    });
    let made = cluster.apply(&["--server-side"], &[baseline])?;
    ensure!(made.accepted() == 1, "{}", made.all());
    for namespace in ["tsunaro-system", "baseline"] {
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": "prod-1-gw", "namespace": namespace },
        });
        let made = cluster.apply(&["--server-side"], &[account])?;
        ensure!(made.accepted() == 1, "{}", made.all());
    }
    let admitted = cluster.apply(&["--dry-run=server"], &[pod_in(cluster, "tsunaro-system")?])?;
    ensure!(admitted.accepted() == 1, "{}", admitted.all());
    let refused = cluster.apply(&["--dry-run=server"], &[pod_in(cluster, "baseline")?])?;
    let said = refused.refusal(0);
    // No more than what the tailscale container needs: the capability, and the device.
    ensure!(
        said.contains("container \"tailscale\" must not include \"NET_ADMIN\"")
            && said.contains("hostPath volumes (volume \"tun\")"),
        "{said}"
    );
    for other in ["agent", "install", "privileged", "hostNetwork", "sysctl"] {
        ensure!(!said.contains(&format!("\"{other}\"")), "{said}");
    }
    Ok(())
}
