//! Others that write what is ours: each is seen, and put right or reported, and never fought.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::lab::{CONTROL_URL, LAN, LB_RANGE, TailnetNode};
use tsunaro_integration::{Wait, say};

use super::approvals;
use crate::NAMESPACE;
use crate::beside::{Beside, Without, gateway, obey};
use crate::chaos::base64;

/// The name of the lab's node, which stands for the Pod.
const NAME: &str = "gw-1";

#[test]
fn what_neighbours_do_is_put_right_or_reported_and_never_fought() -> Result<()> {
    let beside = Beside::start_with(Without::Kubelet)?;
    // Nobody approves by itself.
    beside.lab.headscale().rest().set_policy(BY_HAND)?;
    beside.tailnet(CONTROL_URL)?;
    beside.apply(&stranded_record())?;
    let began = Instant::now();
    let process = beside.run()?;
    beside.apply(&gateway(NAME, 60, |_| {}))?;
    let here = Here { beside: &beside };
    let key = here.wait("the key", || {
        let secret = here.get("secret", "gw-1-authkey")?;
        Ok(secret["data"]["authkey"].as_str().map(str::to_owned))
    })?;
    let node = beside.lab.gateway(1)?;
    node.login(&base64(&key)?)?;
    node.wait_running()?;
    advertise(node)?;
    here.wait("its node", || {
        let object = beside.node.get(&["tailnetgateway", NAME])?;
        Ok(object["status"]["nodeId"].as_str().map(drop))
    })?;

    let row = |what: &str, how: &str| say(&format!("| {what} | {how} |"));
    here.right(
        "StatefulSet scaled to 2",
        &["scale", "statefulset", NAME, "--replicas=2"],
        "statefulset",
        NAME,
        "/spec/replicas",
        &json!(1),
    )?;
    row("StatefulSet scaled to 2", "put right");
    here.right(
        "Service deleted",
        &["delete", "service", "gw-1-dns"],
        "service",
        "gw-1-dns",
        "/spec/type",
        &json!("ClusterIP"),
    )?;
    row("Service deleted", "made again");
    let config = here.get("configmap", "gw-1-agent")?["data"]["gateway.yaml"].clone();
    let patch = format!(
        "--patch={}",
        json!({ "data": { "gateway.yaml": "nothing: useful" } })
    );
    here.right(
        "ConfigMap edited",
        &["patch", "configmap", "gw-1-agent", "--type=merge", &patch],
        "configmap",
        "gw-1-agent",
        "/data/gateway.yaml",
        &config,
    )?;
    row("ConfigMap edited", "put right");

    let type_ = r#"--patch={"spec":{"type":"ClusterIP"}}"#;
    here.right(
        "Service of another type",
        &["patch", "service", NAME, "--type=merge", type_],
        "service",
        NAME,
        "/spec/type",
        &json!("LoadBalancer"),
    )?;
    row("Service of another type", "put right");
    here.load_balancer_class()?;
    row(
        "class of the load balancer changed",
        "the API server refuses it",
    );

    // Another field manager on our Secrets.
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "gw-1-state", "namespace": NAMESPACE, "labels": { "reconcile.external-secrets.io/managed": "true" } },
        "stringData": { "_machinekey": "stale" } });
    let keys = here.keys()?;
    here.apply_as("external-secrets", &secret)?;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "gw-1-authkey", "namespace": NAMESPACE, "annotations": { "tsunaro.io/key-id": "999", "tsunaro.io/gateway-uid": "somebody" } },
        "stringData": { "other": "value" } });
    here.apply_as("external-secrets", &secret)?;
    here.quiet("foreign fields in our Secrets", 12)?;
    ensure!(here.keys()? == keys, "a key was minted");
    row(
        "another field manager on our Secrets",
        "left alone, no key is minted",
    );

    // Approvals: by hand, and taken away.
    let message = here.condition("RoutesInSync", "False/PendingApproval")?;
    obey(&beside.node, &beside.lab, &message)?;
    let rest = beside.lab.headscale().rest();
    let id = rest.node(NAME)?.id;
    here.condition("RoutesInSync", "True/Approved")?;
    here.quiet("approved by hand", 6)?;
    ensure!(approvals(&beside.lab)?[NAME] == [LAN, LB_RANGE]);
    row("approved by hand", "respected, RoutesInSync=True/Approved");
    rest.approve_routes(&id, &[])?;
    let message = here.condition("RoutesInSync", "False/PendingApproval")?;
    ensure!(
        approvals(&beside.lab)?[NAME].is_empty(),
        "mode Observe approved"
    );
    row(
        "approvals emptied, mode Observe",
        &format!("reported: {message}"),
    );

    // The policy under mode Apply: ours again, within a minute, and the approvals with it.
    here.apply_mode(None)?;
    here.wait("our lines in the policy", || {
        Ok(rest.policy()?.contains(LAN).then_some(()))
    })?;
    let policy = rest.policy()?;
    ensure!(
        policy.contains("dst"),
        "the access rules are gone: {policy}"
    );
    row("mode Apply without a base", "the policy keeps what it had");
    here.apply_mode(Some("tailnet-policy"))?;
    here.condition("RoutesInSync", "True/Approved")?;
    rest.approve_routes(&id, &[])?;
    here.condition("RoutesInSync", "True/Approved")?;
    row("approvals emptied, mode Apply", "approved again");
    rest.set_policy(BY_HAND)?;
    here.wait("our lines in the policy", || {
        Ok(rest.policy()?.contains(LAN).then_some(()))
    })?;
    row("policy edited, mode Apply", "put right within a minute");

    here.no_fight()?;
    row(
        "StatefulSet scaled to 2 twice a second for 20 s",
        "put right five times, then told",
    );
    here.no_haste(began)?;
    row(
        "record of a handover in a tailnet that is gone",
        "told every ten seconds; everything else goes on",
    );
    ensure!(process.is_running(), "the controller ended");
    Ok(())
}

