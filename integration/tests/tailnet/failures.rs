//! What goes wrong around a gateway: each has its reason in the report, and heals without a
//! restart of the agent where it can.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{
    EGRESS_TARGET, LAN, LB_ADDRESS, LB_RANGE, Lab, LabOptions, Signal, Start,
};
use tsunaro_integration::say;

use crate::gateway::{Gateway, ZONE, config, wait_peer_route};
use crate::timed;

pub(crate) const SITE: &[&str] = &[LAN, LB_RANGE];

pub(crate) fn healthy(gateway: &Gateway<'_>, lab: &Lab) -> Result<()> {
    gateway.wait_condition(lab, "TailnetReady", "True/Running")?;
    gateway.wait_advertised(lab, SITE)?;
    gateway.wait_condition(lab, "RoutesAdvertised", "True/Advertised")
}

#[test]
fn states_of_tailscaled_are_named_and_heal_without_a_restart_of_the_agent() -> Result<()> {
    let _timed = timed("test: states of tailscaled");
    let lab = Lab::start(LabOptions {
        gateways: [Start::Off, Start::Off],
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let rest = lab.headscale().rest();
    let gateway = Gateway::start(&lab, 1, &[])?;
    gateway.wait_condition(&lab, "TailnetReady", "False/Unreachable")?;
    ensure!(
        gateway.text("/tailnet/error")?.contains("does not exist"),
        "an absent socket is not named"
    );
    gateway.node.start()?;
    healthy(&gateway, &lab)?;

    gateway.node.stop(Signal::SIGKILL)?;
    gateway.wait_condition(&lab, "TailnetReady", "False/Unreachable")?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "False/TailnetUnreachable")?;
    lab.wait_until("the stale socket named", Duration::from_secs(10), || {
        let message = gateway.message("TailnetReady")?;
        ensure!(message.contains("left its socket behind"), "{message}");
        Ok(Some(()))
    })?;
    gateway.node.start()?;
    healthy(&gateway, &lab)?;

    for (by_hand, what) in [
        (&["down"][..], "tailscale down"),
        (&["set", "--accept-routes=true"], "accepted routes"),
        (&["set", "--shields-up=true"], "shields up"),
    ] {
        // Each is a change of its own to the agent only once the one before is a minute ago or
        // came with a change of state; the pause is what the next test is about.
        gateway.node.tailscale(by_hand)?.ok()?;
        let _timed = timed(what);
        lab.wait_until("prefs that fit a gateway", Duration::from_secs(75), || {
            let (_, prefs) = gateway.node.localapi("GET", "prefs", "")?;
            let prefs: serde_json::Value = serde_json::from_str(&prefs)?;
            let is = |pointer: &str| {
                prefs
                    .pointer(pointer)
                    .and_then(serde_json::Value::as_bool)
                    .unwrap_or(false)
            };
            let fit =
                is("/WantRunning") && !is("/RouteAll") && !is("/ShieldsUp") && !is("/CorpDNS");
            Ok(fit.then_some(()))
        })?;
        healthy(&gateway, &lab)?;
    }

    let node = rest.node("gw-1")?;
    rest.expire(&node.id)?;
    gateway.wait_told(
        &lab,
        "TailnetReady",
        "False/NodeExpired",
        "headscale nodes expire --identifier ID --disable",
    )?;
    rest.disable_expiry(&node.id)?;
    healthy(&gateway, &lab)?;
    ensure!(rest.node("gw-1")?.id == node.id, "another node came of it");
    ensure!(gateway.agent.is_running(), "the agent ended");
    Ok(())
}

#[test]
fn another_writer_that_persists_is_named_and_fought_once_a_minute() -> Result<()> {
    let _timed = timed("test: a persistent foreign writer");
    let lab = Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    let foreign = ["set", "--advertise-routes=10.99.0.0/16"];
    gateway.node.tailscale(&foreign)?.ok()?;
    gateway.wait_advertised(&lab, SITE)?;
    let healed = Instant::now();
    gateway.node.tailscale(&foreign)?.ok()?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "False/ForeignWriter")?;
    ensure!(
        gateway.advertised()? == ["10.99.0.0/16"],
        "it was fought at once"
    );
    lab.wait_until("our routes", Duration::from_secs(90), || {
        Ok((gateway.advertised()? == SITE).then_some(()))
    })?;
    let pause = healed.elapsed();
    say(&format!(
        "the second healing came after {:.1} s",
        pause.as_secs_f64()
    ));
    ensure!(pause > Duration::from_secs(55), "it came after {pause:?}");
    Ok(())
}

