//! Everything that may be in the way of a fresh gateway, cleared as each message says; suspend after the
//! creation; Retain without Headscale; Delete of what is partly gone.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::lab::{GATEWAY_HOSTNAMES, KeyOptions, Process, Signal};
use tsunaro_integration::{Wait, say};

use crate::beside::{Beside, Without, gateway, obey};
use crate::tap::{Fate, HEADSCALE, Tap, To, controller};
use crate::{NAMESPACE, SOON};

const NAME: &str = GATEWAY_HOSTNAMES[0];
const QUIET: Duration = Duration::from_secs(8);
const MADE: &str = "serviceaccounts,roles,rolebindings,poddisruptionbudgets,services,configmaps,statefulsets,secrets";
const SHORT: [&str; 4] = ["--headscale-interval", "2", "--resync", "5"];

#[test]
fn what_blocks_is_cleared_as_told_and_suspend_retain_and_delete_keep_their_word() -> Result<()> {
    let beside = Beside::start_with(Without::Kubelet)?;
    beside.tailnet(&format!("http://{HEADSCALE}"))?;
    let tap = Tap::start(&beside, beside.lab.headscale().rest().clone())?;
    tap.judge(|_| Fate::Pass);
    let process = controller(&beside, &SHORT)?;
    blocked_by_everything(&beside, &tap)?;
    blocked_by_secrets(&beside)?;
    logs_in(&beside)?;
    suspended(&beside, &tap)?;
    retained_without_headscale(&beside, &tap)?;
    deleted_with_parts_gone(&beside, process)
}

/// All causes at once; the messages tell one after the other.
fn blocked_by_everything(beside: &Beside, tap: &Tap) -> Result<()> {
    for object in foreign() {
        beside.apply(&object)?;
    }
    let pod = beside.lab.gateway(1)?;
    let key = KeyOptions::tagged("tag:fabric");
    pod.login(&beside.lab.headscale().rest().preauth_key(&key)?)?;
    pod.wait_running()?;
    beside.apply(&gateway(NAME, 60, |_| {}))?;
    beside.wait_condition(NAME, "Ready", "False/FreshBlocked")?;
    tap.take_counts();
    let mut told: Vec<String> = Vec::new();
    Wait::new("nothing to be in the way", Duration::from_secs(180)).until(|| {
        let (is, message) = beside.condition(NAME, "Ready")?;
        if is == "False/FreshBlocked" {
            if told.last() != Some(&message) {
                let object = beside.node.get(&["tailnetgateway", NAME])?;
                ensure!(object["metadata"]["finalizers"].is_null(), "it has begun");
                say(&format!("blocked: {message}"));
                obey(&beside.node, &beside.lab, &message)?;
                told.push(message);
            }
            return Ok(None);
        }
        ensure!(is == "False/NoPod", "{is}: {message}");
        Ok(Some(()))
    })?;
    // The receipt's message clears the two Secrets too.
    ensure!(told.len() == foreign().len() - 2 + 1, "{told:#?}");
    ensure!(beside.usable_keys()? == 1);
    Ok(())
}

/// A state Secret that is empty and nobody's, then a key Secret of an earlier gateway.
fn blocked_by_secrets(beside: &Beside) -> Result<()> {
    let secret = |name: &str, annotations: Value| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": NAMESPACE, "annotations": annotations } });
    beside.apply(&secret("gw-b-state", json!({})))?;
    beside.apply(&secret(
        "gw-b-authkey",
        json!({ "tsunaro.io/gateway-uid": "an-earlier-one" }),
    ))?;
    beside.apply(&gateway("gw-b", 61, |object| {
        object["spec"]["deletionPolicy"] = json!("Delete");
    }))?;
    for found in [
        "is empty but was not made by this controller",
        "an-earlier-one",
    ] {
        Wait::new(format!("a message with: {found}"), SOON).until(|| {
            let (is, message) = beside.condition("gw-b", "Ready")?;
            ensure!(
                is == "False/FreshBlocked" && message.contains(found),
                "{is}: {message}"
            );
            say(&format!("blocked: {message}"));
            obey(&beside.node, &beside.lab, &message)?;
            Ok(Some(()))
        })?;
    }
    beside.wait_condition("gw-b", "Ready", "False/NoPod")?;
    beside
        .node
        .kubectl(&["delete", "tailnetgateway", "gw-b", "--timeout=30s"])?
        .ok()?;
    ensure!(beside.usable_keys()? == 1);
    Ok(())
}

