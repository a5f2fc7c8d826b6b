//! A reader of tailscaled's bus that is too slow.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tsunaro_integration::lab::{Lab, LabOptions, Signal, Start};

use crate::failures::healthy;
use crate::gateway::Gateway;
use crate::timed;

/// tailscaled keeps 128 notifications for a reader; the socket takes some 200 KiB before that.
const CHANGES: usize = 400;

#[test]
fn an_agent_that_fell_behind_on_the_bus_is_dropped_and_catches_up() -> Result<()> {
    let _timed = timed("test: a slow reader of the bus");
    let lab = Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    let pid = gateway.agent.pid();
    gateway.agent.kill(Signal::SIGSTOP)?;
    for change in 0..CHANGES {
        let routes: Vec<String> = (0..200)
            .map(|n| format!("10.{}.{n}.0/24", change % 2))
            .collect();
        let body = json!({ "AdvertiseRoutes": routes, "AdvertiseRoutesSet": true });
        let (code, answer) = gateway.node.localapi("PATCH", "prefs", &body.to_string())?;
        ensure!(code == 200, "{code}: {answer}");
    }
    gateway.agent.kill(Signal::SIGCONT)?;
    lab.wait_until("the dropped connection", Duration::from_secs(20), || {
        let log = gateway.agent.log();
        Ok(log.contains("dropped us as a slow reader").then_some(()))
    })?;
    lab.wait_until("its report", Duration::from_secs(10), || {
        let log = gateway.agent.log();
        let told = log.lines().any(|line| {
            line.contains("TailnetReady")
                && line.contains("Unreachable")
                && line.contains("tailscaled ended the connection; it is awaited")
        });
        Ok(told.then_some(()))
    })?;
    healthy(&gateway, &lab)?;
    ensure!(
        gateway.agent.is_running() && gateway.agent.pid() == pid,
        "the agent was restarted"
    );
    ensure!(
        !gateway.agent.log().contains("LoginRefused"),
        "it was taken for a refused login"
    );
    Ok(())
}
