//! What tailscaled, the control server or the config does not allow: named with the remedy, and
//! made good without a restart of the agent once it is allowed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tsunaro_integration::lab::{
    EGRESS_TARGET, LAN, LB_RANGE, Lab, LabOptions, Signal, Start, TailnetNode,
};

use crate::failures::{SITE, healthy};
use crate::gateway::{Gateway, config, config_with, field, wait_peer_route};
use crate::timed;

fn lab_without_peer() -> Result<Lab> {
    Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })
}

#[test]
fn one_bad_prefix_is_named_and_does_not_block_the_good_ones() -> Result<()> {
    let _timed = timed("test: a bad prefix");
    let lab = lab_without_peer()?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    // tailscaled refuses the whole set for the first, and takes the second without a word.
    let (code, answer) = gateway.node.localapi(
        "PATCH",
        "prefs",
        r#"{"AdvertiseRoutes":["10.0.10.20/32","192.0.2.7/24"],"AdvertiseRoutesSet":true}"#,
    )?;
    ensure!(code == 400, "tailscaled answered {code}: {answer}");
    let bad = config_with("  egressTargets: [10.0.10.20, 100.64.0.1, \"10.0.10.0/33\"]\n");
    gateway.config.swap(&[("gateway.yaml", &bad)])?;
    let target = format!("{EGRESS_TARGET}/32");
    gateway.wait_advertised(&lab, &[&target, LAN, LB_RANGE])?;
    gateway.wait_told(
        &lab,
        "RoutesAdvertised",
        "False/Unroutable",
        "2 of 5 entries cannot be advertised, the others are: 100.64.0.1:",
    )?;
    let refused = gateway.route("100.64.0.1")?;
    ensure!(
        field(&refused, "reason") == "Unroutable"
            && field(&refused, "message").contains("belongs to the tailnet itself; remove it"),
        "{refused}"
    );
    gateway.config.swap(&[("gateway.yaml", &config(&[]))])?;
    healthy(&gateway, &lab)
}

#[test]
fn masquerading_is_as_configured_and_changes_live() -> Result<()> {
    let _timed = timed("test: snat");
    let lab = lab_without_peer()?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    for (snat, lines) in [(false, "  snat: false\n"), (true, "")] {
        gateway
            .config
            .swap(&[("gateway.yaml", &config_with(lines))])?;
        lab.wait_until("the pref and the kernel", Duration::from_secs(15), || {
            let (_, prefs) = gateway.node.localapi("GET", "prefs", "")?;
            let prefs: Value = serde_json::from_str(&prefs)?;
            let masquerades = gateway.node.sh("nft list ruleset")?.contains("masquerade");
            ensure!(
                prefs.get("NoSNAT").and_then(Value::as_bool) == Some(!snat) && masquerades == snat,
                "NoSNAT is {:?}, masquerading {masquerades}",
                prefs.get("NoSNAT")
            );
            Ok(Some(()))
        })?;
        healthy(&gateway, &lab)?;
    }
    let by_hand = ["set", "--snat-subnet-routes=false"];
    gateway.node.tailscale(&by_hand)?.ok()?;
    lab.wait_until("the pref put right", Duration::from_secs(75), || {
        let (_, prefs) = gateway.node.localapi("GET", "prefs", "")?;
        let prefs: Value = serde_json::from_str(&prefs)?;
        Ok((prefs.get("NoSNAT").and_then(Value::as_bool) == Some(false)).then_some(()))
    })
}

#[test]
fn a_locked_config_file_is_named_and_unlocking_it_heals() -> Result<()> {
    let _timed = timed("test: a locked config file");
    let lab = lab_without_peer()?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    lock(gateway.node, true)?;
    gateway
        .config
        .swap(&[("gateway.yaml", &config(&[EGRESS_TARGET]))])?;
    gateway.wait_told(
        &lab,
        "RoutesAdvertised",
        "False/ConfigLocked",
        "set `\"Locked\": false` in its config file and restart it",
    )?;
    lock(gateway.node, false)?;
    let target = format!("{EGRESS_TARGET}/32");
    gateway.wait_advertised(&lab, &[&target, LAN, LB_RANGE])?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;
    ensure!(gateway.agent.is_running(), "the agent ended");
    Ok(())
}