/// Something of every name that the gateway will have, made by nobody that we know.
fn foreign() -> Vec<Value> {
    let object = |api: &str, kind: &str, name: &str, more: Value| {
        let mut object = json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name, "namespace": NAMESPACE } });
        for (key, value) in more.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        object
    };
    let ports = || json!({ "spec": { "ports": [{ "port": 80 }] } });
    let role = json!({ "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME } });
    let set = json!({ "spec": {
        "serviceName": "x", "replicas": 0, "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "registry.example/c:1" }] } },
    } });
    let budget =
        json!({ "spec": { "minAvailable": 1, "selector": { "matchLabels": { "a": "b" } } } });
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        object(
            "v1",
            "Secret",
            &format!("{NAME}-state"),
            json!({ "stringData": { "_machinekey": "x" } }),
        ),
        object("v1", "Secret", &format!("{NAME}-authkey"), json!({})),
        object(
            "v1",
            "ConfigMap",
            &format!("{NAME}-fresh"),
            json!({ "data": { "gatewayUID": "an-earlier-one" } }),
        ),
        object("v1", "ServiceAccount", NAME, json!({})),
        object(rbac, "Role", NAME, json!({ "rules": [] })),
        object(rbac, "RoleBinding", NAME, role),
        object("policy/v1", "PodDisruptionBudget", NAME, budget),
        object("v1", "Service", NAME, ports()),
        object("v1", "Service", &format!("{NAME}-dns"), ports()),
        object("v1", "Service", &format!("{NAME}-headless"), ports()),
        object("v1", "ConfigMap", &format!("{NAME}-agent"), json!({})),
        object("apps/v1", "StatefulSet", NAME, set),
    ]
}

/// The tailscaled outside stands for the Pod.
fn logs_in(beside: &Beside) -> Result<()> {
    let pod = beside.lab.gateway(1)?;
    pod.stop(Signal::SIGKILL)?;
    pod.wipe_state()?;
    pod.start()?;
    let secret = format!("{NAME}-authkey");
    let key = beside.node.kubectl(&[
        "-n",
        NAMESPACE,
        "get",
        "secret",
        &secret,
        "-o=go-template={{.data.authkey|base64decode}}",
    ])?;
    pod.login(&key.ok()?)?;
    Wait::new("the key to be taken out", SOON).until(|| {
        let secret = beside.node.get(&["-n", NAMESPACE, "secret", &secret])?;
        ensure!(secret["data"]["authkey"].is_null(), "it is there");
        Ok(Some(()))
    })
}

fn quiet(what: &str, check: impl Fn() -> Result<()>) -> Result<()> {
    let until = Instant::now() + QUIET;
    Wait::new(what, QUIET * 5)
        .every(Duration::from_millis(500))
        .until(|| match check() {
            Ok(()) if Instant::now() < until => Ok(None),
            result => Ok(Some(result)),
        })?
}

/// Nothing is written but the status; what was changed meanwhile is put right afterwards.
fn suspended(beside: &Beside, tap: &Tap) -> Result<()> {
    let set = |suspend: bool| -> Result<()> {
        let patch = format!("--patch={}", json!({ "spec": { "suspend": suspend } }));
        beside
            .node
            .kubectl(&["patch", "tailnetgateway", NAME, "--type=merge", &patch])?
            .ok()?;
        Ok(())
    };
    set(true)?;
    Wait::new("the suspension to be seen", SOON).until(|| {
        let object = beside.node.get(&["tailnetgateway", NAME])?;
        ensure!(object["status"]["observedGeneration"] == object["metadata"]["generation"]);
        Ok(Some(()))
    })?;
    let dns = format!("{NAME}-dns");
    beside
        .node
        .kubectl(&["-n", NAMESPACE, "delete", "service", &dns])?
        .ok()?;
    tap.take_counts();
    quiet("a suspended gateway to be left alone", || {
        let services = beside.names("services")?;
        ensure!(
            !services.contains(&format!("Service {dns}")),
            "{services:?}"
        );
        let object = beside.node.get(&["tailnetgateway", NAME])?;
        ensure!(
            object["metadata"]["finalizers"].is_array(),
            "it lost its finalizer"
        );
        Ok(())
    })?;
    let writes: usize = tap
        .take_counts()
        .into_iter()
        .filter(|((_, method), _)| method != "GET")
        .map(|(_, count)| count)
        .sum();
    ensure!(writes == 0, "{writes} writes");
    let (is, message) = beside.condition(NAME, "Ready")?;
    say(&format!(
        "suspended after its creation: Ready={is}: {message}"
    ));
    set(false)?;
    Wait::new("the Service to be put right", SOON).until(|| {
        let services = beside.names("services")?;
        ensure!(services.contains(&format!("Service {dns}")), "{services:?}");
        Ok(Some(()))
    })
}

