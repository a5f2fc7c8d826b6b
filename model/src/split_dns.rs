//! Does the tailnet send its queries to us? Compares what clients are told with our addresses.

use std::net::{IpAddr, SocketAddr};

use crate::name::DnsName;
use crate::tailnet::{TailnetDns, TailnetResolver};

/// The port of DNS (RFC 1035 §4.2).
const DNS_PORT: u16 = 53;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitDns {
    /// The config does not say at which addresses clients should ask.
    NotConfigured,
    /// tailscaled has no network map, or cannot be asked.
    Unknown,
    /// Clients are told to ask us, and nobody else, for all our zones.
    Distributed,
    /// For these zones they are not; with the lines that are missing.
    NotDistributed {
        /// Zones that clients are not told about, or for which they are told to ask others.
        zones: Vec<DnsName>,
        /// What to write in Headscale's config under `dns.nameservers.split`.
        lines: Vec<String>,
    },
}

/// Compares the zones that we answer for with what the control server tells clients.
pub fn compare(zones: &[&DnsName], addresses: &[IpAddr], told: Option<&TailnetDns>) -> SplitDns {
    if addresses.is_empty() {
        return SplitDns::NotConfigured;
    }
    let Some(told) = told else {
        return SplitDns::Unknown;
    };
    let missing: Vec<&DnsName> = zones
        .iter()
        .copied()
        .filter(|zone| !is_ours(told, zone, addresses))
        .collect();
    if missing.is_empty() {
        return SplitDns::Distributed;
    }
    let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let line = |zone: &&DnsName| {
        let name = zone.to_string();
        format!("{}: [{}]", name.trim_end_matches('.'), list.join(", "))
    };
    SplitDns::NotDistributed {
        lines: missing.iter().map(line).collect(),
        zones: missing.into_iter().cloned().collect(),
    }
}

/// At least one of our addresses is told for the zone, and none that is not ours.
fn is_ours(told: &TailnetDns, zone: &DnsName, addresses: &[IpAddr]) -> bool {
    let Some(resolvers) = told.routes.get(zone) else {
        return false;
    };
    let ours = |resolver: &TailnetResolver| match resolver {
        TailnetResolver::Plain(address) => addresses
            .iter()
            .any(|ours| SocketAddr::new(*ours, DNS_PORT) == *address),
        TailnetResolver::Other(_) => false,
    };
    !resolvers.is_empty() && resolvers.iter().all(ours)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn name(text: &str) -> DnsName {
        DnsName::parse_host(text).unwrap()
    }

    fn told(zone: &str, resolvers: &[&str]) -> TailnetDns {
        let resolvers = resolvers
            .iter()
            .map(|text| TailnetResolver::Plain(text.parse().unwrap()))
            .collect();
        TailnetDns {
            routes: BTreeMap::from([(name(zone), resolvers)]),
            ..TailnetDns::default()
        }
    }

    #[test]
    fn clients_must_be_told_to_ask_us_and_nobody_else() {
        let zone = name("prod-1.example");
        let ours: [IpAddr; 2] = [
            "198.51.100.17".parse().unwrap(),
            "198.51.100.18".parse().unwrap(),
        ];
        let missing = SplitDns::NotDistributed {
            zones: vec![zone.clone()],
            lines: vec!["prod-1.example: [198.51.100.17, 198.51.100.18]".to_owned()],
        };
        for (told, expected) in [
            (None, SplitDns::Unknown),
            (
                Some(told("prod-1.example", &["198.51.100.17:53"])),
                SplitDns::Distributed,
            ),
            (
                Some(told(
                    "prod-1.example",
                    &["198.51.100.17:53", "198.51.100.18:53"],
                )),
                SplitDns::Distributed,
            ),
            (
                Some(told(
                    "prod-1.example",
                    &["198.51.100.17:53", "192.0.2.53:53"],
                )),
                missing.clone(),
            ),
            (
                Some(told("prod-1.example", &["198.51.100.17:5353"])),
                missing.clone(),
            ),
            (Some(told("prod-1.example", &[])), missing.clone()),
            (Some(told("example", &["198.51.100.17:53"])), missing),
        ] {
            assert_eq!(
                compare(&[&zone], &ours, told.as_ref()),
                expected,
                "{told:?}"
            );
        }
        assert_eq!(compare(&[&zone], &[], None), SplitDns::NotConfigured);
    }
}
