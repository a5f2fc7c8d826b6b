//! Names, hosts files, zone files and queries.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use clap::ValueEnum;

/// The zone of the mixed load.
pub(crate) const ZONE: &str = "bench.example";
/// The zone with a wildcard and aliases.
pub(crate) const WILD: &str = "wild.example";
/// The zone behind upstreams.
pub(crate) const EXTRA: &str = "corp.example";

/// Names in the zone of the mixed load.
pub(crate) const NAMES: usize = 10_000;
/// Names in the other two.
pub(crate) const FEW: usize = 1000;

const A: u16 = 1;
const AAAA: u16 = 28;

/// Which questions are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Nine tenths of names that exist, one tenth of others.
    Mix,
    /// An address.
    Hit,
    /// Another type of a name that exists.
    NoData,
    /// A name that does not exist.
    Missing,
    /// A name that only the wildcard answers.
    Wildcard,
    /// An alias of a name in the zone.
    Alias,
    /// A name behind the upstreams.
    Forwarded,
}

/// The address of a name by its number, from the documentation's networks; `salt` changes it.
pub(crate) fn address(number: usize, salt: u8) -> Ipv4Addr {
    let low = u8::try_from(number % 256).unwrap_or_default();
    match number / 256 % 3 {
        0 => Ipv4Addr::new(192, 0, 2, low.wrapping_add(salt)),
        1 => Ipv4Addr::new(198, 51, 100, low.wrapping_add(salt)),
        _ => Ipv4Addr::new(203, 0, 113, low.wrapping_add(salt)),
    }
}

/// A hosts file.
pub(crate) fn hosts(zone: &str, names: usize, salt: u8) -> String {
    let mut text = String::with_capacity(names * 40);
    for number in 0..names {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} host{number:07}.{zone}", address(number, salt));
    }
    text
}

/// A zone file with the same names, a wildcard and aliases on request.
pub(crate) fn zone_file(zone: &str, names: usize, salt: u8, serial: u32, wild: bool) -> String {
    let mut text = String::with_capacity(names * 40);
    let _ = writeln!(
        text,
        "$ORIGIN {zone}.\n$TTL 30\n@ IN SOA {zone}. nobody.invalid. {serial} 7200 1800 86400 5\n@ IN NS {zone}.\n@ IN A 192.0.2.1"
    );
    for number in 0..names {
        let _ = writeln!(text, "host{number:07} IN A {}", address(number, salt));
    }
    if wild {
        let _ = writeln!(text, "* IN A 192.0.2.200");
        for number in 0..100 {
            let _ = writeln!(text, "alias{number:03} IN CNAME host{number:07}.{zone}.");
        }
    }
    text
}

/// Names to ask for, in an order that is no order.
pub(crate) fn names(kind: Kind, zone: &str, names: usize) -> impl Iterator<Item = String> {
    (0..20_000).map(move |turn| {
        // A step that shares no factor with the number of names visits all of them.
        let number = turn * 7919 % names;
        let name = match kind {
            Kind::Mix if turn % 10 == 9 => format!("miss{number:07}"),
            Kind::Mix | Kind::Hit | Kind::Forwarded | Kind::NoData => format!("host{number:07}"),
            Kind::Missing => format!("x.host{number:07}"),
            Kind::Wildcard => format!("free{number:07}"),
            Kind::Alias => format!("alias{:03}", number % 100),
        };
        format!("{name}.{zone}")
    })
}

/// Queries for them, without EDNS.
pub(crate) fn queries(kind: Kind, zone: &str, count: usize) -> Vec<Vec<u8>> {
    let qtype = if kind == Kind::NoData { AAAA } else { A };
    names(kind, zone, count)
        .map(|name| query(&name, qtype))
        .collect()
}

/// Questions that nobody asked before; `turn` makes them new.
pub(crate) fn new_questions(turn: usize) -> Vec<Vec<u8>> {
    (0..200_000)
        .map(|number| query(&format!("q{turn}x{number}.new.{EXTRA}"), A))
        .collect()
}

/// One query with RD.
pub(crate) fn query(name: &str, qtype: u16) -> Vec<u8> {
    let mut octets = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        octets.push(u8::try_from(label.len()).unwrap_or_default());
        octets.extend(label.bytes());
    }
    octets.push(0);
    octets.extend(qtype.to_be_bytes());
    octets.extend([0, 1]);
    octets
}
