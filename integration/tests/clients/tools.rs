//! dig and kdig, over UDP and TCP, with and without EDNS, with the options that people use.

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::Cmd;

use crate::Named;
use crate::asked::questions;
use crate::site::{GATEWAY, Site, ZONE, many, z};

pub(crate) const TESTS: &[Named] = &[
    (
        "dig reads the same answers by every transport and option",
        dig,
    ),
    (
        "kdig reads the same answers by every transport and option",
        kdig,
    ),
];

const DIG: &[&str] = &[
    "+cookie",
    "+noedns",
    "+bufsize=512",
    "+bufsize=1232",
    "+bufsize=4096",
    "+dnssec",
    "+nsid",
    "+subnet=198.51.100.0/24",
    "+padding=128",
    "+cdflag",
    "+norecurse",
    "+tcp",
];

const KDIG: &[&str] = &[
    "+noedns",
    "+edns=0",
    "+bufsize=512",
    "+bufsize=1232",
    "+bufsize=4096",
    "+dnssec",
    "+nsid",
    "+subnet=198.51.100.0/24",
    "+padding=128",
    "+cookie",
    "+tcp",
    "+tcp +keepopen",
];

fn dig(site: &Site) -> Result<()> {
    compare(site, "dig", DIG, "+tries=2")
}

fn kdig(site: &Site) -> Result<()> {
    compare(site, "kdig", KDIG, "+retry=1")
}

fn compare(site: &Site, program: &str, options: &[&str], attempts: &str) -> Result<()> {
    let mut all = questions();
    let mut addresses: Vec<String> = many().iter().map(|at| format!("A {at}")).collect();
    addresses.sort();
    // Truncated over UDP: the tools turn to TCP by themselves.
    all.push((z("many"), "A", "NOERROR", addresses));
    all.push((
        ZONE.to_owned(),
        "NS",
        "NOERROR",
        vec![format!("NS {ZONE}.")],
    ));
    all.push(("www.example.net".to_owned(), "A", "REFUSED", vec![]));
    for option in options {
        let cmd = Cmd::new(program)
            .arg(format!("@{GATEWAY}"))
            .args(option.split(' ').chain(["+time=4", attempts]))
            .args(all.iter().flat_map(|(name, kind, ..)| [name, *kind]));
        let text = site.client().run(cmd)?.ok()?;
        let replies: Vec<&str> = text.split("->>HEADER<<-").skip(1).collect();
        ensure!(
            replies.len() == all.len(),
            "{program} {option}: {} replies: {text}",
            replies.len()
        );
        for (reply, (name, kind, code, expected)) in replies.iter().zip(&all) {
            let (got_code, got) = read(reply)?;
            ensure!(
                got_code == *code && got == *expected,
                "{program} {option} {name} {kind}: {got_code} {got:?}, expected {code} {expected:?}"
            );
        }
    }
    Ok(())
}

/// The code and the sorted records of one reply.
fn read(text: &str) -> Result<(&str, Vec<String>)> {
    let code = text
        .split("status: ")
        .nth(1)
        .and_then(|rest| rest.split([',', ';']).next())
        .context("no status")?;
    let answer = text
        .split_once(";; ANSWER SECTION:\n")
        .map_or("", |at| at.1);
    let mut records: Vec<String> = answer
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().skip(3).collect();
            fields.join(" ")
        })
        .collect();
    records.sort();
    Ok((code, records))
}
