//! What thousands of routes cost an agent at rest.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::{LAN, LB_RANGE, Lab, LabOptions, Process, Start};
use tsunaro_integration::{Wait, say};

use crate::gateway::{Gateway, config};
use crate::timed;

/// Of one core. The goal is 1 %.
const MOST: f64 = 0.05;

#[test]
fn three_thousand_routes_cost_an_agent_at_rest_next_to_nothing() -> Result<()> {
    let _timed = timed("test: the cost of 3,000 routes");
    let lab = Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let mut gateway = Gateway::start(&lab, 1, &[])?;
    gateway.wait_advertised(&lab, &[LAN, LB_RANGE])?;
    let targets: Vec<String> = (0..3000)
        .map(|i| format!("10.7.{}.{}", i / 250, i % 250 + 1))
        .collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    gateway
        .config
        .swap(&[("gateway.yaml", &config(&targets))])?;
    gateway.wait_condition(&lab, "RoutesAdvertised", "True/Advertised")?;
    gateway.wait_condition(&lab, "KernelReady", "True/ChecksPassed")?;
    let (code, metrics) = gateway.node.http_get("http://127.0.0.1:9181/metrics")?;
    let series = metrics
        .lines()
        .filter(|line| line.starts_with("tsunaro_agent_kernel_check{"))
        .count();
    ensure!(
        code == 200 && (10..20).contains(&series),
        "{series} series of kernel checks"
    );
    // The rest of what the change set off.
    let before = busy(&gateway.agent)?;
    let started = Instant::now();
    let window = Duration::from_secs(20);
    Wait::new("the window", window * 2)
        .every(Duration::from_millis(500))
        .until(|| Ok((started.elapsed() >= window).then_some(())))?;
    let share = (busy(&gateway.agent)? - before) / started.elapsed().as_secs_f64();
    say(&format!(
        "3,002 routes at rest: {:.2} % of a core",
        share * 100.0
    ));
    ensure!(share < MOST, "{share}");
    Ok(())
}

/// Seconds of processor time so far (proc_pid_stat(5), in hundredths of a second on Linux).
fn busy(process: &Process) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid()))?;
    let fields = stat.rsplit_once(") ").context("no name")?.1;
    let ticks: u32 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse().unwrap_or(0_u32))
        .sum();
    Ok(f64::from(ticks) / 100.0)
}
