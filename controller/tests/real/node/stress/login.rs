//! Logins that go, on a real node with real Pods: each heals or is held as the spec says, and no Pod is
//! restarted.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tsunaro_integration::kube::tailscale;
use tsunaro_integration::lab::{LAN_HOST, Process};
use tsunaro_integration::say;

use super::Live;
use crate::beside::obey;
use crate::installed::condition_of;
use crate::site::NAMESPACE;

/// An image that is not there until the test wants it.
const LATE_IMAGE: &str = "ghcr.io/tailscale/tailscale:v1.102.9";

/// The worst of everything that a gateway may meet within an hour: three keys are minted for it.
#[test]
fn a_lost_login_heals_and_what_an_administrator_did_waits_for_the_command_that_is_printed()
-> Result<()> {
    let live = Live::start()?;
    let mut controller = live.run(&["--headscale-interval", "2", "--resync", "10"])?;
    live.gateway("gw-a", 60, |_| {})?;
    live.wait_well("gw-a")?;
    let pod = Pods::of(&live, "gw-a")?;
    let first = node_id(&live, "gw-a")?;
    let row = |what: &str, began: Instant, how: &str| {
        say(&format!(
            "login | {what} | {how} | {:.1} s",
            began.elapsed().as_secs_f64()
        ));
    };

    // The state Secret is emptied, and tailscaled restarts.
    let began = Instant::now();
    lose_state(&live, "gw-a")?;
    let second = another_node(&live, "gw-a", &first)?;
    live.wait_well("gw-a")?;
    row("state lost, onLoss Renew", began, "heals");

    // The Secret itself goes.
    let began = Instant::now();
    live.site
        .kubectl(&["-n", NAMESPACE, "delete", "secret", "gw-a-state"])?;
    live.wait("another state Secret", || {
        live.site
            .node
            .get(&["-n", NAMESPACE, "secret", "gw-a-state"])?;
        Ok(Some(()))
    })?;
    row(
        "state Secret deleted while tailscaled runs",
        began,
        "made again",
    );

    // Expired by an administrator: held, and Headscale's own command ends it.
    let began = Instant::now();
    live.site.lab.headscale().rest().expire(&second)?;
    held(&live, "gw-a", "False/NodeExpired")?;
    live.wait_well("gw-a")?;
    ensure!(node_id(&live, "gw-a")? == second, "another node");
    row(
        "expired by an administrator, onRevoked Hold",
        began,
        "held until the printed command",
    );

    // Deleted by an administrator: held, and the annotation of the message ends it.
    let began = Instant::now();
    live.site.lab.headscale().rest().delete(&second)?;
    held(&live, "gw-a", "False/NodeDeleted")?;
    let third = another_node(&live, "gw-a", &second)?;
    live.wait_well("gw-a")?;
    row(
        "deleted by an administrator, onRevoked Hold",
        began,
        "held until the printed command",
    );

    // Three keys within an hour, and the next controller knows it too.
    controller.terminate(std::time::Duration::from_secs(10))?;
    controller = live.run(&["--headscale-interval", "2", "--resync", "10"])?;
    let began = Instant::now();
    lose_state(&live, "gw-a")?;
    let message = live.wait_condition("gw-a", "Ready", "False/MintLimit")?;
    row(
        "a fourth login within the hour",
        began,
        &format!("MintLimit: {message}"),
    );
    ensure!(keys_of(&live)? == 3, "{} keys", keys_of(&live)?);
    ensure!(node_id(&live, "gw-a")? == third);
    pod.unchanged(&live)?;
    policies_that_differ(&live, &controller)
}

