//! Names and routes of a running gateway, changed live.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{
    EGRESS_TARGET, LAN, LAN_HOST, LB_ADDRESS, LB_RANGE, Lab, LabOptions, Signal,
};
use tsunaro_integration::say;

use crate::gateway::{Gateway, ZONE, all_routes, config, hosts, wait_peer_route};
use crate::timed;

/// Within this a swapped hosts file must be served (rule 38 of the DNS contract).
const HOSTS_DEADLINE: Duration = Duration::from_secs(3);

#[test]
fn a_peer_resolves_and_reaches_the_lan_and_changes_are_live() -> Result<()> {
    let _timed = timed("test: a peer resolves and reaches the LAN");
    let lab = Lab::start(LabOptions::default())?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    {
        let _timed = timed("from the agent's start to advertised routes");
        gateway.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    }
    {
        let _timed = timed("from there to the peer's first ping");
        wait_peer_route(&lab, LAN, true)?;
        lab.wait_until("a ping to the LAN host", Duration::from_secs(30), || {
            lab.peer().ping_once(LAN_HOST).map(Some)
        })?;
    }
    names_through_the_tailnet(&lab)?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;
    gateway.wait_condition(&lab, "KernelReady", "True/ChecksPassed")?;

    let pids = (gateway.agent.pid(), gateway.node.tailscaled_pid()?);
    let egress = format!("{EGRESS_TARGET}/32");
    for (targets, present) in [(&[EGRESS_TARGET][..], true), (&[], false)] {
        let started = Instant::now();
        gateway.config.swap(&[("gateway.yaml", &config(targets))])?;
        wait_peer_route(&lab, &egress, present)?;
        let took = started.elapsed().as_secs_f64();
        say(&format!(
            "from the changed config to the peer's table ({present}): {took:.2} s"
        ));
        ensure!(
            took < 25.0,
            "a route change took {took:.1} s; the goal is five"
        );
    }
    a_broken_config_changes_nothing(&lab, &mut gateway)?;
    a_swapped_hosts_file_is_served(&lab, &mut gateway)?;
    another_hosts_path_without_a_file_keeps_the_names(&lab, &mut gateway)?;
    ensure!(
        pids == (gateway.agent.pid(), gateway.node.tailscaled_pid()?),
        "a process was restarted"
    );
    Ok(())
}

fn names_through_the_tailnet(lab: &Lab) -> Result<()> {
    for (name, kind, expected) in [
        ("router", "A", vec![format!("A {LAN_HOST}")]),
        (
            "api",
            "A",
            vec![
                format!("CNAME kube-api-platform.{ZONE}."),
                "A 198.51.100.20".to_owned(),
            ],
        ),
        ("anything", "A", vec!["A 198.51.100.80".to_owned()]),
    ] {
        let (code, answer) = lab
            .peer()
            .dns(LB_ADDRESS, &format!("{name}.{ZONE}"), kind)?;
        ensure!(
            code == "NOERROR" && answer == expected,
            "{name}: {code} {answer:?}"
        );
    }
    Ok(())
}

fn a_broken_config_changes_nothing(lab: &Lab, gateway: &mut Gateway<'_>) -> Result<()> {
    let broken = config(&[]).replace("lan:", "lans:");
    gateway.config.swap(&[("gateway.yaml", &broken)])?;
    lab.wait_until("the finding in the log", Duration::from_secs(10), || {
        Ok(gateway.agent.log().contains("routes.lans").then_some(()))
    })?;
    gateway.wait_advertised(lab, &[LAN, LB_RANGE])?;
    names_through_the_tailnet(lab)?;
    let error = gateway.text("/config/error")?;
    ensure!(error.contains("did you mean"), "the status says {error:?}");
    gateway.config.swap(&[("gateway.yaml", &config(&[]))])?;
    Ok(())
}

fn a_swapped_hosts_file_is_served(lab: &Lab, gateway: &mut Gateway<'_>) -> Result<()> {
    for address in ["198.51.100.31", "198.51.100.32", "198.51.100.33"] {
        let started = Instant::now();
        gateway.hosts.swap(&[("hosts", &hosts(address))])?;
        lab.wait_until("the new address", Duration::from_secs(10), || {
            let (_, answer) = lab.peer().dns(LB_ADDRESS, &format!("dyn.{ZONE}"), "A")?;
            Ok((answer == [format!("A {address}")]).then_some(()))
        })?;
        let took = started.elapsed();
        say(&format!(
            "from the swapped hosts file to the answer: {} ms",
            took.as_millis()
        ));
        ensure!(took < HOSTS_DEADLINE, "it took {took:?}");
    }
    Ok(())
}

fn another_hosts_path_without_a_file_keeps_the_names(
    lab: &Lab,
    gateway: &mut Gateway<'_>,
) -> Result<()> {
    let elsewhere = config(&[]).replace("hosts: ../hosts/hosts", "hosts: ../hosts/elsewhere");
    gateway.config.swap(&[("gateway.yaml", &elsewhere)])?;
    gateway.wait_told(
        lab,
        "DNSReady",
        "True/ServingLastGood",
        "elsewhere: it is not there",
    )?;
    let (code, answer) = lab.peer().dns(LB_ADDRESS, &format!("dyn.{ZONE}"), "A")?;
    ensure!(
        code == "NOERROR" && answer == ["A 198.51.100.33"],
        "{code} {answer:?}"
    );
    let ready = gateway.node.http_get("http://127.0.0.1:9181/readyz")?;
    ensure!(ready.0 == 200, "{ready:?}");
    gateway.config.swap(&[("gateway.yaml", &config(&[]))])?;
    gateway.wait_condition(lab, "DNSReady", "True/Serving")
}

#[test]
fn routes_changed_by_hand_are_put_right_and_survive_a_killed_tailscaled() -> Result<()> {
    let _timed = timed("test: foreign routes and a killed tailscaled");
    let lab = Lab::start(LabOptions::default())?;
    let gateway = Gateway::start(&lab, 1, &[EGRESS_TARGET])?;
    let all = all_routes();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    gateway.wait_advertised(&lab, &all)?;
    {
        let _timed = timed("from the foreign write to our routes");
        gateway
            .node
            .tailscale(&["set", "--advertise-routes="])?
            .ok()?;
        gateway.wait_advertised(&lab, &all)?;
        let told = || {
            let log = gateway.agent.log();
            log.matches("Another writer changed the advertised routes")
                .count()
        };
        lab.wait_until("the log line", Duration::from_secs(5), || {
            Ok((told() > 0).then_some(()))
        })?;
        let told = told();
        ensure!(told == 1, "the drift was told {told} times");
        let healings = gateway.status()?.pointer("/tailnet/healings").cloned();
        ensure!(healings == Some(1.into()), "{healings:?} healings");
    }
    let agent = gateway.agent.pid();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let _timed = timed("from a restarted tailscaled to our routes and Running");
        gateway.node.restart(signal)?;
        gateway.node.wait_running()?;
        gateway.wait_advertised(&lab, &all)?;
        gateway.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;
    }
    ensure!(
        agent == gateway.agent.pid() && gateway.agent.is_running(),
        "the agent was restarted"
    );
    Ok(())
}
