//! A handover whose controller is killed at each of its writes, before it arrives and before its answer
//! does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tsunaro_integration::lab::{Cmd, KeyOptions, LAN, LAN_HOST, Lab, PingMonitor, TailnetNode};
use tsunaro_integration::{Wait, say};

use super::{approvals, primary};
use crate::NAMESPACE;
use crate::beside::{Beside, Without};
use crate::tap::{Fate, HEADSCALE, Seen, Tap, To, controller};

/// A write of a handover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Record,
    Take,
    GiveBack,
    Forget,
}

#[test]
fn killed_at_each_write_of_a_handover_the_approvals_end_as_they_were() -> Result<()> {
    let beside = Beside::start_with(Without::Kubelet)?;
    beside.tailnet(&format!("http://{HEADSCALE}"))?;
    let lab = &beside.lab;
    lab.gateway(2)?.start()?;
    lab.peer().start()?;
    for (node, tag) in [
        (lab.gateway(1)?, "tag:fabric"),
        (lab.gateway(2)?, "tag:fabric"),
        (lab.peer(), "tag:peer"),
    ] {
        let key = lab
            .headscale()
            .rest()
            .preauth_key(&KeyOptions::tagged(tag))?;
        node.login(&key)?;
        node.wait_running()?;
        if tag == "tag:fabric" {
            advertise(node)?;
            wait(lab, "its approval", || {
                let all = approvals(lab)?;
                let approved = all
                    .values()
                    .filter(|routes| routes.iter().any(|route| route == LAN))
                    .count();
                let wanted = if node.name() == "gw1" { 1 } else { 2 };
                Ok((approved >= wanted).then_some(()))
            })?;
        }
    }
    wait(lab, "the LAN at the peer", || {
        lab.peer().ping_once(LAN_HOST).map(Some)
    })?;
    let before = approvals(lab)?;
    let tap = Tap::start(&beside, lab.headscale().rest().clone())?;
    let mut lost = 0;
    for point in [Point::Record, Point::Take, Point::GiveBack, Point::Forget] {
        for fate in [Fate::KillBefore, Fate::KillAfter] {
            let from = primary(lab)?;
            let ping = PingMonitor::start(lab.peer(), LAN_HOST)?;
            let killed = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&killed);
            let mut approvals_seen = 0;
            tap.judge(move |request| {
                let here = at(request, &mut approvals_seen) == Some(point);
                if here && !seen.swap(true, Ordering::AcqRel) {
                    fate
                } else {
                    Fate::Pass
                }
            });
            let first = controller(&beside, &["--headscale-interval", "1"])?;
            tap.follow(&first)?;
            let asked = ask(&beside, &from)?;
            first.wait(Duration::from_secs(60))?;
            ensure!(
                killed.load(Ordering::Acquire),
                "it ended by itself: {}",
                first.log()
            );
            let second = controller(&beside, &["--headscale-interval", "1"])?;
            tap.follow(&second)?;
            wait(lab, "no record left and the approvals as they were", || {
                let maps = beside.names("configmaps")?;
                ensure!(
                    !maps.iter().any(|name| name.contains("tsunaro-handover")),
                    "{maps:?}"
                );
                let now = approvals(lab)?;
                ensure!(now == before, "{now:?}");
                Ok(Some(()))
            })?;
            asked.wait(Duration::from_secs(60))?;
            let answer = asked.log();
            let answers = ping.answers();
            wait(lab, "pings", || {
                Ok((ping.answers() >= answers + 40).then_some(()))
            })?;
            let report = ping.stop()?;
            lost += report.lost;
            say(&format!(
                "{point:?} {fate:?}: {from} -> {}; {} of {} pings lost, longest gap {:.2} s; {}",
                primary(lab)?,
                report.lost,
                report.sent,
                report.longest_gap.as_secs_f64(),
                answer.trim()
            ));
            second.terminate(Duration::from_secs(10))?;
        }
    }
    // A router that stays loses next to nothing, however long its approvals are away.
    ensure!(lost < 60, "{lost} pings lost");
    Ok(())
}

fn at(request: &Seen, approvals_seen: &mut usize) -> Option<Point> {
    let record = |text: &str| text.starts_with("tsunaro-handover-corp-");
    match (request.to, request.method.as_str()) {
        (To::Headscale, "POST") if request.path.contains("approve_routes") => {
            *approvals_seen += 1;
            Some(if *approvals_seen == 1 {
                Point::Take
            } else {
                Point::GiveBack
            })
        }
        (To::ApiServer, "POST") => {
            let name = request.body["metadata"]["name"].as_str();
            name.is_some_and(record).then_some(Point::Record)
        }
        (To::ApiServer, "DELETE") => {
            let name = request.path.rsplit('/').next();
            name.is_some_and(record).then_some(Point::Forget)
        }
        _ => None,
    }
}

fn ask(beside: &Beside, node: &str) -> Result<tsunaro_integration::lab::Process> {
    let config = beside.node.kubeconfig().display().to_string();
    beside.node.machine().spawn(
        Cmd::new(&beside.controller)
            .args([
                "handover",
                "--node",
                node,
                "--tailnet",
                "corp",
                "--namespace",
                NAMESPACE,
            ])
            .env("KUBECONFIG", config)
            .name("handover"),
    )
}

fn advertise(node: &TailnetNode) -> Result<()> {
    let body = json!({ "AdvertiseRoutes": [LAN], "AdvertiseRoutesSet": true });
    let (code, said) = node.localapi("PATCH", "prefs", &body.to_string())?;
    ensure!(code == 200, "{code} {said}");
    Ok(())
}

fn wait(lab: &Lab, what: &str, probe: impl FnMut() -> Result<Option<()>>) -> Result<()> {
    Wait::new(what, Duration::from_secs(90))
        .logs([lab.headscale().node().dir().to_owned()])
        .until(probe)
}
