//! What to advertise.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

use super::super::wire::{Given, Routes, Text};
use crate::address::parse_host_address;
use crate::config::{RefusedRoute, RoutesConfig};
use crate::finding::{Place, Report, printable, quoted};
use crate::routes::{MAX_EGRESS_TARGETS, MAX_LAN_PREFIXES, check_routable};

const IPV4_ONLY: &str = "a gateway advertises IPv4 only";

/// `routes`.
pub(crate) fn routes(routes: Routes, report: &mut Report) -> RoutesConfig {
    let Routes {
        lan,
        tailnet_lb_cidr,
        egress_targets,
        aggregate,
        snat,
    } = routes;
    let mut refused = Vec::new();
    let lan = lan
        .map(|lan| self::lan(lan, &mut refused, report))
        .unwrap_or_default();
    let egress_targets = egress_targets
        .map(|targets| self::targets(targets, &mut refused, report))
        .unwrap_or_default();
    let tailnet_lb_cidr =
        tailnet_lb_cidr.and_then(|text| usable(prefix(&text, report), &text, &mut refused, report));
    let none_is_good = lan.is_empty() && egress_targets.is_empty() && tailnet_lb_cidr.is_none();
    if none_is_good && !refused.is_empty() {
        // To go on with nothing would withdraw what is advertised for a slip of the pen.
        report.spoil();
    }
    RoutesConfig {
        lan,
        tailnet_lb_cidr,
        egress_targets,
        aggregate: aggregate.is_none_or(|aggregate| aggregate.value),
        snat: snat.is_none_or(|snat| snat.value),
        refused,
    }
}

fn lan(
    Given { value, place }: Given<Vec<Text>>,
    refused: &mut Vec<RefusedRoute>,
    report: &mut Report,
) -> Vec<Ipv4Net> {
    if value.len() > MAX_LAN_PREFIXES {
        let what = format!(
            "the list has {} prefixes, and {MAX_LAN_PREFIXES} is the most",
            value.len()
        );
        report.error(
            &place,
            what,
            "write larger prefixes that cover several of these",
        );
    }
    let mut prefixes = Distinct::default();
    for text in value {
        if let Some(prefix) = usable(prefix(&text, report), &text, refused, report) {
            prefixes.add(prefix, text, report);
        }
    }
    prefixes.items
}

fn targets(
    Given { value, place }: Given<Vec<Text>>,
    refused: &mut Vec<RefusedRoute>,
    report: &mut Report,
) -> Vec<Ipv4Addr> {
    if value.len() > MAX_EGRESS_TARGETS {
        let what = format!(
            "the list has {} targets, and {MAX_EGRESS_TARGETS} is the most",
            value.len()
        );
        let fix = "write prefixes that cover several of these into `routes.lan` instead, or divide \
                   the targets among several gateways";
        report.error(&place, what, fix);
        return Vec::new();
    }
    let mut targets = Distinct::default();
    for text in value {
        if let Some(address) = usable(target(&text, report), &text, refused, report) {
            targets.add(address, text, report);
        }
    }
    targets.items
}

/// Notes an entry that cannot be advertised, for which the report has just got its remark.
fn usable<T>(
    parsed: Option<T>,
    text: &Text,
    refused: &mut Vec<RefusedRoute>,
    report: &Report,
) -> Option<T> {
    if parsed.is_none()
        && let Some(finding) = report.last()
    {
        refused.push(RefusedRoute {
            text: printable(&text.value),
            why: format!("{}; {}", finding.what, finding.fix),
        });
    }
    parsed
}

/// Items in order, without repetition.
struct Distinct<T> {
    items: Vec<T>,
    first: HashMap<T, u32>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            first: HashMap::new(),
        }
    }
}

impl<T: Hash + Eq + Copy> Distinct<T> {
    fn add(&mut self, item: T, Given { value, place }: Text, report: &mut Report) {
        if let Some(line) = self.first.get(&item) {
            let what = format!("{} is listed twice, first on line {line}", quoted(&value));
            report.warn(&place, what, "remove one of them");
            return;
        }
        self.first.insert(item, place.position.line);
        self.items.push(item);
    }
}

/// A prefix that may be advertised; else a remark that leaves it out.
pub(crate) fn prefix(Given { value, place }: &Text, report: &mut Report) -> Option<Ipv4Net> {
    let text = quoted(value);
    let Some(prefix) = strict(value) else {
        let (what, fix) = explain_prefix(value);
        report.leave_out(place, format!("{text} {what}"), fix);
        return None;
    };
    if prefix.network() != prefix.addr() {
        let what = format!(
            "{text} has host bits set, so it is unclear whether it means a network or a host"
        );
        report.leave_out(
            place,
            what,
            format!(
                "write `{}` for the network, or `{}/32` for the host",
                prefix.trunc(),
                prefix.addr()
            ),
        );
        return None;
    }
    routable(prefix, value, place, report)
}

/// A prefix without leading zeros, which `Ipv4Net` reads as decimal and other programs as octal.
fn strict(text: &str) -> Option<Ipv4Net> {
    let prefix: Ipv4Net = text.parse().ok()?;
    (format!("{}/{}", prefix.addr(), prefix.prefix_len()) == text).then_some(prefix)
}

fn routable(prefix: Ipv4Net, text: &str, place: &Place, report: &mut Report) -> Option<Ipv4Net> {
    match check_routable(prefix) {
        Ok(()) => Some(prefix),
        Err(reason) => {
            report.leave_out(
                place,
                format!("{} cannot be advertised: {reason}", quoted(text)),
                "remove it, or write a prefix of your own network",
            );
            None
        }
    }
}

fn explain_prefix(text: &str) -> (String, String) {
    if text.parse::<Ipv6Net>().is_ok() || text.parse::<Ipv6Addr>().is_ok() {
        return (
            format!("is IPv6, and {IPV4_ONLY}"),
            "remove it, and name the IPv4 prefix of the same network".to_owned(),
        );
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return (
            "has no prefix length".to_owned(),
            format!("write `{address}/32` for this one address, or the network's prefix"),
        );
    }
    if let Ok(prefix) = text.parse::<Ipv4Net>() {
        return (
            "has leading zeros, which some programs read as octal".to_owned(),
            format!("write `{prefix}`"),
        );
    }
    (
        "is not an IPv4 prefix".to_owned(),
        "write a prefix such as `192.0.2.0/24`".to_owned(),
    )
}

/// A single address that may be advertised; else a remark that leaves it out.
pub(crate) fn target(Given { value, place }: &Text, report: &mut Report) -> Option<Ipv4Addr> {
    let text = quoted(value);
    match parse_host_address(value) {
        Ok(IpAddr::V4(address)) => {
            routable(Ipv4Net::from(address), value, place, report).map(|_| address)
        }
        Ok(IpAddr::V6(_)) => {
            report.leave_out(
                place,
                format!("{text} is IPv6, and {IPV4_ONLY}"),
                "remove it, or write the target's IPv4 address",
            );
            None
        }
        Err(bad) => {
            report.leave_out(place, bad.what(value), bad.fix());
            None
        }
    }
}
