//! tailscaled under `tsunaro-agent supervise`, which is PID 1 as in the Pod.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::{
    Cmd, LAN, LAN_HOST, LB_RANGE, Lab, LabOptions, Process, Signal, Start, TailnetNode,
};
use tsunaro_integration::{agent_binary, say, wait_until};

use crate::gateway::{Gateway, ZONE};
use crate::timed;

/// The supervisor, first of a PID namespace of its own.
struct Supervisor<'a> {
    node: &'a TailnetNode,
    /// `unshare`, which waits for the supervisor and ends as it does.
    outer: Process,
}

impl<'a> Supervisor<'a> {
    /// Starts tailscaled under it, with the last words of its command line changed to these.
    fn start(node: &'a TailnetNode, flags: &[(&str, &str)]) -> Result<Self> {
        let mut cmd = Cmd::new("unshare")
            .args(["--pid", "--fork", "--mount-proc", "--kill-child=KILL", "--"])
            .arg(agent_binary()?)
            .args(["supervise", "--tailscaled-socket"])
            .arg(node.socket())
            .arg("--")
            .args(node.tailscaled_words())
            .args(flags.iter().map(|(flag, value)| format!("{flag}={value}")))
            .name("supervise");
        for (name, value) in node.tailscaled_env() {
            cmd = cmd.env(name, value);
        }
        Ok(Self {
            node,
            outer: node.spawn(cmd)?,
        })
    }

    /// The supervisor's pid, as the machine counts.
    fn pid(&self) -> Result<u32> {
        only_child(self.outer.pid()).context("the supervisor")
    }

    /// The pid of the tailscaled of now, as the machine counts.
    fn tailscaled(&self) -> Result<u32> {
        only_child(self.pid()?).context("tailscaled")
    }

    fn signal(&self, pid: u32, signal: Signal) -> Result<()> {
        self.node
            .sh(&format!("kill -{} {pid}", signal as i32))
            .map(drop)
    }
}

fn only_child(pid: u32) -> Result<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let children: Vec<&str> = children.split_whitespace().collect();
    ensure!(children.len() == 1, "{pid} has the children {children:?}");
    Ok(children.concat().parse()?)
}

#[test]
fn a_supervised_tailscaled_is_back_after_each_of_three_kills_and_dns_never_fails() -> Result<()> {
    let _timed = timed("test: a supervised tailscaled");
    let lab = Lab::start(LabOptions {
        gateways: [Start::Off, Start::Off],
        ..LabOptions::default()
    })?;
    let supervisor = Supervisor::start(lab.gateway(1)?, &[])?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    gateway.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;
    lab.wait_until("a ping to the LAN host", Duration::from_secs(30), || {
        lab.peer().ping_once(LAN_HOST).map(Some)
    })?;

    let done = AtomicBool::new(false);
    let (kills, queries) = std::thread::scope(|scope| {
        let queries = scope.spawn(|| ask_until(&gateway, &done));
        let kills = three_kills(&lab, &supervisor, &gateway);
        done.store(true, Ordering::Relaxed);
        (kills, queries.join())
    });
    kills?;
    let (asked, failed) = queries.map_err(|_| anyhow::anyhow!("the asking thread panicked"))?;
    say(&format!(
        "DNS of the gateway during three kills: {asked} queries, {} failed",
        failed.len()
    ));
    ensure!(asked >= 50, "only {asked} queries");
    ensure!(failed.is_empty(), "failed: {failed:?}");
    lab.wait_until("a ping again", Duration::from_secs(60), || {
        lab.peer().ping_once(LAN_HOST).map(Some)
    })?;
    ensure!(gateway.agent.is_running(), "the agent ended");

    let tailscaled = supervisor.tailscaled()?;
    let told = Instant::now();
    supervisor.signal(supervisor.pid()?, Signal::SIGTERM)?;
    let status = supervisor.outer.wait(Duration::from_secs(15))?;
    say(&format!(
        "from SIGTERM to the end of both: {} ms",
        told.elapsed().as_millis()
    ));
    ensure!(
        status.success(),
        "tailscaled's own exit code is 0; the supervisor ended with {status}"
    );
    ensure!(
        !gateway.node.socket().exists(),
        "tailscaled's socket is still there"
    );
    ensure!(
        !std::path::Path::new(&format!("/proc/{tailscaled}")).exists(),
        "tailscaled is still there"
    );
    Ok(())
}

fn three_kills(lab: &Lab, supervisor: &Supervisor<'_>, gateway: &Gateway<'_>) -> Result<()> {
    let mut last = supervisor.tailscaled()?;
    for number in 1..=3 {
        let killed = Instant::now();
        supervisor.signal(last, Signal::SIGKILL)?;
        let (old, mut back) = (last, None);
        lab.wait_until("another tailscaled", Duration::from_secs(10), || {
            last = supervisor.tailscaled()?;
            ensure!(last != old, "it is still {old}");
            back = Some(killed.elapsed());
            Ok(Some(()))
        })?;
        gateway.node.wait_socket()?;
        say(&format!(
            "kill {number}: started after {back:?}, its socket answers after {:?}",
            killed.elapsed()
        ));
    }
    gateway.node.wait_running()?;
    gateway.wait_advertised(lab, &[LAN, LB_RANGE])?;
    gateway.wait_condition(lab, "RoutesAdvertised", "True/Advertised")
}

/// Asks the agent all the time; how many queries, and what went wrong.
fn ask_until(gateway: &Gateway<'_>, done: &AtomicBool) -> (usize, Vec<String>) {
    let (mut asked, mut failed) = (0, Vec::new());
    while !done.load(Ordering::Relaxed) {
        asked += 1;
        match gateway
            .node
            .dns("127.0.0.1", &format!("router.{ZONE}"), "A")
        {
            Ok((code, answer)) if code == "NOERROR" && answer == [format!("A {LAN_HOST}")] => {}
            other => failed.push(format!("{other:?}")),
        }
    }
    (asked, failed)
}

#[test]
fn a_real_tailscaled_without_its_state_store_is_restarted_again_and_again() -> Result<()> {
    let _timed = timed("test: a tailscaled without its state store");
    let lab = Lab::start(LabOptions {
        gateways: [Start::Off, Start::Off],
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    // No API server, no token: what tailscaled meets when the API server is down at its start.
    let supervisor = Supervisor::start(lab.gateway(1)?, &[("--state", "kube:prod-1-gw-state")])?;
    wait_until("two restarts", Duration::from_secs(60), || {
        let log = supervisor.outer.log();
        let restarts = log.matches("is stuck without its state store").count();
        ensure!(restarts >= 2, "{restarts} so far");
        Ok(Some(()))
    })?;
    let log = supervisor.outer.log();
    ensure!(
        log.contains("State store failed to initialize"),
        "tailscaled's words are not in the log"
    );
    ensure!(
        !log.contains("killing it"),
        "SIGTERM did not end the stuck tailscaled"
    );
    supervisor.signal(supervisor.pid()?, Signal::SIGTERM)?;
    let status = supervisor.outer.wait(Duration::from_secs(15))?;
    say(&format!(
        "the supervisor of a stuck tailscaled ended with {status}"
    ));
    Ok(())
}
