//! glibc: `getent`, and a program of ours whose getaddrinfo is timed without its start.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{LAN_HOST, Output};
use tsunaro_integration::say;

use crate::Named;
use crate::site::{EXTRA, Site, WILDCARD, many, z};
use crate::stub::{Conf, Libc, under};

pub(crate) const TESTS: &[Named] = &[
    ("getent finds what exists and nothing else", getent),
    ("glibc is not held up by a missing type or name", prompt),
    (
        "glibc follows aliases into an extra zone but not out of all zones",
        aliases,
    ),
    ("glibc reads 200 addresses over TCP", many_addresses),
    (
        "a search list finds short names with glibc and makes foreign ones match the wildcard",
        search,
    ),
];

/// The first of glibc's waits for a server.
const FIRST_WAIT: Duration = Duration::from_secs(5);

fn getent(site: &Site) -> Result<()> {
    let six = ["2001:db8::23"];
    for (database, name, expected) in [
        ("ahostsv4", z("router"), &[LAN_HOST][..]),
        ("ahosts", z("router"), &[LAN_HOST]),
        ("ahosts", z("api"), &["198.51.100.20"]),
        ("ahosts", z("chain"), &["198.51.100.20"]),
        ("ahosts", z("both"), &["198.51.100.24", "2001:db8::24"]),
        ("ahosts", z("six"), &six),
        ("ahostsv6", z("six"), &six),
        ("ahostsv4", z("six"), &[]),
        ("ahosts", z("anything"), &[WILDCARD]),
        ("ahosts", z("a.b.c"), &[WILDCARD]),
        ("ahosts", z("below.router"), &[]),
        ("ahosts", format!("proxy.{EXTRA}"), &[WILDCARD]),
        ("ahosts", format!("mail.{EXTRA}"), &["192.0.2.25"]),
        ("ahosts", format!("absent.{EXTRA}"), &[]),
        // Other names than our own are refused, which is no answer.
        ("ahosts", "www.example.net".to_owned(), &[]),
        ("hosts", z("router"), &[LAN_HOST]),
        ("hosts", z("six"), &six),
    ] {
        let started = Instant::now();
        let output = under(site.client(), Conf::Plain, &["getent", database, &name])?;
        let took = started.elapsed();
        say(&format!(
            "getent {database} {name}: {} ms",
            took.as_millis()
        ));
        let got = addresses(&output);
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        // 2 is getent's code for a key that was not found.
        let code = if expected.is_empty() { 2 } else { 0 };
        ensure!(
            got == expected && output.status.code() == Some(code),
            "getent {database} {name}: {output:?}, expected {expected:?}"
        );
        ensure!(took < FIRST_WAIT, "getent {database} {name} took {took:?}");
    }
    Ok(())
}

fn addresses(output: &Output) -> BTreeSet<&str> {
    let lines = output.stdout.lines();
    lines
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

fn prompt(site: &Site) -> Result<()> {
    let router = z("router");
    let six = z("six");
    let any = z("anything");
    let proxy = format!("proxy.{EXTRA}");
    for (name, expected) in [
        (&router, ("ok", router.as_str(), &[LAN_HOST][..])),
        (&six, ("ok", &six, &["2001:db8::23"])),
        (&any, ("ok", &any, &[WILDCARD])),
        (&proxy, ("ok", &proxy, &[WILDCARD])),
        (&z("below.router"), ("noname", "", &[])),
        (&format!("absent.{EXTRA}"), ("noname", "", &[])),
        (&"www.example.net".to_owned(), ("again", "", &[])),
    ] {
        Libc::Glibc.expect(site, Conf::Plain, name, expected)?;
    }
    Ok(())
}

fn aliases(site: &Site) -> Result<()> {
    let api = z("kube-api-platform");
    let wiki = format!("wiki.{EXTRA}");
    for (name, expected) in [
        ("api", ("ok", api.as_str(), &["198.51.100.20"][..])),
        ("chain", ("ok", &api, &["198.51.100.20"])),
        ("wiki", ("ok", &wiki, &["192.0.2.40"])),
        ("outside", ("noname", "", &[])),
    ] {
        Libc::Glibc.expect(site, Conf::Plain, &z(name), expected)?;
    }
    Ok(())
}

fn many_addresses(site: &Site) -> Result<()> {
    let mut all = many();
    all.sort();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let name = z("many");
    Libc::Glibc.expect(site, Conf::Plain, &name, ("ok", &name, &all))
}

fn search(site: &Site) -> Result<()> {
    let router = z("router");
    let absent = z("absent");
    let foreign = z("www.example.net");
    for (conf, name, expected) in [
        (
            Conf::Search,
            "router",
            ("ok", router.as_str(), &[LAN_HOST][..]),
        ),
        (Conf::SearchNdots5, "router", ("ok", &router, &[LAN_HOST])),
        (Conf::Search, "absent", ("ok", &absent, &[WILDCARD])),
        // Rule 17: with a wildcard, the search list makes every foreign name ours.
        (
            Conf::Search,
            "www.example.net",
            ("ok", &foreign, &[WILDCARD]),
        ),
        (
            Conf::SearchNdots5,
            "www.example.net",
            ("ok", &foreign, &[WILDCARD]),
        ),
        // A final dot keeps the search list away.
        (Conf::SearchNdots5, "www.example.net.", ("again", "", &[])),
        // As does a name that exists above it, which blocks the wildcard.
        (Conf::SearchNdots5, "below.router", ("again", "", &[])),
    ] {
        Libc::Glibc.expect(site, conf, name, expected)?;
    }
    Ok(())
}
