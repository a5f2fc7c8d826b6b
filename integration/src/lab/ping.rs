//! A steady ping, and what it lost.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use super::command::Cmd;
use super::node::Node;
use super::process::Process;

/// Time between two pings.
const INTERVAL: Duration = Duration::from_millis(50);

/// A ping that runs until [`stop`](Self::stop).
#[derive(Debug)]
pub struct PingMonitor {
    process: Process,
}

/// What a ping monitor saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingReport {
    /// Requests sent, without one that was in flight at the end.
    pub sent: u32,
    /// Answers, each request counted once.
    pub received: u32,
    /// Requests without an answer.
    pub lost: u32,
    /// The longest time without an answer: about 50 ms when nothing is lost.
    pub longest_gap: Duration,
}

impl PingMonitor {
    /// Starts 20 pings a second from a node.
    pub fn start(node: &Node, target: &str) -> Result<Self> {
        let interval = INTERVAL.as_secs_f64().to_string();
        let cmd = Cmd::from(["ping", "-n", "-D", "-i", &interval, target]);
        Ok(Self {
            process: node.spawn(cmd.name("ping"))?,
        })
    }

    /// Answers so far.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.process.log().matches(" bytes from ").count()
    }

    /// Ends the ping and reports.
    pub fn stop(self) -> Result<PingReport> {
        self.process.kill(Signal::SIGINT)?;
        self.process.wait(Duration::from_secs(5))?;
        let log = self.process.log();
        parse(&log).with_context(|| format!("what ping wrote: {log}"))
    }
}

fn parse(log: &str) -> Result<PingReport> {
    let mut answered = std::collections::BTreeMap::new();
    for line in log.lines().filter(|line| line.contains(" bytes from ")) {
        if let (Some(at), Some(seq)) = (time(line), sequence(line)) {
            answered.entry(seq).or_insert(at);
        }
    }
    let mut sent: u32 = log
        .lines()
        .find(|line| line.contains("packets transmitted"))
        .and_then(|line| line.split(' ').next()?.parse().ok())
        .context("no summary")?;
    if sent > 0 && !answered.contains_key(&sent) {
        // The last one had no time to be answered.
        sent -= 1;
    }
    let received = u32::try_from(answered.len())?;
    let mut times: Vec<f64> = answered.values().copied().collect();
    times.sort_by(f64::total_cmp);
    let between = times
        .iter()
        .zip(times.iter().skip(1))
        .map(|(earlier, later)| later - earlier)
        .fold(0.0, f64::max);
    // Losses at either end have no answer beyond them to measure to.
    let first = answered.keys().next().copied().unwrap_or(sent + 1);
    let last = answered.keys().next_back().copied().unwrap_or(sent);
    let ends = INTERVAL * first.saturating_sub(1).max(sent.saturating_sub(last));
    Ok(PingReport {
        sent,
        received,
        lost: sent.saturating_sub(received),
        longest_gap: Duration::try_from_secs_f64(between)?.max(ends),
    })
}

/// `[1700000000.123456] 64 bytes …`: seconds since 1970.
fn time(line: &str) -> Option<f64> {
    line.strip_prefix('[')?.split(']').next()?.parse().ok()
}

fn sequence(line: &str) -> Option<u32> {
    let rest = line.split("icmp_seq=").nth(1)?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_in_the_middle_is_lost_and_measured_and_the_last_in_flight_is_not() {
        let log = "\
PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
[100.000000] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=63 time=0.5 ms
[100.050000] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=63 time=0.5 ms
[100.050100] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=63 time=0.5 ms (DUP!)
[101.050000] 64 bytes from 192.0.2.1: icmp_seq=22 ttl=63 time=0.5 ms

--- 192.0.2.1 ping statistics ---
23 packets transmitted, 3 received, 86% packet loss, time 1100ms
";
        let report = parse(log).unwrap();
        assert_eq!((report.sent, report.received, report.lost), (22, 3, 19));
        assert!((report.longest_gap.as_secs_f64() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn losses_at_the_ends_count_as_a_gap() {
        let log = "\
[100.000000] 64 bytes from 192.0.2.1: icmp_seq=11 ttl=63 time=0.5 ms
12 packets transmitted, 1 received, 90% packet loss, time 600ms
";
        let report = parse(log).unwrap();
        assert_eq!((report.sent, report.lost), (11, 10));
        assert_eq!(report.longest_gap, Duration::from_millis(500));
    }
}
