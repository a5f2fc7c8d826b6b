//! Addresses of hosts: the gateway's own, those of records, the wildcard's.

use std::net::{IpAddr, Ipv4Addr};

use super::super::wire::{Given, Text};
use crate::address::parse_host_address;
use crate::finding::{Report, quoted};

/// The address of a host. Loopback is accepted with a warning.
pub(crate) fn host(Given { value, place }: &Text, report: &mut Report) -> Option<IpAddr> {
    match parse_host_address(value) {
        Ok(address) => {
            if address.is_loopback() {
                let what = format!(
                    "{} is a loopback address: every client would talk to itself",
                    quoted(value)
                );
                report.warn(
                    place,
                    what,
                    "write the address of the host as others reach it",
                );
            }
            Some(address)
        }
        Err(bad) => {
            report.error(place, bad.what(value), bad.fix());
            None
        }
    }
}

/// `dns.addresses`.
pub(crate) fn own(given: Vec<Text>, report: &mut Report) -> Vec<IpAddr> {
    let mut addresses = Vec::with_capacity(given.len());
    for text in given {
        let Some(address) = host(&text, report) else {
            continue;
        };
        if addresses.contains(&address) {
            report.warn(
                &text.place,
                format!("the address {} is listed twice", quoted(&text.value)),
                "remove one of them",
            );
        } else {
            addresses.push(address);
        }
    }
    addresses
}

/// `dns.wildcardAddress`.
pub(crate) fn wildcard(given: &Text, report: &mut Report) -> Option<Ipv4Addr> {
    match host(given, report)? {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => {
            let what = format!(
                "{} is IPv6, and the wildcard has an IPv4 address only",
                quoted(&given.value)
            );
            report.error(
                &given.place,
                what,
                "write an IPv4 address such as `192.0.2.80`, or remove the field",
            );
            None
        }
    }
}
