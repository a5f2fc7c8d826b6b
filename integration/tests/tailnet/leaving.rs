//! The agent's end, seen by a peer.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{
    LAN, LAN_HOST, LB_RANGE, Lab, LabOptions, PingMonitor, Signal, Start,
};
use tsunaro_integration::say;

use crate::gateway::{Gateway, ZONE};
use crate::timed;

#[test]
fn sigterm_withdraws_after_the_lame_duck_and_a_second_gateway_takes_over() -> Result<()> {
    let _timed = timed("test: a graceful stop");
    let lab = Lab::start(LabOptions {
        gateways: [Start::Daemon, Start::Daemon],
        ..LabOptions::default()
    })?;
    let rest = lab.headscale().rest();
    let first = Gateway::start(&lab, 1, &[])?;
    first.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    let serves = |name: &str| {
        lab.wait_until(
            &format!("{name} serving {LAN}"),
            Duration::from_secs(30),
            || {
                let node = rest.node(name)?;
                Ok(node
                    .subnet_routes
                    .iter()
                    .any(|route| route == LAN)
                    .then_some(()))
            },
        )
    };
    serves("gw-1")?;
    let second = Gateway::start(&lab, 2, &[])?;
    second.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    lab.wait_until(
        "the second gateway's approval",
        Duration::from_secs(30),
        || Ok((rest.node("gw-2")?.approved_routes.len() == 2).then_some(())),
    )?;
    lab.wait_until("a ping", Duration::from_secs(30), || {
        lab.peer().ping_once(LAN_HOST).map(Some)
    })?;

    let ping = PingMonitor::start(lab.peer(), LAN_HOST)?;
    lab.wait_until("20 pings", Duration::from_secs(10), || {
        Ok((ping.answers() >= 20).then_some(()))
    })?;
    let told = Instant::now();
    first.agent.kill(Signal::SIGTERM)?;
    // During the lame duck it says so, stays ready and answers.
    first.wait_condition(&lab, "DNSReady", "True/Serving")?;
    let phase = first.text("/phase")?;
    ensure!(phase == "Leaving", "the phase is {phase}");
    ensure!(
        first.node.http_get("http://127.0.0.1:9181/readyz")?.0 == 200,
        "not ready during the lame duck"
    );
    let (code, _) = first
        .node
        .dns("127.0.0.1", &format!("router.{ZONE}"), "A")?;
    ensure!(code == "NOERROR", "it answers {code} during the lame duck");
    ensure!(
        first.advertised()? == [LAN, LB_RANGE],
        "withdrawn before the lame duck's end"
    );

    let status = first.agent.wait(Duration::from_secs(20))?;
    let took = told.elapsed();
    say(&format!(
        "from SIGTERM to the agent's end: {:.2} s",
        took.as_secs_f64()
    ));
    ensure!(status.success(), "the agent ended with {status}");
    ensure!(
        took >= Duration::from_secs(5),
        "it left within {took:?}, before its lame duck was over"
    );
    ensure!(
        first.advertised()?.is_empty(),
        "the routes were not withdrawn"
    );
    serves("gw-2")?;
    lab.wait_until(
        "pings through the second gateway",
        Duration::from_secs(30),
        || lab.peer().ping_once(LAN_HOST).map(Some),
    )?;
    let report = ping.stop()?;
    say(&format!(
        "graceful stop without a controller, at the peer: {report:?}"
    ));
    ensure!(
        report.longest_gap < Duration::from_secs(12),
        "the gap was {:?}",
        report.longest_gap
    );
    Ok(())
}

#[test]
fn a_second_signal_ends_at_once() -> Result<()> {
    let _timed = timed("test: a second signal");
    let lab = Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    gateway.wait_condition(&lab, "DNSReady", "True/Serving")?;
    gateway.agent.kill(Signal::SIGTERM)?;
    lab.wait_until("the lame duck", Duration::from_secs(5), || {
        Ok((gateway.text("/phase")? == "Leaving").then_some(()))
    })?;
    let told = Instant::now();
    gateway.agent.kill(Signal::SIGTERM)?;
    let status = gateway.agent.wait(Duration::from_secs(5))?;
    ensure!(status.code() == Some(130), "it ended with {status}");
    ensure!(
        told.elapsed() < Duration::from_secs(2),
        "it took {:?}",
        told.elapsed()
    );
    Ok(())
}
