//! The local answers once more, asked by dnsperf: a generator that is not ours and that others can
//! repeat. It takes a system call or two a query and is the bottleneck long before these servers,
//! so the rest of the benchmark has a generator of its own.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tsunaro_integration::Step;

use crate::Options;
use crate::content::{Kind, NAMES, ZONE, names};
use crate::local::column;
use crate::results::{Ratio, Results};
use crate::server::Server;
use crate::servers::Place;

/// The program, from the Debian package of that name.
pub(crate) const PROGRAM: &str = "/usr/bin/dnsperf";

/// The steady rate beside as many as it can, in queries a second.
const STEADY: u32 = 10_000;

/// What dnsperf says at its end.
#[derive(Debug, PartialEq)]
struct Said {
    completed: f64,
    lost: f64,
    per_second: f64,
    /// The mean, in seconds.
    latency: f64,
}

pub(crate) fn run(options: &Options, results: &mut Results) -> Result<()> {
    let place = Place::new(&options.agent)?;
    let step = Step::announced("local answers, asked by dnsperf");
    let servers = [
        place.agent(ZONE, None)?,
        place.coredns_hosts()?,
        place.nsd()?,
        place.echo()?,
    ];
    let mut text = String::new();
    for name in names(Kind::Mix, ZONE, NAMES) {
        text.push_str(&name);
        text.push_str(" A\n");
    }
    let queries = place.write("dnsperf.txt", &text)?;
    let section = "dnsperf";
    for _ in 0..options.rounds() {
        for server in &servers {
            for (rate, cpu) in [(None, "cpu"), (Some(STEADY), "cpu10k")] {
                let mut command = Command::new(PROGRAM);
                command.arg("-d").arg(&queries);
                command.args(["-s", &server.address.ip().to_string()]);
                command.args(["-p", &server.address.port().to_string()]);
                command.args(["-c", "1", "-T", "1", "-q", "256", "-t", "1"]);
                command.args(["-l", &options.length().as_secs_f64().to_string()]);
                if let Some(rate) = rate {
                    command.args(["-Q", &rate.to_string()]);
                }
                let (said, used) = once(server, &mut command)?;
                results.add(section, server.name, cpu, used / said.completed * 1e6);
                if rate.is_none() {
                    results.add(section, server.name, "kqps", said.per_second / 1e3);
                } else {
                    results.add(section, server.name, "latency", said.latency * 1e6);
                    results.add(section, server.name, "lost", said.lost);
                }
            }
        }
    }
    step.done();
    results.print(
        section,
        "The same answers, asked by dnsperf: as many as it can ask with 256 in flight, and 10,000 a \
         second. CPU in seconds a million answers; what the servers pay to wake it up is in there.",
        &servers.each_ref().map(|server| server.name),
        &[
            column("kqps", "kqps", 0),
            column("cpu", "CPU", 2),
            column("cpu10k", "CPU at 10k", 1),
            column("latency", "mean latency µs", 0),
            column("lost", "lost", 0),
        ],
        &[
            Ratio::each("cpu", &["CoreDNS hosts", "NSD"]),
            Ratio::each("cpu10k", &["CoreDNS hosts", "NSD"]),
        ]
        .concat(),
    );
    Ok(())
}

/// One run, and the CPU seconds that the server used meanwhile.
fn once(server: &Server, command: &mut Command) -> Result<(Said, f64)> {
    let before = server.cpu()?;
    let output = command.output().with_context(|| format!("run {PROGRAM}"))?;
    let used = server.cpu()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("dnsperf against {} failed: {text}{errors}", server.name);
    }
    let said = read(&text).with_context(|| format!("dnsperf said\n{text}"))?;
    ensure!(
        said.completed > 0.0,
        "{} answers dnsperf nothing",
        server.name
    );
    Ok((said, used.total()))
}

fn read(text: &str) -> Option<Said> {
    let number = |label: &str| -> Option<f64> {
        let (_, after) = text.split_once(label)?;
        after.split_whitespace().next()?.parse().ok()
    };
    Some(Said {
        completed: number("Queries completed:")?,
        lost: number("Queries lost:")?,
        per_second: number("Queries per second:")?,
        latency: number("Average Latency (s):")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_stand_in_what_dnsperf_says_at_its_end() {
        let text = "Statistics:\n\n  Queries sent:         20001\n  Queries completed:    20000 \
                    (100.00%)\n  Queries lost:         1 (0.00%)\n\n  Run time (s):         2.0\n  \
                    Queries per second:   9999.5\n\n  Average Latency (s):  0.000071 (min \
                    0.000031, max 0.002)\n";
        let said = Said {
            completed: 20_000.0,
            lost: 1.0,
            per_second: 9999.5,
            latency: 0.000_071,
        };
        assert_eq!(read(text), Some(said));
        assert_eq!(read("dnsperf: unknown option"), None);
    }
}