/// `Hold` for what was lost, `Renew` for what was revoked; a key that others used or expired.
fn policies_that_differ(live: &Live, controller: &Process) -> Result<()> {
    let row = |what: &str, began: Instant, how: &str| {
        say(&format!(
            "login | {what} | {how} | {:.1} s",
            began.elapsed().as_secs_f64()
        ));
    };
    let image = tailscale(LATE_IMAGE, live.site.lab.peers(), live.site.lab.peer().ca())?;
    let spec = |object: &mut Value| {
        object["spec"]["image"] = LATE_IMAGE.into();
        object["spec"]["identity"] = json!({ "onLoss": "Renew", "onRevoked": "Renew" });
    };
    live.gateway("gw-b", 61, spec)?;
    live.wait_condition("gw-b", "Ready", "False/PodNotReady")?;
    // Before the Pod runs: another machine logs in with its key.
    let key = live.wait("the key", || key_of(live, "gw-b"))?;
    let thief = live.site.lab.gateway(1)?;
    thief.start()?;
    thief.login(&key)?;
    thief.wait_running()?;
    let began = Instant::now();
    live.site.node.load_image(&image)?;
    restart_pod(live, "gw-b")?;
    live.wait_well("gw-b")?;
    let pod = Pods::of(live, "gw-b")?;
    let message = live.wait_condition("gw-b", "StaleNodes", "True/KeyUsedElsewhere")?;
    row(
        "key used by another machine",
        began,
        "heals, and the other is told",
    );
    obey(&live.site.node, &live.site.lab, &message)?;
    live.wait_condition("gw-b", "StaleNodes", "Unknown/ExternallyManaged")?;

    let id = node_id(live, "gw-b")?;
    let began = Instant::now();
    live.site.lab.headscale().rest().expire(&id)?;
    live.wait("the expiry taken back", || {
        let node = live.site.lab.headscale().rest().node("gw-b")?;
        Ok((node.online && controller.log().contains("revive_node")).then_some(()))
    })?;
    live.wait_well("gw-b")?;
    ensure!(node_id(live, "gw-b")? == id, "another node");
    row("expired, onRevoked Renew", began, "heals, the same node");

    let began = Instant::now();
    live.site.lab.headscale().rest().delete(&id)?;
    another_node(live, "gw-b", &id)?;
    live.wait_well("gw-b")?;
    row("deleted, onRevoked Renew", began, "heals");
    pod.unchanged(live)?;

    // A key that an administrator expired before it was used; then Hold.
    live.gateway("gw-c", 62, |object| {
        object["spec"]["image"] = "registry.example/none:v1".into();
        object["spec"]["identity"] = json!({ "onLoss": "Hold" });
    })?;
    let key = live.wait("the key of gw-c", || key_of(live, "gw-c"))?;
    let ids = live
        .site
        .lab
        .headscale()
        .rest()
        .call("GET", "preauthkey", None)?;
    let newest = ids["preAuthKeys"]
        .as_array()
        .and_then(|keys| keys.last().cloned())
        .context("no key")?;
    live.site.lab.headscale().rest().call(
        "POST",
        "preauthkey/expire",
        Some(&json!({ "id": newest["id"] })),
    )?;
    let began = Instant::now();
    live.gateway("gw-c", 62, |object| {
        object["spec"]["image"] = LATE_IMAGE.into();
        object["spec"]["identity"] = json!({ "onLoss": "Hold" });
    })?;
    restart_pod(live, "gw-c")?;
    live.wait_well("gw-c")?;
    ensure!(key_of(live, "gw-c")?.as_ref() != Some(&key));
    row("key expired before it was used", began, "heals");
    let pod = Pods::of(live, "gw-c")?;
    let id = node_id(live, "gw-c")?;
    let began = Instant::now();
    lose_state(live, "gw-c")?;
    held(live, "gw-c", "False/LoginLost")?;
    another_node(live, "gw-c", &id)?;
    live.wait_well("gw-c")?;
    row(
        "state lost, onLoss Hold",
        began,
        "held until the printed command",
    );
    pod.unchanged(live)?;
    live.wait("the LAN at the peer", || {
        live.site.lab.peer().ping_once(LAN_HOST).map(Some)
    })
}

/// Which Pod it is and how often its containers were started.
struct Pods {
    name: String,
    seen: String,
}

impl Pods {
    fn of(live: &Live, gateway: &str) -> Result<Self> {
        let name = format!("{gateway}-0");
        let seen = Self::look(live, &name)?;
        Ok(Self { name, seen })
    }