fn lock(node: &TailnetNode, locked: bool) -> Result<()> {
    let path = node.dir().join("tailscaled.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let object = config.as_object_mut().context("no object")?;
    object.insert("Locked".to_owned(), locked.into());
    std::fs::write(&path, config.to_string())?;
    node.restart(Signal::SIGTERM)?;
    node.wait_running()?;
    Ok(())
}

#[test]
fn an_agent_that_is_not_the_operator_gives_the_exact_commands_and_heals_once_it_is() -> Result<()> {
    let _timed = timed("test: not the operator");
    let lab = lab_without_peer()?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    gateway.node.tailscale(&["set", "--operator=root"])?.ok()?;
    let by_hand = ["set", "--advertise-routes=", "--accept-routes=true"];
    gateway.node.tailscale(&by_hand)?.ok()?;
    gateway.wait_told(
        &lab,
        "TailnetReady",
        "False/PrefsDiffer",
        "run: tailscale set --accept-routes=false",
    )?;
    gateway.wait_told(
        &lab,
        "RoutesAdvertised",
        "False/NotOperator",
        "tailscale set --advertise-routes=192.0.2.0/24,198.51.100.0/24",
    )?;
    let message = gateway.message("RoutesAdvertised")?;
    ensure!(
        message.contains("tailscale set --operator=nobody"),
        "{message}"
    );
    gateway
        .node
        .tailscale(&["set", "--operator=nobody"])?
        .ok()?;
    healthy(&gateway, &lab)
}

#[test]
fn a_withheld_approval_is_the_next_step_that_the_report_names() -> Result<()> {
    let _timed = timed("test: a withheld approval");
    let policy = r#"{
      "tagOwners": { "tag:fabric": [], "tag:peer": [] },
      "acls": [{ "action": "accept", "src": ["*"], "dst": ["*:*"] }]
    }"#;
    let lab = Lab::start(LabOptions {
        policy: policy.to_owned(),
        ..LabOptions::default()
    })?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    let rest = lab.headscale().rest();
    let node = lab.wait_until("the routes at headscale", Duration::from_secs(30), || {
        let node = rest.node("gw-1")?;
        Ok((node.available_routes.len() == SITE.len()).then_some(node))
    })?;
    ensure!(node.approved_routes.is_empty(), "{node:?}");
    wait_peer_route(&lab, LAN, false)?;
    gateway.wait_condition(&lab, "KernelReady", "True/ChecksPassed")?;
    let truth = gateway.route(LAN)?;
    ensure!(
        field(&truth, "reason") == "Carried"
            && field(&truth, "message").contains("headscale nodes list-routes"),
        "{truth}"
    );
    let pid = gateway.agent.pid();
    rest.approve_routes(&node.id, SITE)?;
    wait_peer_route(&lab, LAN, true)?;
    ensure!(
        gateway.agent.is_running() && gateway.agent.pid() == pid,
        "the agent was restarted"
    );
    Ok(())
}

#[test]
fn an_upstream_that_is_an_own_address_is_named_until_it_is_none() -> Result<()> {
    let _timed = timed("test: an upstream that is the gateway itself");
    let lab = lab_without_peer()?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    let own = gateway.node.sh(
        "ip -4 -o address show | awk '$4 ~ /^192\\.0\\.2\\./ {print $4}' | cut -d/ -f1 | head -1",
    )?;
    let own = own.trim();
    let with = |upstream: &str| {
        config(&[]).replace(
            "tailnet:\n",
            &format!(
                "  extraZones:\n    - {{ zone: corp.example, upstreams: [{upstream}] }}\ntailnet:\n"
            ),
        )
    };
    gateway.config.swap(&[("gateway.yaml", &with(own))])?;
    let words = format!("{own}:53 for corp.example. is an address of this host");
    gateway.wait_told(&lab, "DNSReady", "True/UpstreamIsItself", &words)?;
    let findings = gateway.status()?.pointer("/config/findings").cloned();
    ensure!(
        findings
            .is_some_and(|findings| findings.to_string().contains("dns.extraZones[0].upstreams")),
        "no finding"
    );
    gateway
        .config
        .swap(&[("gateway.yaml", &with("203.0.113.53"))])?;
    gateway.wait_condition(&lab, "DNSReady", "True/Serving")?;
    // An address that the host gets later is found, too.
    gateway.node.sh("ip address add 203.0.113.53/32 dev lo")?;
    gateway.wait_condition(&lab, "DNSReady", "True/UpstreamIsItself")?;
    gateway.node.sh("ip address del 203.0.113.53/32 dev lo")?;
    gateway.wait_condition(&lab, "DNSReady", "True/Serving")
}
