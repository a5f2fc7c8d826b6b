//! Zones and their upstreams.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::super::parse::Upstream;
use super::super::wire::{Given, Text};
use crate::address::parse_host_address;
use crate::finding::{Place, Report, quoted};
use crate::name::{DnsName, NameError};

/// Port of DNS (RFC 1035 §4.2).
const DNS_PORT: u16 = 53;

/// Top labels that resolvers on clients never ask a DNS server for, with the RFC that says so.
const NEVER_ASKED: [(&str, &str); 4] = [
    ("local", "RFC 6762, multicast DNS"),
    ("localhost", "RFC 6761"),
    ("invalid", "RFC 6761"),
    ("onion", "RFC 7686"),
];

/// Where tailscaled answers DNS on every node of a tailnet.
const MAGIC_DNS: IpAddr = IpAddr::V4(Ipv4Addr::new(100, 100, 100, 100));

/// A zone's apex and where it stands.
#[derive(Debug)]
pub(crate) struct Apex {
    pub(crate) name: DnsName,
    pub(crate) place: Place,
}

/// All zones of the file whose names are valid.
#[derive(Debug)]
pub(crate) struct Zones {
    pub(crate) primary: Option<Apex>,
    pub(crate) extra: Vec<Apex>,
}

impl Zones {
    pub(crate) fn new(primary: Option<Apex>) -> Self {
        Self {
            primary,
            extra: Vec::new(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Apex> {
        self.primary.iter().chain(&self.extra)
    }

    /// True when the name lies in one of the zones.
    pub(crate) fn contain(&self, name: &DnsName) -> bool {
        self.all().any(|zone| name.is_within(&zone.name))
    }

    /// Reports zones that are equal or nested, at the later one.
    pub(crate) fn check_disjoint(&self, report: &mut Report) {
        let zones: Vec<&Apex> = self.all().collect();
        let mut first: HashMap<&[u8], usize> = HashMap::with_capacity(zones.len());
        for (index, zone) in zones.iter().enumerate() {
            first.entry(zone.name.as_wire()).or_insert(index);
        }
        for (index, zone) in zones.iter().enumerate() {
            for suffix in zone.name.suffixes() {
                let Some((at, other)) = first
                    .get(suffix)
                    .and_then(|at| Some((*at, *zones.get(*at)?)))
                else {
                    continue;
                };
                match at.cmp(&index) {
                    Ordering::Equal => {}
                    Ordering::Less if zone.name == other.name => {
                        report_overlap(zone, "is the same zone as", other, report);
                    }
                    Ordering::Less => report_overlap(zone, "lies inside", other, report),
                    Ordering::Greater => report_overlap(other, "encloses", zone, report),
                }
            }
        }
    }
}

fn report_overlap(zone: &Apex, relation: &str, earlier: &Apex, report: &mut Report) {
    let (own, other) = (quoted(&shown(&zone.name)), quoted(&shown(&earlier.name)));
    let Place { field, position } = &earlier.place;
    let what = format!(
        "the zone {own} {relation} {other} ({field}, line {})",
        position.line
    );
    report.error(
        &zone.place,
        what,
        "remove one of the two; zones must lie beside each other",
    );
}

/// A zone's name.
pub(crate) fn name(Given { value, place }: Text, report: &mut Report) -> Option<Apex> {
    let name = match DnsName::parse_host(&value) {
        Ok(name) => name,
        Err(error) => {
            report.error(
                &place,
                bad_name(&value, &error),
                "write a domain such as `prod-1.tailnet.example.internal`",
            );
            return None;
        }
    };
    if name.is_root() {
        report.error(
            &place,
            "`.` is the root of all names and would enclose every other zone",
            "write the domain to answer for",
        );
        return None;
    }
    let top = name.labels().last().map(<[u8]>::to_vec).unwrap_or_default();
    if let Some((label, standard)) = NEVER_ASKED
        .iter()
        .find(|(label, _)| label.as_bytes() == top)
    {
        let what = format!(
            "{} ends in `.{label}`, which clients never ask a DNS server for ({standard})",
            quoted(&value)
        );
        report.warn(
            &place,
            what,
            "choose another domain, such as one under `.internal`",
        );
    }
    Some(Apex { name, place })
}

/// Upstreams of one extra zone, in order and without repetition. `own`: `dns.addresses`.
pub(crate) fn upstreams(given: Vec<Text>, own: &[IpAddr], report: &mut Report) -> Vec<Upstream> {
    let mut upstreams: Vec<Upstream> = Vec::with_capacity(given.len());
    for Given { value, place } in given {
        let address = match upstream(&value) {
            Ok(address) => address,
            Err((what, fix)) => {
                report.error(&place, what, fix);
                continue;
            }
        };
        let text = quoted(&value);
        if upstreams.iter().any(|earlier| earlier.address == address) {
            report.warn(
                &place,
                format!("the upstream {text} is listed twice"),
                "remove one of them",
            );
            continue;
        }
        if address.port() == DNS_PORT && own.contains(&address.ip()) {
            let what = format!(
                "the upstream {text} is also in `dns.addresses`: queries would come back to this gateway"
            );
            report.warn(&place, what, "name the DNS server that knows this zone");
        }
        if address.ip() == MAGIC_DNS {
            let what = format!(
                "the upstream {text} is the tailnet's own resolver: with split-DNS for this zone, queries would come back to this gateway"
            );
            report.warn(&place, what, "name the DNS server that knows this zone");
        }
        upstreams.push(Upstream { address, place });
    }
    upstreams
}

/// `address`, `address:port` or `[v6]:port`.
fn upstream(text: &str) -> Result<SocketAddr, (String, String)> {
    let (host, port) = match text.parse::<SocketAddr>() {
        Ok(SocketAddr::V6(v6)) if v6.scope_id() != 0 => {
            (format!("{}%{}", v6.ip(), v6.scope_id()), v6.port())
        }
        Ok(socket) => (socket.ip().to_string(), socket.port()),
        Err(_) => (text.to_owned(), DNS_PORT),
    };
    if port == 0 {
        return Err((
            format!("{} has port 0", quoted(text)),
            format!("write `{host}` for port 53, or the right port"),
        ));
    }
    if let Some(inner) = text
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
    {
        return Err((
            format!("{} has brackets but no port", quoted(text)),
            format!("write `{inner}`, or `{text}:53`"),
        ));
    }
    match parse_host_address(&host) {
        Ok(address) => Ok(SocketAddr::new(address, port)),
        Err(crate::address::BadAddress::NotAnAddress) => Err((
            format!("{} is not an IP address, and upstreams are not looked up by name", quoted(text)),
            "write the server's address, as in `192.0.2.53`, `192.0.2.53:5353` or `[2001:db8::53]:5353`".to_owned(),
        )),
        Err(bad) => Err((bad.what(text), bad.fix())),
    }
}

/// What to say of a text that is no name.
pub(crate) fn bad_name(text: &str, error: &NameError) -> String {
    match error {
        NameError::Empty => "the name is empty".to_owned(),
        other => format!("{} is not a name: {other}", quoted(text)),
    }
}

/// A name as people write it, without the final dot.
pub(crate) fn shown(name: &DnsName) -> String {
    let mut text = name.to_string();
    if text.len() > 1 {
        text.pop();
    }
    text
}