    fn look(live: &Live, name: &str) -> Result<String> {
        let pod = live.site.node.get(&["-n", NAMESPACE, "pod", name])?;
        let restarts: Vec<String> = ["initContainerStatuses", "containerStatuses"]
            .iter()
            .flat_map(|list| pod["status"][list].as_array().cloned().unwrap_or_default())
            .map(|status| status["restartCount"].to_string())
            .collect();
        Ok(format!("{} {restarts:?}", pod["metadata"]["uid"]))
    }

    fn unchanged(&self, live: &Live) -> Result<()> {
        let now = Self::look(live, &self.name)?;
        ensure!(now == self.seen, "{} became {now}", self.seen);
        Ok(())
    }
}

/// Empties the state Secret and kills tailscaled, whose supervisor starts it again.
fn lose_state(live: &Live, gateway: &str) -> Result<()> {
    let secret = format!("{gateway}-state");
    let patch = r#"--patch=[{"op":"remove","path":"/data"}]"#;
    live.site.kubectl(&[
        "-n",
        NAMESPACE,
        "patch",
        "secret",
        &secret,
        "--type=json",
        patch,
    ])?;
    let state = format!("kube:{secret}");
    let mut killed = false;
    for pid in live.site.processes(&["tailscaled"])? {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if words.contains(&state) {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
            killed = true;
        }
    }
    ensure!(killed, "no tailscaled of {gateway}");
    Ok(())
}

/// Waits for a held login and does what its message says.
fn held(live: &Live, gateway: &str, expected: &str) -> Result<()> {
    let message = live.wait_condition(gateway, "Ready", expected)?;
    say(&format!("{expected}: {message}"));
    // It stays so: nothing is done without a person.
    let mints = keys_of(live)?;
    let until = Instant::now() + std::time::Duration::from_secs(6);
    live.wait("a while", || {
        let (is, message) =
            condition_of(&live.site.node.get(&["tailnetgateway", gateway])?, "Ready")?;
        ensure!(is == expected, "{is}: {message}");
        Ok((Instant::now() > until).then_some(()))
    })?;
    ensure!(keys_of(live)? == mints, "a key was minted");
    obey(&live.site.node, &live.site.lab, &message)
}

fn node_id(live: &Live, gateway: &str) -> Result<String> {
    let object = live.site.node.get(&["tailnetgateway", gateway])?;
    Ok(object["status"]["nodeId"]
        .as_str()
        .context("no node")?
        .to_owned())
}

fn another_node(live: &Live, gateway: &str, old: &str) -> Result<String> {
    live.wait("another node", || {
        let id = node_id(live, gateway)?;
        Ok((id != old).then_some(id))
    })
}

/// The key in a gateway's Secret.
fn key_of(live: &Live, gateway: &str) -> Result<Option<String>> {
    let secret = format!("{gateway}-authkey");
    let get = [
        "-n",
        NAMESPACE,
        "get",
        "secret",
        &secret,
        "-o",
        "go-template={{if .data}}{{.data.authkey | base64decode}}{{end}}",
    ];
    let said = live.site.node.kubectl(&get)?;
    Ok(Some(said.stdout).filter(|key| said.stderr.is_empty() && key.starts_with("hskey")))
}

/// All pre-auth keys of gateways that Headscale ever saw.
fn keys_of(live: &Live) -> Result<usize> {
    let keys = live
        .site
        .lab
        .headscale()
        .rest()
        .call("GET", "preauthkey", None)?;
    let ours = |key: &&Value| key["aclTags"] == json!(["tag:fabric"]);
    Ok(keys["preAuthKeys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(ours)
        .count())
}

/// A Pod that waits for its image begins anew.
fn restart_pod(live: &Live, gateway: &str) -> Result<()> {
    let pod = format!("{gateway}-0");
    live.site
        .kubectl(&["-n", NAMESPACE, "delete", "pod", &pod, "--grace-period=1"])
        .map(drop)
}
