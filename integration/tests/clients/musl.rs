//! musl, as in Alpine images: linked statically. It asks for A and AAAA at once, takes one answer
//! NXDOMAIN for the whole name, and waits for another server when one refuses.

use std::time::Duration;

use anyhow::{Result, ensure};
use tsunaro_integration::lab::LAN_HOST;

use crate::Named;
use crate::site::{EXTRA, Site, WILDCARD, many, z};
use crate::stub::{Conf, Libc};

pub(crate) const TESTS: &[Named] = &[
    ("musl is not held up by a missing type or name", prompt),
    ("musl reads aliases that the gateway has followed", aliases),
    (
        "musl without TCP reads the addresses that fit into a datagram",
        many_addresses,
    ),
    (
        "a search list with ndots makes foreign names match the wildcard with musl",
        search,
    ),
    (
        "musl waits its whole timeout for a name that is refused",
        refused,
    ),
];

fn prompt(site: &Site) -> Result<()> {
    let router = z("router");
    let six = z("six");
    let any = z("a.b.c");
    let proxy = format!("proxy.{EXTRA}");
    let mail = format!("mail.{EXTRA}");
    for (name, expected) in [
        (&router, ("ok", router.as_str(), &[LAN_HOST][..])),
        (&six, ("ok", &six, &["2001:db8::23"])),
        (&any, ("ok", &any, &[WILDCARD])),
        (&proxy, ("ok", &proxy, &[WILDCARD])),
        (&mail, ("ok", &mail, &["192.0.2.25"])),
        (&z("below.router"), ("noname", "", &[])),
        (&format!("absent.{EXTRA}"), ("noname", "", &[])),
    ] {
        Libc::Musl.expect(site, Conf::Plain, name, expected)?;
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
        Libc::Musl.expect(site, Conf::Plain, &z(name), expected)?;
    }
    Ok(())
}

fn many_addresses(site: &Site) -> Result<()> {
    let found = Libc::Musl.ask(site, Conf::Plain, &z("many"))?;
    let all = many();
    ensure!(
        found.result == "ok" && found.addresses.len() >= 20,
        "only {found:?}"
    );
    ensure!(
        found.addresses.iter().all(|at| all.contains(at)),
        "others than ours: {found:?}"
    );
    Ok(())
}

fn search(site: &Site) -> Result<()> {
    let router = z("router");
    let foreign = z("www.example.net");
    for (conf, name, expected) in [
        (
            Conf::Search,
            "router",
            ("ok", router.as_str(), &[LAN_HOST][..]),
        ),
        // Rule 17. Without ndots musl never searches for a name with a dot.
        (
            Conf::SearchNdots5,
            "www.example.net",
            ("ok", &foreign, &[WILDCARD]),
        ),
    ] {
        Libc::Musl.expect(site, conf, name, expected)?;
    }
    Ok(())
}

fn refused(site: &Site) -> Result<()> {
    let found = Libc::Musl.ask(site, Conf::OneSecond, "www.example.net")?;
    ensure!(
        found.result == "again" && found.took >= Duration::from_millis(900),
        "musl has become better: {found:?}"
    );
    Ok(())
}
