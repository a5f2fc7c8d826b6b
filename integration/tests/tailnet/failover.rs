//! What a peer's pings see when a gateway leaves, by the way it leaves. Each test prints a row of
//! the table in docs/operations.md.

use std::time::Duration;

use anyhow::Result;
use tsunaro_integration::lab::{
    LAN, LAN_HOST, LB_RANGE, Lab, LabOptions, PingMonitor, PingReport, Signal, Start,
};
use tsunaro_integration::say;

use crate::gateway::{Gateway, field};

/// Two gateways for the same prefixes: the first is primary, the second an approved standby.
struct Pair<'a> {
    lab: &'a Lab,
    first: Gateway<'a>,
    _second: Gateway<'a>,
}

fn lab() -> Result<Lab> {
    Lab::start(LabOptions {
        gateways: [Start::Daemon, Start::Daemon],
        ..LabOptions::default()
    })
}

impl<'a> Pair<'a> {
    fn start(lab: &'a Lab, flags: &[&str]) -> Result<Self> {
        let first = Gateway::start_with_flags(lab, 1, flags)?;
        first.wait_advertised(lab, &[LAN, LB_RANGE])?;
        let pair = |first, second| Self {
            lab,
            first,
            _second: second,
        };
        serves(lab, "gw-1")?;
        let second = Gateway::start(lab, 2, &[])?;
        lab.wait_until("the standby's approval", Duration::from_secs(45), || {
            let node = lab.headscale().rest().node("gw-2")?;
            Ok((node.approved_routes.len() == 2 && node.available_routes.len() == 2).then_some(()))
        })?;
        Ok(pair(first, second))
    }

