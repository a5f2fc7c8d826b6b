//! The agent logs tailscaled in, as a user without privileges.

use std::time::Duration;

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{KeyOptions, LAN, LB_RANGE, Lab, LabOptions, Signal};
use tsunaro_integration::mount::Mount;

use crate::gateway::Gateway;
use crate::timed;

#[test]
fn a_fresh_tailscaled_is_logged_in_from_the_key_file_and_again_after_its_state_is_lost()
-> Result<()> {
    let _timed = timed("test: login from the key file");
    let lab = Lab::start(LabOptions::default())?;
    let rest = lab.headscale().rest();
    // An empty key file first: the agent waits and says what it waits for.
    let gateway = Gateway::start_with_key(&lab, 1, &[], "")?;
    gateway.wait_condition(&lab, "TailnetReady", "False/NeedsLogin")?;
    ensure!(
        gateway.node.http_get("http://127.0.0.1:9181/readyz")?.0 == 200,
        "DNS is ready without a login"
    );
    let uid = gateway.node.sh(&format!(
        "awk '/^Uid|^CapEff/ {{print $2}}' /proc/{}/status",
        gateway.agent.pid()
    ))?;
    ensure!(
        uid.split_whitespace().eq(["65534", "0000000000000000"]),
        "the agent runs as {uid}"
    );

    let key = rest.preauth_key(&KeyOptions::tagged("tag:fabric"))?;
    new_key(&gateway, &key)?;
    {
        let _timed = timed("from the key in the file to Running and advertised");
        gateway.wait_condition(&lab, "TailnetReady", "True/Running")?;
        gateway.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    }
    let node = rest.node("gw-1")?;
    ensure!(node.tags == ["tag:fabric"], "the node is {node:?}");

    // The state is lost, and with it the login; a new key heals it live.
    gateway.node.stop(Signal::SIGTERM)?;
    gateway.node.wipe_state()?;
    rest.delete(&node.id)?;
    gateway.node.start()?;
    // The key at hand was used up; it is tried once more, and refused.
    gateway.wait_condition(&lab, "TailnetReady", "False/LoginRefused")?;
    let second = rest.preauth_key(&KeyOptions::tagged("tag:fabric"))?;
    new_key(&gateway, &second)?;
    gateway.wait_condition(&lab, "TailnetReady", "True/Running")?;
    gateway.wait_advertised(&lab, &[LAN, LB_RANGE])?;

    let log = gateway.agent.log();
    ensure!(
        !log.contains(&key) && !log.contains(&second),
        "a key shows in the log"
    );
    ensure!(
        !gateway.status()?.to_string().contains(&second),
        "a key shows in the status"
    );
    Ok(())
}

#[test]
fn a_refused_key_is_reported_and_a_good_one_heals_it() -> Result<()> {
    let _timed = timed("test: a refused key");
    let lab = Lab::start(LabOptions::default())?;
    let rest = lab.headscale().rest();
    let wrong = format!("hskey-auth-{}-{}", "a".repeat(12), "b".repeat(64));
    let gateway = Gateway::start_with_key(&lab, 1, &[], &wrong)?;
    gateway.wait_condition(&lab, "TailnetReady", "False/LoginRefused")?;
    let status = gateway.status()?.to_string();
    ensure!(
        status.contains("put a new pre-auth key there"),
        "no remedy in {status}"
    );
    ensure!(
        !status.contains(&wrong) && !gateway.agent.log().contains(&wrong),
        "the key shows"
    );
    new_key(
        &gateway,
        &rest.preauth_key(&KeyOptions::tagged("tag:fabric"))?,
    )?;
    gateway.wait_condition(&lab, "TailnetReady", "True/Running")?;
    gateway.wait_advertised(&lab, &[LAN, LB_RANGE])
}

#[test]
fn a_new_key_while_running_keeps_the_node_and_its_routes() -> Result<()> {
    let _timed = timed("test: a new key while running");
    let lab = Lab::start(LabOptions::default())?;
    let rest = lab.headscale().rest();
    let gateway = Gateway::start(&lab, 1, &[])?;
    gateway.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    gateway.wait_condition(&lab, "TailnetReady", "True/Running")?;
    let before = rest.node("gw-1")?;
    let key = rest.preauth_key(&KeyOptions::tagged("tag:fabric"))?;
    new_key(&gateway, &key)?;
    lab.wait_until(
        "the log line of the new login",
        Duration::from_secs(10),
        || Ok(gateway.agent.log().contains("log in again").then_some(())),
    )?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;
    let after = rest.node("gw-1")?;
    ensure!(
        before.id == after.id,
        "the node changed: {before:?} {after:?}"
    );
    Ok(())
}

/// Puts a key into the mounted key file, as a changed Secret does.
pub(crate) fn new_key(gateway: &Gateway<'_>, key: &str) -> Result<()> {
    let dir = gateway.node.dir().join("mounts/key");
    std::fs::remove_dir_all(&dir)?;
    Mount::new(dir, &[("authkey", key)])?;
    Ok(())
}
