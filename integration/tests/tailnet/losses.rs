//! What tailscaled forgets: routes set before a login, a login, a state that could not be saved.

use std::time::Duration;

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{EGRESS_TARGET, LAN, LB_RANGE, Lab, LabOptions, Signal, Start};

use crate::failures::{SITE, healthy};
use crate::gateway::{Gateway, config, field, fresh_key};
use crate::login::new_key;
use crate::timed;

fn lab_without_peer() -> Result<Lab> {
    Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })
}

#[test]
fn routes_that_were_set_before_the_login_count_for_nothing_and_are_set_after_it() -> Result<()> {
    let _timed = timed("test: routes before the login");
    let lab = lab_without_peer()?;
    let gateway = Gateway::start_with_key(&lab, 1, &[], "")?;
    gateway.wait_condition(&lab, "TailnetReady", "False/NeedsLogin")?;
    // tailscaled takes them with success, into a profile that nothing is saved for.
    let body = r#"{"AdvertiseRoutes":["192.0.2.0/24","10.99.0.0/16"],"AdvertiseRoutesSet":true}"#;
    let (code, _) = gateway.node.localapi("PATCH", "prefs", body)?;
    ensure!(code == 200, "tailscaled answered {code}");
    gateway.wait_told(
        &lab,
        "RoutesAdvertised",
        "False/TailnetNeedsLogin",
        "2 of 2 prefixes are not advertised",
    )?;
    let truth = gateway.route(LAN)?;
    ensure!(
        field(&truth, "reason") == "NeedsLogin" && field(&truth, "message").contains("authKeyFile"),
        "{truth}"
    );
    new_key(&gateway, &fresh_key(&lab)?)?;
    healthy(&gateway, &lab)
}

#[test]
fn a_login_that_is_given_up_is_named_and_a_new_key_heals_it() -> Result<()> {
    let _timed = timed("test: a logout");
    let lab = lab_without_peer()?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    gateway.node.tailscale(&["logout"])?.ok()?;
    // With the login went the profile, and with that the operator and the control server that the
    // config file had named; tailscaled reads that file when it starts.
    gateway.wait_told(
        &lab,
        "TailnetReady",
        "False/NotOperator",
        "after a logout restart tailscaled",
    )?;
    let pid = gateway.agent.pid();
    let rest = lab.headscale().rest();
    let node = rest.node("gw-1")?;
    gateway.node.restart(Signal::SIGTERM)?;
    // The key at hand was for single use.
    gateway.wait_told(
        &lab,
        "TailnetReady",
        "False/LoginRefused",
        "put a new pre-auth key there",
    )?;
    // Headscale 0.29 spends the next key of a tagged node that logged out, and refuses it, as long
    // as it knows the node.
    rest.delete(&node.id)?;
    new_key(&gateway, &fresh_key(&lab)?)?;
    healthy(&gateway, &lab)?;
    ensure!(
        gateway.agent.is_running() && gateway.agent.pid() == pid,
        "the agent was restarted"
    );
    Ok(())
}

#[test]
fn a_state_that_cannot_be_saved_is_named_after_a_restart_and_cleared_by_one_that_saved_it()
-> Result<()> {
    let _timed = timed("test: an unsaved state");
    let lab = lab_without_peer()?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    let state = gateway.node.state();
    let kept = state.with_extension("kept");
    let target = format!("{EGRESS_TARGET}/32");
    let all = [target.as_str(), LAN, LB_RANGE];

    // A directory in the file's place: no write can replace it.
    std::fs::rename(&state, &kept)?;
    std::fs::create_dir(&state)?;
    std::fs::write(state.join("in-the-way"), "")?;
    gateway
        .config
        .swap(&[("gateway.yaml", &config(&[EGRESS_TARGET]))])?;
    gateway.wait_advertised(&lab, &all)?;
    gateway.wait_condition(&lab, "TailnetReady", "True/Running")?;
    gateway.node.stop(Signal::SIGTERM)?;
    std::fs::remove_dir_all(&state)?;
    std::fs::rename(&kept, &state)?;
    gateway.wait_condition(&lab, "TailnetReady", "False/Unreachable")?;
    gateway.node.start()?;
    gateway.wait_told(
        &lab,
        "TailnetReady",
        "True/StateNotSaved",
        "let its Role get and update the state Secret",
    )?;
    gateway.wait_advertised(&lab, &all)?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;

    gateway.node.restart(Signal::SIGTERM)?;
    gateway.wait_condition(&lab, "TailnetReady", "True/Running")?;
    gateway.wait_advertised(&lab, &all)?;
    gateway.config.swap(&[("gateway.yaml", &config(&[]))])?;
    gateway.wait_advertised(&lab, SITE)?;
    lab.wait_until("the agent of the start", Duration::from_secs(5), || {
        Ok(gateway.agent.is_running().then_some(()))
    })
}
