//! Questions to any resolver in front of the gateway, and what each must answer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::{LAN_HOST, Node};
use tsunaro_integration::{Wait, say};

use crate::site::{EXTRA, WILDCARD, many, z};

/// An answer that is not slow: 200 ms are the goal, with the time to start a client; five times
/// that is allowed on a busy machine, and is still far below any client's own timeout.
pub(crate) const PROMPT: Duration = Duration::from_secs(1);

/// A name, a type, and the answer: its code and its records as `TYPE data`, sorted.
pub(crate) type Question = (String, &'static str, &'static str, Vec<String>);

/// What every resolver in front must hand on unchanged.
pub(crate) fn questions() -> Vec<Question> {
    let a = |address: &str| vec![format!("A {address}")];
    let api = z("kube-api-platform");
    let found = |links: &[String], address: &str| {
        let mut all: Vec<String> = links.iter().map(|link| format!("CNAME {link}.")).collect();
        all.extend(a(address));
        all.sort();
        all
    };
    let e = |label: &str| format!("{label}.{EXTRA}");
    vec![
        (z("router"), "A", "NOERROR", a(LAN_HOST)),
        (z("router"), "AAAA", "NOERROR", vec![]),
        (z("router"), "HTTPS", "NOERROR", vec![]),
        (z("six"), "A", "NOERROR", vec![]),
        (
            z("six"),
            "AAAA",
            "NOERROR",
            vec!["AAAA 2001:db8::23".into()],
        ),
        (
            z("api"),
            "A",
            "NOERROR",
            found(std::slice::from_ref(&api), "198.51.100.20"),
        ),
        (
            z("chain"),
            "A",
            "NOERROR",
            found(&[z("api"), api], "198.51.100.20"),
        ),
        (z("wiki"), "A", "NOERROR", found(&[e("wiki")], "192.0.2.40")),
        (z("a.b"), "A", "NOERROR", a(WILDCARD)),
        (z("a.b"), "AAAA", "NOERROR", vec![]),
        (z("below.router"), "A", "NXDOMAIN", vec![]),
        (e("mail"), "A", "NOERROR", a("192.0.2.25")),
        (e("proxy"), "A", "NOERROR", a(WILDCARD)),
        (
            e("proxy"),
            "TXT",
            "NOERROR",
            vec!["TXT \"from-upstream\"".into()],
        ),
        (e("absent"), "A", "NXDOMAIN", vec![]),
    ]
}

/// Asks `server` all of them from `node` by kdig, and says how long the slowest took.
pub(crate) fn all_of(node: &Node, server: &str) -> Result<()> {
    let mut slowest = (Duration::ZERO, String::new());
    for (name, kind, code, expected) in questions() {
        let started = Instant::now();
        let (got_code, mut got) = node.dns(server, &name, kind)?;
        slowest = slowest.max((started.elapsed(), format!("{name} {kind}")));
        got.sort();
        ensure!(
            got_code == code && got == expected,
            "{server}, {name} {kind}: {got_code} {got:?}, expected {code} {expected:?}"
        );
    }
    say(&format!(
        "{server} from {}: slowest answer {} ms ({}), with the start of kdig",
        node.name(),
        slowest.0.as_millis(),
        slowest.1
    ));
    ensure!(slowest.0 < 2 * PROMPT, "{} took {:?}", slowest.1, slowest.0);
    Ok(())
}

/// Asks for the name with many addresses by dig with these options, which turns to TCP by itself:
/// all addresses must arrive. Gives the transport of the answer that counted.
pub(crate) fn all_addresses(node: &Node, server: &[&str], option: &str) -> Result<String> {
    let name = z("many");
    let text = node
        .run(
            tsunaro_integration::lab::Cmd::new("dig")
                .args(server.iter().copied())
                .args([&name, "A", option, "+time=4", "+tries=2"]),
        )?
        .ok()?;
    let mut got: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(';'))
        .filter_map(|line| line.split_whitespace().nth(4))
        .collect();
    got.sort_unstable();
    let mut expected = many();
    expected.sort();
    ensure!(
        got == expected,
        "{option}: {} of {} addresses; dig wrote {text}",
        got.len(),
        expected.len()
    );
    let transport = text.lines().find(|line| line.starts_with(";; SERVER:"));
    let transport = transport.context("dig names no server")?;
    Ok(if transport.contains("(TCP)") {
        "TCP"
    } else {
        "UDP"
    }
    .to_owned())
}

/// Waits until a resolver that has just started gives an answer of the zone.
pub(crate) fn wait_for(node: &Node, server: &str, timeout: Duration) -> Result<()> {
    Wait::new(format!("an answer of {server} on {}", node.name()), timeout)
        .logs([node.dir().to_owned()])
        .until(|| {
            let (code, answer) = node.dns(server, &z("router"), "A")?;
            ensure!(code == "NOERROR" && answer.len() == 1, "{code} {answer:?}");
            Ok(Some(()))
        })
}
