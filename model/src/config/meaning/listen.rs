//! Listening addresses.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::super::wire::{self, Given, Text};
use crate::config::Listen;
use crate::finding::{Report, quoted};

/// Port of DNS (RFC 1035 §4.2), for suggestions.
const DNS_PORT: u16 = 53;
/// Port of the HTTP side, for suggestions.
const HTTP_PORT: u16 = 9181;

/// `listen`.
pub(super) fn listen(given: wire::Listen, report: &mut Report) -> Listen {
    let wire::Listen { dns, http } = given;
    let mut listen = Listen {
        dns: Vec::with_capacity(dns.len()),
        http: None,
    };
    for text in dns {
        let Some(address) = socket(&text, DNS_PORT, report) else {
            continue;
        };
        if listen.dns.contains(&address) {
            report.error(
                &text.place,
                format!("{} is listed twice", quoted(&text.value)),
                "remove one of them",
            );
        } else {
            listen.dns.push(address);
        }
    }
    if let Some(text) = http {
        listen.http = socket(&text, HTTP_PORT, report);
        if listen
            .http
            .is_some_and(|address| listen.dns.contains(&address))
        {
            let what = format!(
                "{} is an address of `listen.dns` too, and both use TCP",
                quoted(&text.value)
            );
            report.error(&text.place, what, "give the two different ports");
        }
    }
    listen
}

fn socket(
    Given { value, place }: &Text,
    default_port: u16,
    report: &mut Report,
) -> Option<SocketAddr> {
    let quoted = quoted(value);
    let Ok(address) = value.parse::<SocketAddr>() else {
        let (what, fix) = explain(value, default_port);
        report.error(place, format!("{quoted} {what}"), fix);
        return None;
    };
    if address.port() == 0 {
        let what = format!("{quoted} has port 0, which would be another port on each start");
        report.error(
            place,
            what,
            format!("write `{}`", SocketAddr::new(address.ip(), default_port)),
        );
        return None;
    }
    if address.ip().is_multicast() {
        report.error(
            place,
            format!("{quoted} is a multicast address"),
            "write an address of this machine",
        );
        return None;
    }
    Some(address)
}

fn explain(text: &str, default_port: u16) -> (&'static str, String) {
    let bare = text
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return (
            "has no port",
            format!("write `{}`", SocketAddr::new(address, default_port)),
        );
    }
    if let Some(port) = text
        .strip_prefix(':')
        .and_then(|port| port.parse::<u16>().ok())
    {
        let all = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
        return ("has no address", format!("write `{all}` for all addresses"));
    }
    (
        "is not an IP address with a port",
        format!("write `127.0.0.1:{default_port}` or `[::1]:{default_port}`, for example"),
    )
}
