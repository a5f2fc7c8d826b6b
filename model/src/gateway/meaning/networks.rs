//! Addresses and prefixes of the custom resources: canonical IPv4 only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;

use crate::address::{BadAddress, parse_host_address};
use crate::config::meaning::routes;
use crate::document::{Given, Text};
use crate::finding::{Report, quoted};
use crate::routes::check_routable;

/// The IPv4 address of one host.
pub(super) fn address(Given { value, place }: &Text, report: &mut Report) -> Option<Ipv4Addr> {
    let text = quoted(value);
    if value.parse::<Ipv6Addr>().is_ok() {
        report.error(
            place,
            format!("{text} is IPv6, and gateways are IPv4 only"),
            "write an IPv4 address such as `192.0.2.20`",
        );
        return None;
    }
    match parse_host_address(value) {
        Ok(IpAddr::V4(address)) if !address.is_loopback() => Some(address),
        Ok(_) => {
            report.error(
                place,
                format!("{text} is a loopback address, where every client would talk to itself"),
                "write the address of one host, such as `192.0.2.20`",
            );
            None
        }
        Err(BadAddress::NotAnAddress) => {
            report.error(
                place,
                BadAddress::NotAnAddress.what(value),
                "write an IPv4 address such as `192.0.2.20`",
            );
            None
        }
        Err(bad) => {
            report.error(place, bad.what(value), bad.fix());
            None
        }
    }
}

/// Canonical IPv4 prefixes, without repetition. `what` is said of a list that is too long.
pub(super) fn prefixes(
    Given { value, place }: Given<Vec<Text>>,
    most: usize,
    report: &mut Report,
) -> Vec<Ipv4Net> {
    if value.len() > most {
        report.error(
            &place,
            format!(
                "the list has {} prefixes, and {most} is the most",
                value.len()
            ),
            "write larger prefixes that cover several of these",
        );
    }
    let mut prefixes: Vec<Ipv4Net> = Vec::with_capacity(value.len());
    for text in value {
        let Some(prefix) = routes::prefix(&text, report) else {
            continue;
        };
        if prefixes.contains(&prefix) {
            report.error(
                &text.place,
                format!("{} is listed twice", quoted(&text.value)),
                "remove one of them",
            );
        } else {
            prefixes.push(prefix);
        }
    }
    prefixes
}

/// The address, if it may be advertised as a /32.
pub(super) fn routable(
    address: Ipv4Addr,
    Given { value, place }: &Text,
    report: &mut Report,
) -> Option<Ipv4Addr> {
    match check_routable(Ipv4Net::from(address)) {
        Ok(()) => Some(address),
        Err(reason) => {
            report.error(
                place,
                format!("{} cannot be advertised: {reason}", quoted(value)),
                "write the address of a host at the site",
            );
            None
        }
    }
}