/// What a controller leaves that was killed in a handover, and then somebody deleted the Tailnet.
fn stranded_record() -> Value {
    let record = json!({ "tailnet": "gone", "server": "https://headscale.example.org", "node": "77", "hostname": "gw-77", "name": "gw-77", "approved": [LAN], "taken": [LAN],
        "kept": [], "began": "2026-01-01T00:00:00Z" });
    let labels = json!({ "app.kubernetes.io/managed-by": "tsunaro-controller", "tsunaro.io/handover": "record" });
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "tsunaro-handover-gone-77", "namespace": NAMESPACE, "labels": labels },
        "data": { "record.json": record.to_string() } })
}

const BY_HAND: &str = r#"{ "tagOwners": { "tag:fabric": [] }, "acls": [{ "action": "accept", "src": ["*"], "dst": ["*:*"] }] }"#;

struct Here<'a> {
    beside: &'a Beside,
}

impl Here<'_> {
    fn wait<T>(&self, what: &str, probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let log = self
            .beside
            .node
            .machine()
            .dir()
            .join("tsunaro-controller.log");
        Wait::new(what, Duration::from_secs(100))
            .logs([log])
            .until(probe)
    }

    fn get(&self, kind: &str, name: &str) -> Result<Value> {
        self.beside.node.get(&["-n", NAMESPACE, kind, name])
    }

    fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.beside
            .node
            .kubectl(&[&["-n", NAMESPACE], args].concat())?
            .ok()
    }

    fn condition(&self, kind: &str, expected: &str) -> Result<String> {
        self.wait(&format!("{kind}={expected}"), || {
            let (is, message) = self.beside.condition(NAME, kind)?;
            ensure!(is == expected, "{is}: {message}");
            Ok(Some(message))
        })
    }

    /// Somebody does this, and a field is as it was soon.
    fn right(
        &self,
        what: &str,
        act: &[&str],
        kind: &str,
        name: &str,
        field: &str,
        expected: &Value,
    ) -> Result<()> {
        self.kubectl(act)?;
        self.wait(what, || {
            let object = self.get(kind, name)?;
            let is = object.pointer(field);
            ensure!(is == Some(expected), "{is:?}");
            Ok(Some(()))
        })
    }

    fn load_balancer_class(&self) -> Result<()> {
        let class = r#"--patch={"spec":{"loadBalancerClass":"example.test/other"}}"#;
        let patch = [
            "-n",
            NAMESPACE,
            "patch",
            "service",
            NAME,
            "--type=merge",
            class,
        ];
        let said = self.beside.node.kubectl(&patch)?;
        ensure!(
            said.stderr.contains("may not change once set"),
            "{} {}",
            said.stdout,
            said.stderr
        );
        Ok(())
    }

    fn apply_as(&self, manager: &str, object: &Value) -> Result<()> {
        let machine = self.beside.node.machine();
        let file = machine.write("foreign.json", &object.to_string())?;
        let manager = format!("--field-manager={manager}");
        let file = file.display().to_string();
        self.kubectl(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            &manager,
            "-f",
            &file,
        ])
        .map(drop)
    }

    /// Nothing is written for so many seconds, after a moment.
    fn quiet(&self, what: &str, seconds: u64) -> Result<()> {
        let pass = |time: Duration| {
            let until = Instant::now() + time;
            self.wait(what, || Ok((Instant::now() > until).then_some(())))
        };
        pass(Duration::from_secs(4))?;
        let before = self.beside.versions()?;
        pass(Duration::from_secs(seconds))?;
        let after = self.beside.versions()?;
        let changed: Vec<_> = after.iter().filter(|one| !before.contains(one)).collect();
        ensure!(changed.is_empty(), "{what}: {changed:?}");
        Ok(())
    }

    /// Pre-auth keys that Headscale ever saw.
    fn keys(&self) -> Result<usize> {
        let keys = self
            .beside
            .lab
            .headscale()
            .rest()
            .call("GET", "preauthkey", None)?;
        Ok(keys["preAuthKeys"].as_array().map_or(0, Vec::len))
    }

    fn apply_mode(&self, base: Option<&str>) -> Result<()> {
        let mut policy = json!({ "mode": "Apply" });
        if let Some(name) = base {
            self.beside.apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": NAMESPACE }, "data": { "policy.hujson": BY_HAND } }))?;
            policy["baseConfigMapRef"] = json!({ "name": name });
        }
        let mut object = self.beside.node.get(&["tailnet", "corp"])?;
        object["spec"]["policy"] = policy;
        let object = json!({ "apiVersion": object["apiVersion"], "kind": "Tailnet", "metadata": { "name": "corp" }, "spec": object["spec"] });
        self.beside.apply(&object)
    }

    /// The record that nobody can end is tried now and then.
    fn no_haste(&self, began: Instant) -> Result<()> {
        let dir = self.beside.node.machine().dir();
        let log = std::fs::read_to_string(dir.join("tsunaro-controller.log"))?;
        let tries = log.matches("there is no Tailnet gone").count();
        let most = began.elapsed().as_secs() / 10 + 2;
        ensure!(
            (1..=usize::try_from(most)?).contains(&tries),
            "tried {tries} times in {:?}",
            began.elapsed()
        );
        Ok(())
    }

    /// Somebody who does not give in.
    fn no_fight(&self) -> Result<()> {
        let generation = || -> Result<i64> {
            Ok(self.get("statefulset", NAME)?["metadata"]["generation"]
                .as_i64()
                .unwrap_or_default())
        };
        let before = generation()?;
        let mut scaled = 0;
        let until = Instant::now() + Duration::from_secs(20);
        self.wait("20 s of it", || {
            if self.get("statefulset", NAME)?["spec"]["replicas"] == 1 {
                self.kubectl(&["scale", "statefulset", NAME, "--replicas=2"])?;
                scaled += 1;
            }
            Ok((Instant::now() > until).then_some(()))
        })?;
        let writes = generation()? - before - scaled;
        say(&format!(
            "scaled to 2 {scaled} times in 20 s, put right {writes} times"
        ));
        ensure!((1..=5).contains(&writes), "put right {writes} times");
        let (_, message) = self.beside.condition(NAME, "Ready")?;
        ensure!(
            message.contains("somebody else changes StatefulSet gw-1"),
            "{message}"
        );
        Ok(())
    }
}

fn advertise(node: &TailnetNode) -> Result<()> {
    let body = json!({ "AdvertiseRoutes": [LAN, LB_RANGE], "AdvertiseRoutesSet": true });
    let (code, said) = node.localapi("PATCH", "prefs", &body.to_string())?;
    ensure!(code == 200, "{code} {said}");
    Ok(())
}
