//! What the owners of Tailnets, egresses and ConfigMaps write takes nothing from anybody else.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::lab::{CONTROL_URL, Process};
use tsunaro_integration::{Wait, say};

use crate::NAMESPACE;
use crate::beside::{Beside, Without, gateway};

/// The policy is looked at once a minute.
const SOON: Duration = Duration::from_secs(100);

#[test]
fn what_tenants_write_takes_nothing_from_others_and_is_told() -> Result<()> {
    let beside = Beside::start_with(Without::Kubelet)?;
    beside.tailnet(CONTROL_URL)?;
    let process = beside.run()?;
    beside.apply(&gateway("gw-1", 60, |_| {}))?;
    let here = Here {
        beside: &beside,
        process: &process,
    };
    here.another_gateways_config_map_is_no_hosts_file()?;
    here.a_reserved_target_is_left_out()?;
    here.a_key_whose_secret_was_deleted_is_expired()?;
    here.two_tailnets_do_not_both_set_the_policy()?;
    here.a_policy_of_brackets_is_refused()
}

struct Here<'a> {
    beside: &'a Beside,
    process: &'a Process,
}

impl Here<'_> {
    fn wait<T>(&self, what: &str, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let log = self
            .beside
            .node
            .machine()
            .dir()
            .join("tsunaro-controller.log");
        let found = Wait::new(what, SOON).logs([log]).until(|| {
            ensure!(self.process.is_running(), "the controller ended");
            probe()
        })?;
        say(&format!("| {what} | done |"));
        Ok(found)
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

    fn tailnet_says(&self, tailnet: &str, kind: &str, expected: &str) -> Result<String> {
        self.wait(&format!("{kind}={expected} of Tailnet {tailnet}"), || {
            let object = self.beside.node.get(&["tailnet", tailnet])?;
            let conditions = object["status"]["conditions"].as_array();
            let conditions = conditions.context("no conditions")?;
            let said = conditions.iter().find(|said| said["type"] == kind);
            let said = said.context("no such condition")?;
            let text = |field: &str| said[field].as_str().unwrap_or_default();
            let is = format!("{}/{}", text("status"), text("reason"));
            ensure!(is == expected, "{is}: {}", text("message"));
            Ok(Some(text("message").to_owned()))
        })
    }

    /// A Tailnet at the same Headscale, or a change of it.
    fn tailnet(&self, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut spec = self.beside.node.get(&["tailnet", "corp"])?["spec"].clone();
        change(&mut spec);
        self.beside.apply(
            &json!({ "apiVersion": "tsunaro.io/v1alpha1", "kind": "Tailnet", "metadata": { "name": name }, "spec": spec }),
        )
    }

    fn another_gateways_config_map_is_no_hosts_file(&self) -> Result<()> {
        let before = self.wait("the gateway's ConfigMap", || {
            Ok(Some(self.get("configmap", "gw-1-agent")?["data"].clone()))
        })?;
        self.tailnet("second", |spec| {
            spec["dns"]["hostsConfigMap"] = json!({ "name": "gw-1-agent", "key": "gateway.yaml" });
        })?;
        let message = self.tailnet_says("second", "Ready", "False/HostsTaken")?;
        ensure!(message.contains("name another one"), "{message}");
        ensure!(self.get("configmap", "gw-1-agent")?["data"] == before);
        self.tailnet("second", |spec| {
            spec["dns"]["hostsConfigMap"] = json!({ "name": "second-hosts" });
        })?;
        self.tailnet_says("second", "Ready", "True/HeadscaleReachable")?;
        let made = self.get("configmap", "second-hosts")?;
        ensure!(made["metadata"]["annotations"]["tsunaro.io/hosts-of"] == "second");
        Ok(())
    }

    fn a_reserved_target_is_left_out(&self) -> Result<()> {
        self.tailnet("corp", |spec| {
            spec["reservedNetworks"] = json!(["10.9.0.0/16"]);
        })?;
        for (name, target) in [("taken", "10.8.0.1"), ("reserved", "10.9.0.1")] {
            self.beside.apply(&json!({
                "apiVersion": "tsunaro.io/v1alpha1", "kind": "TailnetEgress",
                "metadata": { "name": name, "namespace": "default" },
                "spec": { "tailnetRef": { "name": "corp" }, "target": target, "dnsAliases": [format!("{name}.gw-1.tailnet.example.internal")] },
            }))?;
        }
        self.wait("a warning in Accepted", || {
            let (is, message) = self.beside.condition("gw-1", "Accepted")?;
            ensure!(
                is == "True/Accepted"
                    && message.contains("TailnetEgress default/reserved (10.9.0.1)"),
                "{is}: {message}"
            );
            Ok(Some(()))
        })?;
        self.wait(
            "the other target in the config and in the hosts file",
            || {
                let config = self.get("configmap", "gw-1-agent")?["data"].to_string();
                let hosts = self.get("configmap", "tailnet-hosts")?["data"].to_string();
                ensure!(config.contains("10.8.0.1") && hosts.contains("10.8.0.1"));
                ensure!(!config.contains("10.9.0.1") && !hosts.contains("10.9.0.1"));
                Ok(Some(()))
            },
        )
    }

    fn a_key_whose_secret_was_deleted_is_expired(&self) -> Result<()> {
        let id = |secret: &Value| secret["metadata"]["annotations"]["tsunaro.io/key-id"].clone();
        let first = self.wait("the key", || {
            let id = id(&self.get("secret", "gw-1-authkey")?);
            Ok((!id.is_null()).then_some(id))
        })?;
        self.kubectl(&["delete", "secret", "gw-1-authkey"])?;
        self.wait("another key", || {
            let secret = self.get("secret", "gw-1-authkey")?;
            let id = id(&secret);
            Ok(
                (!id.is_null() && id != first && !secret["data"]["authkey"].is_null())
                    .then_some(()),
            )
        })?;
        ensure!(self.beside.usable_keys()? == 1);
        Ok(())
    }

    fn two_tailnets_do_not_both_set_the_policy(&self) -> Result<()> {
        let apply = |spec: &mut Value| spec["policy"] = json!({ "mode": "Apply" });
        self.tailnet("corp", apply)?;
        self.tailnet("second", |spec| {
            apply(spec);
            spec["dns"]["hostsConfigMap"] = json!({ "name": "second-hosts" });
        })?;
        self.beside.apply(&gateway("gw-2", 61, |object| {
            object["spec"]["tailnetRef"]["name"] = json!("second");
            object["spec"]["routes"]["lan"] = json!(["203.0.113.0/24"]);
        }))?;
        self.tailnet_says("corp", "PolicyInSync", "True/PolicyCurrent")?;
        let message = self.wait("the lines in PolicyTaken of the second Tailnet", || {
            let message = self.tailnet_says("second", "PolicyInSync", "False/PolicyTaken")?;
            Ok(message.contains("203.0.113.0/24").then_some(message))
        })?;
        say(&message);
        let policy = self.beside.lab.headscale().rest().policy()?;
        ensure!(!policy.contains("203.0.113.0/24"), "{policy}");
        Ok(())
    }

    fn a_policy_of_brackets_is_refused(&self) -> Result<()> {
        self.beside.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "deep", "namespace": NAMESPACE },
            "data": { "policy.hujson": "[".repeat(200_000) },
        }))?;
        self.tailnet("corp", |spec| {
            spec["policy"] = json!({ "mode": "Apply", "baseConfigMapRef": { "name": "deep" } });
        })?;
        let message = self.tailnet_says("corp", "PolicyInSync", "False/PolicyFailed")?;
        ensure!(message.contains("64 deep"), "{message}");
        self.tailnet("corp", |spec| spec["policy"] = json!({ "mode": "Apply" }))?;
        self.tailnet_says("corp", "PolicyInSync", "True/PolicyCurrent")?;
        Ok(())
    }
}
