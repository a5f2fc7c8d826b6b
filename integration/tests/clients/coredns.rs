//! A cluster's CoreDNS in front: `forward . GATEWAY { prefer_udp }` and `cache 30`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::{Cmd, Process};
use tsunaro_integration::{say, wait_until};

use crate::Named;
use crate::asked::{all_addresses, all_of, wait_for};
use crate::site::{GATEWAY, Site, z};

pub(crate) const TESTS: &[Named] = &[(
    "a CoreDNS in front gives our answers, caches what is missing, and shows a new name in seconds",
    in_front,
)];

const SERVER: &str = "127.0.0.1@1053";
const METRICS: &str = "http://127.0.0.1:9153/metrics";

/// A reload may take 3 s, and what a CoreDNS keeps of a missing name 5 s by our SOA.
const NEW_NAME: Duration = Duration::from_secs(8);

fn start(site: &Site) -> Result<Process> {
    let node = site.client();
    let corefile = node.write(
        "Corefile",
        &format!(
            ".:1053 {{\n  bind 127.0.0.1\n  forward . {GATEWAY} {{\n    prefer_udp\n  }}\n  cache 30\n  \
             prometheus 127.0.0.1:9153\n  errors\n}}\n"
        ),
    )?;
    let program = &site.lab.peers().coredns;
    let coredns = node.spawn(Cmd::new(program).arg("-conf").arg(corefile))?;
    wait_for(node, SERVER, Duration::from_secs(20))?;
    Ok(coredns)
}

fn in_front(site: &Site) -> Result<()> {
    let _coredns = start(site)?;
    let node = site.client();
    all_of(node, SERVER)?;
    for option in ["+bufsize=1232", "+noedns", "+tcp"] {
        let transport = all_addresses(node, &["@127.0.0.1", "-p", "1053"], option)?;
        ensure!(transport == "TCP", "{option}: by {transport}");
    }
    missing_names_are_cached(site)?;
    a_new_name_appears(site)
}

/// One question goes to the gateway; the others are answered from the cache, as the SOA allows.
fn missing_names_are_cached(site: &Site) -> Result<()> {
    let before = denials(site)?;
    let name = z("missing.router");
    let mut cmd = Cmd::new("kdig").args(["@127.0.0.1", "-p", "1053"]);
    for _ in 0..5 {
        cmd = cmd.args([&name, "A"]);
    }
    let started = Instant::now();
    let text = site.client().run(cmd)?.ok()?;
    let took = started.elapsed();
    ensure!(text.matches("NXDOMAIN").count() == 5, "kdig wrote {text}");
    let hits = denials(site)? - before;
    say(&format!(
        "CoreDNS answered {hits} of 5 from its cache of what is missing, in {} ms",
        took.as_millis()
    ));
    ensure!(hits >= 4, "only {hits} of 5 from the cache");
    Ok(())
}

/// How many answers CoreDNS gave from its cache of negative answers.
fn denials(site: &Site) -> Result<u32> {
    let (_, text) = site.client().http_get(METRICS)?;
    text.lines()
        .filter(|line| line.starts_with("coredns_cache_hits_total{"))
        .find(|line| line.contains("type=\"denial\""))
        .and_then(|line| line.split_whitespace().last())
        .map_or(Ok(0), |value| value.parse().context("a metric's value"))
}

fn a_new_name_appears(site: &Site) -> Result<()> {
    let name = z("new.router");
    let node = site.client();
    let (code, _) = node.dns(SERVER, &name, "A")?;
    ensure!(code == "NXDOMAIN", "{name} exists already: {code}");
    let started = Instant::now();
    site.add_host(&format!("198.51.100.33 {name}"))?;
    wait_until("the new name through CoreDNS", 3 * NEW_NAME, || {
        let (_, answer) = node.dns(SERVER, &name, "A")?;
        Ok((answer == ["A 198.51.100.33"]).then_some(()))
    })?;
    let took = started.elapsed();
    say(&format!(
        "from the swapped hosts file to the answer of CoreDNS: {:.1} s",
        took.as_secs_f64()
    ));
    // With a longer TTL in our SOA it would keep the missing name for up to 30 s.
    ensure!(took < 2 * NEW_NAME, "it took {took:?}");
    Ok(())
}
