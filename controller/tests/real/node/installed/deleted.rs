//! The end of a gateway that runs: kept by Retain, cleared by hand as the message says, and taken down
//! by Delete.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::{LAN_HOST, PingMonitor, Signal};
use tsunaro_integration::say;

use super::Installed;
use crate::beside::obey;
use crate::site::{NAME, NAMESPACE, POD};

#[test]
fn retain_leaves_the_gateway_running_and_delete_leaves_nothing() -> Result<()> {
    let installed = Installed::start()?;
    installed.apply_and_wait(|text| text)?;
    installed.wait("a ping of the peer to the LAN", || {
        installed.site.lab.peer().ping_once(LAN_HOST).map(Some)
    })?;
    retained(&installed)?;
    cleared_by_hand(&installed)?;
    deleted(&installed)
}

fn retained(installed: &Installed) -> Result<()> {
    let site = &installed.site;
    let (pod, node) = (site.node.pod_uid(NAMESPACE, POD)?, site.hs_node()?);
    let pings = PingMonitor::start(site.lab.peer(), LAN_HOST)?;
    site.kubectl(&["delete", "tailnetgateway", NAME, "--timeout=30s"])?;
    installed.apply(|text| text)?;
    let message = installed.wait_condition("Ready", "False/FreshBlocked")?;
    say(&format!("after Retain, made again: {message}"));
    ensure!(message.contains("prod-1-gw-fresh"), "{message}");
    let report = pings.stop()?;
    ensure!(report.lost == 0, "{report:?}");
    ensure!(site.node.pod_uid(NAMESPACE, POD)? == pod, "another Pod");
    ensure!(site.hs_node()?.id == node.id, "another node");
    Ok(())
}

/// What the messages of FreshBlocked say, one after the other, until nothing blocks.
fn cleared_by_hand(installed: &Installed) -> Result<()> {
    let site = &installed.site;
    let mut told = Vec::new();
    installed.wait("nothing to be in the way any more", || {
        let (is, message) = installed.condition("Ready")?;
        if is != "False/FreshBlocked" {
            return Ok(Some(()));
        }
        if told.contains(&message) {
            return Ok(None);
        }
        obey(&site.node, &site.lab, &message)?;
        told.push(message);
        Ok(None)
    })?;
    installed.apply_and_wait(|text| text.replace("Retain", "Delete"))
}

fn deleted(installed: &Installed) -> Result<()> {
    let site = &installed.site;
    site.lab.headscale().stop(Signal::SIGTERM)?;
    site.kubectl(&["delete", "tailnetgateway", NAME, "--wait=false"])?;
    let message = installed.wait_condition("Ready", "False/DeletionBlocked")?;
    say(&format!("Headscale away: {message}"));
    ensure!(
        site.node.pod_uid(NAMESPACE, POD).is_err(),
        "the Pod is there"
    );
    site.lab.headscale().start()?;
    let gone = format!("tailnetgateway/{NAME}");
    let wait = site
        .node
        .kubectl_cmd(&["wait", "--for=delete", &gone, "--timeout=100s"])
        .timeout(Duration::from_secs(110));
    site.node
        .machine()
        .run(wait)?
        .ok()
        .context(installed.logs())?;
    let left = site.kubectl(&[
        "-n",
        NAMESPACE,
        "get",
        "serviceaccounts,roles,rolebindings,poddisruptionbudgets,services,configmaps,statefulsets,secrets,pods",
        "-o=name",
    ])?;
    let left: Vec<&str> = left.lines().filter(|line| line.contains(NAME)).collect();
    ensure!(left.is_empty(), "{left:?}");
    ensure!(site.hs_node().is_err(), "the node is at Headscale");
    Ok(())
}