fn retained_without_headscale(beside: &Beside, tap: &Tap) -> Result<()> {
    let before: Vec<String> = names(beside)?;
    beside.lab.headscale().stop(Signal::SIGTERM)?;
    tap.take_counts();
    let began = Instant::now();
    beside
        .node
        .kubectl(&["delete", "tailnetgateway", NAME, "--timeout=20s"])?
        .ok()?;
    say(&format!(
        "Retain without Headscale: {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    let asked: Vec<_> = tap
        .take_counts()
        .into_iter()
        .filter(|((to, method), _)| *to == To::Headscale && method != "GET")
        .collect();
    ensure!(asked.is_empty(), "{asked:?}");
    ensure!(names(beside)? == before, "something went");
    beside.lab.headscale().start()?;
    ensure!(
        beside
            .lab
            .headscale()
            .rest()
            .nodes()?
            .iter()
            .any(|node| node.name == NAME)
    );
    Ok(())
}

fn names(beside: &Beside) -> Result<Vec<String>> {
    let mut all = beside.names(MADE)?;
    all.retain(|name| name.contains(NAME));
    Ok(all)
}

/// The node gone, then objects, Secrets and receipt gone: the deletion ends, and no node is left.
fn deleted_with_parts_gone(beside: &Beside, mut process: Process) -> Result<()> {
    for what in ["node", "objects"] {
        let again = || -> Result<()> {
            beside.apply(&gateway(NAME, 60, |object| {
                object["spec"]["deletionPolicy"] = json!("Delete");
            }))
        };
        again()?;
        // What was kept before is cleared as told.
        Wait::new("a new gateway", Duration::from_secs(120)).until(|| {
            let (is, message) = beside.condition(NAME, "Ready")?;
            if is == "False/FreshBlocked" {
                obey(&beside.node, &beside.lab, &message)?;
            }
            ensure!(is == "False/NoPod", "{is}: {message}");
            Ok(Some(()))
        })?;
        logs_in(beside)?;
        Wait::new("the node to be known", SOON).until(|| {
            let object = beside.node.get(&["tailnetgateway", NAME])?;
            ensure!(object["status"]["nodeId"].is_string());
            Ok(Some(()))
        })?;
        process.kill(Signal::SIGKILL)?;
        process.wait(Duration::from_secs(5))?;
        let rest = beside.lab.headscale().rest();
        if what == "node" {
            for node in rest.nodes()?.iter().filter(|node| node.name == NAME) {
                rest.delete(&node.id)?;
            }
        } else {
            for name in names(beside)? {
                let (kind, name) = name.split_once(' ').unwrap_or_default();
                beside
                    .node
                    .kubectl(&["-n", NAMESPACE, "delete", kind, name])?
                    .ok()?;
            }
        }
        process = controller(beside, &SHORT)?;
        beside
            .node
            .kubectl(&["delete", "tailnetgateway", NAME, "--timeout=50s"])?
            .ok()?;
        ensure!(
            names(beside)?.is_empty(),
            "{what} gone: {:?}",
            names(beside)?
        );
        let nodes = rest.nodes()?;
        ensure!(
            !nodes.iter().any(|node| node.name == NAME),
            "{what} gone: {nodes:?}"
        );
        ensure!(beside.usable_keys()? == 0);
    }
    process.terminate(Duration::from_secs(10))?;
    Ok(())
}