#[test]
fn without_a_control_server_names_and_routes_go_on_and_changes_catch_up() -> Result<()> {
    let _timed = timed("test: no control server");
    let lab = Lab::start(LabOptions::default())?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    wait_peer_route(&lab, LAN, true)?;
    let peer_resolves = |within| {
        lab.wait_until("the peer's question", Duration::from_secs(within), || {
            let (code, _) = lab.peer().dns(LB_ADDRESS, &format!("router.{ZONE}"), "A")?;
            Ok((code == "NOERROR").then_some(()))
        })
    };
    peer_resolves(30)?;
    lab.headscale().stop(Signal::SIGKILL)?;
    let egress = format!("{EGRESS_TARGET}/32");
    gateway
        .config
        .swap(&[("gateway.yaml", &config(&[EGRESS_TARGET]))])?;
    gateway.wait_advertised(&lab, &[&egress, LAN, LB_RANGE])?;
    peer_resolves(5)?;
    {
        let _timed = timed("from headscale's end to its report");
        lab.wait_until("the report of it", Duration::from_secs(240), || {
            let got = gateway.condition("TailnetReady")?;
            ensure!(got == "True/ControlServerUnreachable", "it is {got}");
            Ok(Some(()))
        })?;
        let message = gateway.message("TailnetReady")?;
        ensure!(
            message.contains("see that the control server runs"),
            "{message}"
        );
    }
    peer_resolves(5)?;

    let pid = gateway.agent.pid();
    gateway.node.restart(Signal::SIGTERM)?;
    lab.wait_until("a state without a tailnet", Duration::from_secs(20), || {
        let got = gateway.condition("TailnetReady")?;
        let known = ["False/NoState", "False/Starting"].contains(&got.as_str());
        Ok(known.then_some(()))
    })?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "False/TailnetNoState")?;
    let message = gateway.message("TailnetReady")?;
    ensure!(
        message.contains("the control server or its state store was not reached"),
        "{message}"
    );
    let (code, _) = gateway
        .node
        .dns("127.0.0.1", &format!("router.{ZONE}"), "A")?;
    ensure!(code == "NOERROR", "DNS got {code} without a tailnet");
    ensure!(
        gateway.node.http_get("http://127.0.0.1:9181/readyz")?.0 == 200,
        "not ready"
    );
    lab.headscale().start()?;
    let _timed = timed("from headscale's return to the route at the peer");
    lab.wait_until("tailscaled running again", Duration::from_secs(90), || {
        Ok((gateway.condition("RoutesAdvertised")? == "True/Advertised").then_some(()))
    })?;
    lab.wait_until("the new route at the peer", Duration::from_secs(60), || {
        let table = lab.peer().sh("ip route show table 52")?;
        Ok(table.contains(EGRESS_TARGET).then_some(()))
    })?;
    ensure!(
        gateway.agent.is_running() && gateway.agent.pid() == pid,
        "the agent was restarted"
    );
    Ok(())
}

#[test]
fn clients_that_are_told_to_ask_others_are_a_condition_with_the_lines_to_add() -> Result<()> {
    let _timed = timed("test: split DNS not distributed");
    let lab = Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    gateway.wait_condition(&lab, "SplitDNS", "False/NotDistributed")?;
    let status = gateway.status()?.to_string();
    let line = format!("{ZONE}: [{LB_ADDRESS}]");
    ensure!(status.contains(&line), "{line} is not in {status}");
    Ok(())
}
