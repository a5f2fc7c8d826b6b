//! A peer's tailscaled: 100.100.100.100, told by Headscale to ask the gateway for its zones.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{LAN_HOST, PEER_HOSTNAME};
use tsunaro_integration::say;

use crate::Named;
use crate::asked::{PROMPT, all_addresses, all_of, wait_for};
use crate::site::{EXTRA, Site, WILDCARD, z};

pub(crate) const TESTS: &[Named] = &[
    (
        "MagicDNS of a peer gives our answers for the zone and the extra zone",
        answers,
    ),
    ("MagicDNS of a peer delivers 200 addresses", many_addresses),
    (
        "programs on a peer find full names, and the zone is not in its search list",
        programs,
    ),
];

/// The tailnet's own domain.
const BASE: &str = "tailnet.lab.test";
const MAGIC: &str = "100.100.100.100";
/// From the agent's start to an answer through the tailnet, on a busy machine.
const START: Duration = Duration::from_secs(90);

fn answers(site: &Site) -> Result<()> {
    let peer = site.lab.peer();
    wait_for(peer, MAGIC, START)?;
    all_of(peer, MAGIC)?;
    let (code, own) = peer.dns(MAGIC, &format!("{PEER_HOSTNAME}.{BASE}"), "A")?;
    ensure!(
        code == "NOERROR" && own.len() == 1,
        "its own name: {code} {own:?}"
    );
    Ok(())
}

fn many_addresses(site: &Site) -> Result<()> {
    let peer = site.lab.peer();
    wait_for(peer, MAGIC, START)?;
    for option in ["+bufsize=1232", "+bufsize=4096", "+noedns", "+tcp"] {
        let transport = all_addresses(peer, &["@100.100.100.100"], option)?;
        say(&format!(
            "MagicDNS, dig {option}: 200 addresses by {transport}"
        ));
    }
    Ok(())
}

/// Through the resolv.conf that tailscaled writes. This Headscale does not add the zones of split
/// DNS to the search list, so that the wildcard gets no foreign names (rule 17).
fn programs(site: &Site) -> Result<()> {
    let peer = site.lab.peer();
    wait_for(peer, MAGIC, START)?;
    let conf = peer.sh("cat /etc/resolv.conf")?;
    let lines = || conf.lines().map(|line| line.split_whitespace());
    let searched: Vec<&str> = lines()
        .filter(|words| words.clone().next() == Some("search"))
        .flat_map(|words| words.skip(1))
        .collect();
    ensure!(
        lines().any(|words| words.eq(["nameserver", MAGIC])) && searched == [BASE],
        "the peer's resolv.conf is {conf}"
    );
    for (name, expected) in [
        (z("router"), Some(LAN_HOST)),
        (z("api"), Some("198.51.100.20")),
        (z("a.b"), Some(WILDCARD)),
        (z("below.router"), None),
        (format!("proxy.{EXTRA}"), Some(WILDCARD)),
        (format!("wiki.{EXTRA}"), Some("192.0.2.40")),
        ("router".to_owned(), None),
        (PEER_HOSTNAME.to_owned(), Some("100.64.0.")),
    ] {
        let started = Instant::now();
        let output = peer.run(["getent", "ahostsv4", &name])?;
        let took = started.elapsed();
        say(&format!(
            "getent on the peer, {name}: {} ms",
            took.as_millis()
        ));
        let right = match expected {
            Some(address) => output.success() && output.stdout.starts_with(address),
            None => output.status.code() == Some(2),
        };
        ensure!(right, "{name}: {output:?}, expected {expected:?}");
        ensure!(took < 2 * PROMPT, "{name} took {took:?}");
    }
    Ok(())
}
