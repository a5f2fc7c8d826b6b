//! The hosts file of a tailnet, from egress aliases and ingress names.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use super::{Egress, Ingress, Tailnet};
use crate::name::DnsName;

/// Where namespaced objects live that name no namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// The hosts file: one line per name and address, sorted by name, so that equal objects make equal
/// bytes. Ingresses whose address is not known yet, or whose name would be too long, are left out.
pub fn hosts_file(tailnet: &Tailnet, egresses: &[Egress], ingresses: &[Ingress]) -> String {
    let aliases = egresses
        .iter()
        .filter(|egress| egress.tailnet == tailnet.name)
        .flat_map(|egress| {
            let names = egress.dns_aliases.iter().cloned();
            names.map(|name| (name, egress.target))
        });
    let names = ingresses
        .iter()
        .filter(|ingress| ingress.tailnet == tailnet.name)
        .filter_map(|ingress| Some((ingress_name(tailnet, ingress)?, ingress.address?)));
    let lines: BTreeSet<(String, Ipv4Addr)> = aliases
        .chain(names)
        .map(|(name, address)| (shown(&name), address))
        .collect();
    let mut file = format!(
        "# Names of the tailnet {}, written by the controller.\n",
        tailnet.name
    );
    for (name, address) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(file, "{address} {name}");
    }
    file
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
