//! Record types by name and number.

use anyhow::{Context, Result};

const NAMES: [(&str, u16); 17] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("OPT", 41),
    ("DS", 43),
    ("RRSIG", 46),
    ("DNSKEY", 48),
    ("SVCB", 64),
    ("HTTPS", 65),
    ("IXFR", 251),
    ("AXFR", 252),
    ("ANY", 255),
];

/// The number of a type by its mnemonic or as `TYPE65280` (RFC 3597 §5).
pub fn type_number(name: &str) -> Result<u16> {
    let known = NAMES.iter().find(|(known, _)| *known == name);
    let generic = || name.strip_prefix("TYPE")?.parse().ok();
    known
        .map(|(_, number)| *number)
        .or_else(generic)
        .with_context(|| format!("\"{name}\" is no record type that is known here"))
}

/// The mnemonic of a type, else `TYPE65280`.
#[must_use]
pub fn type_name(number: u16) -> String {
    NAMES
        .iter()
        .find(|(_, known)| *known == number)
        .map_or_else(|| format!("TYPE{number}"), |(name, _)| (*name).to_owned())
}
