//! A day's worth of trouble in a minute: it must end converged, with bounded writes and memory.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::{LAN, LB_RANGE, Lab, LabOptions, Process, Signal, Start};
use tsunaro_integration::say;

use crate::gateway::{Gateway, config, hosts};

/// How long the trouble lasts.
const TROUBLE: Duration = Duration::from_secs(90);

/// A small linear congruential generator (Knuth's MMIX constants): the same trouble every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[test]
fn random_trouble_ends_converged_with_bounded_writes_memory_and_descriptors() -> Result<()> {
    let lab = Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    gateway.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    let (memory_before, files_before) =
        (resident_kib(&gateway.agent)?, open_files(&gateway.agent)?);
    let mut dice = Dice(20_261_201);
    let started = Instant::now();
    let mut events = 0;
    while started.elapsed() < TROUBLE {
        match dice.roll(9) {
            0 => gateway.node.restart(Signal::SIGKILL)?,
            1 => drop(
                gateway
                    .node
                    .tailscale(&["set", "--advertise-routes=10.99.0.0/16"])?,
            ),
            2 => drop(gateway.node.tailscale(&["down"])?),
            3 => gateway.config.swap(&[(
                "gateway.yaml",
                &config(&[&format!("10.0.10.{}", dice.roll(200) + 1)]),
            )])?,
            4 => gateway.hosts.swap(&[(
                "hosts",
                &hosts(&format!("198.51.100.{}", dice.roll(200) + 1)),
            )])?,
            5 => drop(gateway.node.sh("sysctl -q -w net.ipv4.ip_forward=0")?),
            6 => drop(gateway.node.sh("sysctl -q -w net.ipv4.ip_forward=1")?),
            7 => drop(gateway.node.tailscale(&[
                "set",
                "--accept-routes=true",
                "--snat-subnet-routes=false",
            ])?),
            _ => gateway.config.swap(&[("gateway.yaml", "garbage: [")])?,
        }
        events += 1;
    }
    gateway.config.swap(&[("gateway.yaml", &config(&[]))])?;
    gateway.node.sh("sysctl -q -w net.ipv4.ip_forward=1")?;
    lab.wait_until("convergence", Duration::from_secs(150), || {
        Ok((gateway.advertised()? == [LAN, LB_RANGE]).then_some(()))
    })?;
    gateway.wait_condition(&lab, "TailnetReady", "True/Running")?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;
    gateway.wait_condition(&lab, "KernelReady", "True/ChecksPassed")?;
    gateway.wait_condition(&lab, "DNSReady", "True/Serving")?;
    let log = gateway.agent.log();
    let writes: usize = ["Advertised routes set", "were put right"]
        .iter()
        .map(|words| log.matches(words).count())
        .sum();
    let transitions = log
        .lines()
        .filter(|line| line.contains("condition="))
        .count();
    let (memory, files) = (resident_kib(&gateway.agent)?, open_files(&gateway.agent)?);
    say(&format!(
        "flapping: {events} events, {writes} writes of prefs, {transitions} transitions told, memory {memory_before} to {memory} KiB, open files {files_before} to {files}"
    ));
    // Each event asks for a write of routes and one of other prefs at most.
    ensure!(
        writes <= 2 * events + 5,
        "{writes} writes for {events} events"
    );
    // Five conditions, three prompt faults with their ends a minute each, and reasons in between.
    ensure!(transitions <= 300, "{transitions} transitions were told");
    ensure!(
        files <= files_before + 5,
        "open files rose from {files_before} to {files}"
    );
    ensure!(
        memory <= memory_before + 20 * 1024,
        "memory rose from {memory_before} to {memory} KiB"
    );
    Ok(())
}

fn resident_kib(process: &Process) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    line.trim()
        .trim_end_matches(" kB")
        .parse()
        .context("VmRSS is a number")
}

fn open_files(process: &Process) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{}/fd", process.pid()))?.count())
}
