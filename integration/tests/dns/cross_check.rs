//! The same questions by dig and kdig: a fault of our own client would differ.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Failed;
use tsunaro_integration::wire::{Query, Reply, udp};

use crate::expect::rcode_name;
use crate::gateway::{Engine, Gateway};
use crate::setup::Setup;
use crate::text::expand;

const QUESTIONS: [(&str, &str); 6] = [
    ("web.Z", "A"),
    ("db.Z", "AAAA"),
    ("chain1.Z", "A"),
    ("multi.Z", "A"),
    ("Z", "NS"),
    ("nope.Z", "A"),
];

pub(crate) fn run() -> Result<(), Failed> {
    let gateway = Gateway::start(&Setup::parse("W0")?, Engine::Agent)?;
    for (name, rtype) in QUESTIONS {
        let name = expand(name);
        let own = own(gateway.dns(), &name, rtype)?;
        for (program, header) in [("dig", "+comments"), ("kdig", "+header")] {
            let theirs = theirs([program, header], gateway.dns(), &name, rtype)?;
            if own != theirs {
                return Err(
                    format!("{name} {rtype}: {program} reads {theirs:?}, we read {own:?}").into(),
                );
            }
        }
    }
    Ok(())
}

/// The response code, and the records as owner, TTL, type and data.
type Read = (String, BTreeSet<String>);

fn own(server: SocketAddr, name: &str, rtype: &str) -> Result<Read> {
    let query = Query::new(name, rtype)?.encode(7)?;
    let datagram = udp(server, &query, Duration::from_secs(2))?.context("no reply")?;
    let reply = Reply::decode(&datagram.octets)?;
    let sections = reply.answer.iter().chain(&reply.authority);
    let records =
        sections.map(|record| format!("{} {} {}", record.owner, record.ttl, record.typed()));
    Ok((rcode_name(reply.rcode), records.collect()))
}

fn theirs(
    [program, header]: [&str; 2],
    server: SocketAddr,
    name: &str,
    rtype: &str,
) -> Result<Read> {
    let at = format!("@{}", server.ip());
    let port = server.port().to_string();
    let output = Command::new(program)
        .args([
            &at,
            "-p",
            &port,
            name,
            rtype,
            "+noall",
            header,
            "+answer",
            "+authority",
        ])
        .output()
        .with_context(|| format!("run {program}"))?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{program}: {text}");
    let code = text
        .split("status: ")
        .nth(1)
        .and_then(|rest| rest.split([',', ';']).next());
    let lines = text
        .lines()
        .filter(|line| !line.starts_with(';') && !line.trim().is_empty());
    let records = lines.map(|line| {
        let words = line.split_whitespace().enumerate();
        // The third word is the class.
        let kept: Vec<&str> = words
            .filter(|(index, _)| *index != 2)
            .map(|(_, word)| word)
            .collect();
        kept.join(" ")
    });
    Ok((code.context("no status")?.to_owned(), records.collect()))
}
