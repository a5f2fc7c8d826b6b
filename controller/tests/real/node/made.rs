//! Images are not there, so no Pod runs: what is held is what the controller writes, in both places,
//! and what it says.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tsunaro_integration::lab::Signal;
use tsunaro_integration::{say, wait_until};

use crate::beside::{Beside, gateway};
use crate::{NAMESPACE, SOON};

#[test]
fn a_gateway_is_made_kept_and_unmade() -> Result<()> {
    let site = Beside::start()?;
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