    /// Pings the LAN host while the first gateway leaves, until the second one serves.
    fn leave(&self, how: &str, act: impl FnOnce(&Gateway<'a>) -> Result<()>) -> Result<PingReport> {
        self.lab.wait_until("a ping", Duration::from_secs(30), || {
            self.lab.peer().ping_once(LAN_HOST).map(Some)
        })?;
        let ping = PingMonitor::start(self.lab.peer(), LAN_HOST)?;
        let pings = |count: usize| {
            self.lab.wait_until("pings", Duration::from_secs(60), || {
                Ok((ping.answers() >= count).then_some(()))
            })
        };
        pings(20)?;
        act(&self.first)?;
        serves(self.lab, "gw-2")?;
        let answers = ping.answers();
        pings(answers + 40)?;
        let report = ping.stop()?;
        let gap = report.longest_gap.as_secs_f64();
        say(&format!(
            "failover | {how} | {} of {} | {gap:.1} s",
            report.lost, report.sent
        ));
        Ok(report)
    }
}

fn serves(lab: &Lab, name: &str) -> Result<()> {
    lab.wait_until(&format!("{name} serving"), Duration::from_secs(60), || {
        let node = lab.headscale().rest().node(name)?;
        Ok(node
            .subnet_routes
            .iter()
            .any(|route| route == LAN)
            .then_some(()))
    })
}

fn gone(report: &PingReport, bound: u64) {
    assert!(
        report.longest_gap < Duration::from_secs(bound),
        "{report:?}"
    );
}

#[test]
fn a_handover_with_the_approvals_moved_in_the_lame_duck_loses_no_ping() -> Result<()> {
    let lab = lab()?;
    let pair = Pair::start(&lab, &[])?;
    let report = pair.leave(
        "planned: approvals moved during the lame duck, then withdrawn",
        |first| {
            first.agent.kill(Signal::SIGTERM)?;
            let rest = lab.headscale().rest();
            let id = rest.node("gw-1")?.id;
            rest.approve_routes(&id, &[])?;
            serves(&lab, "gw-2")?;
            first.agent.wait(Duration::from_secs(20))?;
            Ok(())
        },
    )?;
    assert_eq!(report.lost, 0, "{report:?}");
    Ok(())
}

#[test]
fn a_graceful_stop_without_a_controller_costs_little() -> Result<()> {
    let lab = lab()?;
    let pair = Pair::start(&lab, &[])?;
    let report = pair.leave(
        "graceful: the agent withdraws after its lame duck",
        |first| first.agent.terminate(Duration::from_secs(20)).map(drop),
    )?;
    // The goal is 2.5 s.
    gone(&report, 12);
    Ok(())
}

#[test]
fn a_stop_that_keeps_its_routes_and_a_stopped_tailscaled_fail_over_late() -> Result<()> {
    let lab = lab()?;
    let pair = Pair::start(&lab, &["--keep-routes", "--lame-duck", "0s"])?;
    let report = pair.leave(
        "without our withdrawal: tailscaled stopped by SIGTERM",
        |first| {
            first.agent.terminate(Duration::from_secs(20))?;
            first.node.stop(Signal::SIGTERM)
        },
    )?;
    gone(&report, 60);
    Ok(())
}

#[test]
fn a_killed_gateway_fails_over() -> Result<()> {
    let lab = lab()?;
    let pair = Pair::start(&lab, &[])?;
    let report = pair.leave("killed: agent and tailscaled by SIGKILL", |first| {
        first.agent.kill(Signal::SIGKILL)?;
        first.node.stop(Signal::SIGKILL)
    })?;
    gone(&report, 60);
    the_returning_one_is_the_standby(pair)
}

/// Nothing fails back: the first comes back to its routes and says so, the second goes on serving.
fn the_returning_one_is_the_standby(pair: Pair<'_>) -> Result<()> {
    let Pair {
        lab,
        first,
        _second,
    } = pair;
    first.node.start()?;
    let first = Gateway::start_again(lab, first)?;
    first.wait_condition(lab, "RoutesAdvertised", "True/Advertised")?;
    first.wait_condition(lab, "KernelReady", "True/ChecksPassed")?;
    let truth = first.route(LAN)?;
    let message = field(&truth, "message");
    anyhow::ensure!(message.contains("headscale nodes list-routes"), "{truth}");
    let rest = lab.headscale().rest();
    lab.wait_until("the first one online", Duration::from_secs(30), || {
        Ok(rest.node("gw-1")?.online.then_some(()))
    })?;
    anyhow::ensure!(
        rest.node("gw-1")?.subnet_routes.is_empty(),
        "it failed back"
    );
    serves(lab, "gw-2")?;
    lab.peer().ping_once(LAN_HOST)
}

#[test]
fn a_gateway_without_its_link_fails_over() -> Result<()> {
    let lab = lab()?;
    let pair = Pair::start(&lab, &[])?;
    let report = pair.leave("link down", |first| {
        let route = first.node.sh("ip -o route get 203.0.113.1")?;
        let link = route
            .split(" dev ")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next());
        let link = link.ok_or_else(|| anyhow::anyhow!("no link in {route}"))?;
        first.node.sh(&format!("ip link set {link} down")).map(drop)
    })?;
    gone(&report, 90);
    Ok(())
}

#[test]
fn a_frozen_gateway_fails_over() -> Result<()> {
    let lab = lab()?;
    let pair = Pair::start(&lab, &[])?;
    let report = pair.leave("frozen: tailscaled by SIGSTOP", |first| {
        first.node.signal(Signal::SIGSTOP)
    })?;
    first_thaws(&pair)?;
    gone(&report, 90);
    Ok(())
}

/// So that the lab's end finds a process that can end.
fn first_thaws(pair: &Pair<'_>) -> Result<()> {
    pair.first.node.signal(Signal::SIGCONT)
}

#[test]
fn an_agent_that_dies_alone_costs_nothing_and_comes_back_to_its_routes() -> Result<()> {
    let lab = Lab::start(LabOptions::default())?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    gateway.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    lab.wait_until("a ping", Duration::from_secs(30), || {
        lab.peer().ping_once(LAN_HOST).map(Some)
    })?;
    let ping = PingMonitor::start(lab.peer(), LAN_HOST)?;
    let pings = |count: usize| {
        lab.wait_until("pings", Duration::from_secs(30), || {
            Ok((ping.answers() >= count).then_some(()))
        })
    };
    pings(20)?;
    gateway.agent.kill_now()?;
    pings(40)?;
    let again = Gateway::start_again(&lab, gateway)?;
    again.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;
    pings(60)?;
    let report = ping.stop()?;
    say(&format!(
        "failover | the agent alone killed and started again | {} of {} | -",
        report.lost, report.sent
    ));
    assert_eq!(report.lost, 0, "{report:?}");
    Ok(())
}
