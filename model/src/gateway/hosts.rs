//! The hosts file of a tailnet, from egress aliases and ingress names.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use super::{Egress, Ingress, Tailnet};
use crate::name::DnsName;

/// Where namespaced objects live that name no namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// What has names in a hosts file.
#[derive(Debug, Clone, Copy)]
pub enum Source<'s> {
    /// Its aliases have the target's address.
    Egress(&'s Egress),
    /// Its name has the address that it was given.
    Ingress(&'s Ingress),
}

/// A hosts file and what it has no room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsFile {
    /// One line per name and address.
    pub text: String,
    /// How many names were left out.
    pub left_out: usize,
}

/// The hosts file: one line per name and address, sorted by name, so that equal objects make equal
/// bytes. Ingresses whose address is not known yet, or whose name would be too long, are left out, and
/// once it has `most` octets whatever comes later.
pub fn hosts_file<'s>(
    tailnet: &Tailnet,
    sources: impl IntoIterator<Item = Source<'s>>,
    most: usize,
) -> HostsFile {
    let mut text = format!(
        "# Names of the tailnet {}, written by the controller.\n",
        tailnet.name
    );
    let mut lines: BTreeSet<(String, Ipv4Addr)> = BTreeSet::new();
    let mut room = most.saturating_sub(text.len());
    let mut left_out = 0;
    for (name, address) in sources
        .into_iter()
        .flat_map(|source| names(tailnet, source))
    {
        let line = (shown(&name), address);
        if lines.contains(&line) {
            continue;
        }
        match room.checked_sub(format!("{address} {}\n", line.0).len()) {
            Some(left) if left_out == 0 => {
                room = left;
                lines.insert(line);
            }
            _ => left_out += 1,
        }
    }
    for (name, address) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{address} {name}");
    }
    HostsFile { text, left_out }
}

fn names(tailnet: &Tailnet, source: Source<'_>) -> Vec<(DnsName, Ipv4Addr)> {
    match source {
        Source::Egress(egress) if egress.tailnet == tailnet.name => {
            let names = egress.dns_aliases.iter().cloned();
            names.map(|name| (name, egress.target)).collect()
        }
        Source::Ingress(ingress) if ingress.tailnet == tailnet.name => {
            let name = ingress_name(tailnet, ingress).zip(ingress.address);
            name.into_iter().collect()
        }
        Source::Egress(_) | Source::Ingress(_) => Vec::new(),
    }
}

fn ingress_name(tailnet: &Tailnet, ingress: &Ingress) -> Option<DnsName> {
    let namespace = ingress.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let text = tailnet
        .ingress_names
        .as_ref()?
        .replace("{namespace}", namespace)
        .replace("{name}", &ingress.name);
    DnsName::parse_host(&text).ok()
}

fn shown(name: &DnsName) -> String {
    let mut text = name.to_string();
    text.pop();
    text
}
