//! What is said about a network at a site: whether nodes with the right tags advertise it, with
//! approval, and carry its traffic.

use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv4Net};
use tsunaro_model::gateway::{Site, Tailnet};

use super::names::{condition, reason};
use crate::headscale::{Node, NodeList};

/// One condition in words; the first is true if the second names no fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteSaid {
    /// Its type.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// The conditions of a site.
pub fn judge_site(
    site: &Site,
    tailnet: &Tailnet,
    nodes: Result<&NodeList, &str>,
    overlap: Option<&str>,
) -> [SiteSaid; 3] {
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(why) => {
            return [condition::ADVERTISED, condition::APPROVED, condition::READY].map(|kind| {
                let message = format!("Headscale cannot be asked: {why}");
                said(kind, "Unknown", reason::HEADSCALE_UNREACHABLE, message)
            });
        }
    };
    let tags: BTreeSet<&String> = match site.advertised_by.as_slice() {
        [] => tailnet.route_approvers.iter().collect(),
        tags => tags.iter().collect(),
    };
    let lacks = |routes: fn(&Node) -> &BTreeSet<IpNet>| -> Option<String> {
        let lacking: Vec<String> = site
            .prefixes
            .iter()
            .filter(|prefix| {
                !nodes
                    .iter()
                    .filter(|node| {
                        tags.is_empty() || node.tags.iter().any(|tag| tags.contains(tag))
                    })
                    .any(|node| covers(routes(node), **prefix))
            })
            .map(ToString::to_string)
            .collect();
        (!lacking.is_empty()).then(|| lacking.join(", "))
    };
    let who = if tags.is_empty() {
        "no node".to_owned()
    } else {
        let tags: Vec<&str> = tags.iter().map(|tag| tag.as_str()).collect();
        format!("no node with {}", tags.join(" or "))
    };
    let fault = |kind, lacking: Option<String>, reason, verb: &str| {
        lacking.map(|prefixes| said(kind, "False", reason, format!("{who} {verb} {prefixes}")))
    };
    let not_advertised = lacks(|node| &node.advertised);
    let advertised = fault(
        condition::ADVERTISED,
        not_advertised,
        reason::NOT_ADVERTISED,
        "advertises",
    );
    let approved = fault(
        condition::APPROVED,
        lacks(|node| &node.approved),
        reason::PENDING_APPROVAL,
        "is approved for",
    );
    let serving = fault(
        condition::READY,
        lacks(|node| &node.serving),
        reason::NOT_SERVING,
        "carries the traffic of",
    );
    let overlaps = overlap.map(|other| {
        let message = format!("{other}; give each site prefixes of its own");
        said(condition::READY, "False", reason::OVERLAPS, message)
    });
    let ready = overlaps
        .or_else(|| advertised.clone())
        .or_else(|| approved.clone())
        .or(serving)
        .map(|fault| SiteSaid {
            kind: condition::READY,
            ..fault
        });
    let or = |fault: Option<SiteSaid>, kind, reason, message: &str| {
        fault.unwrap_or_else(|| said(kind, "True", reason, message.to_owned()))
    };
    [
        or(
            advertised,
            condition::ADVERTISED,
            reason::ADVERTISED,
            "every prefix is advertised",
        ),
        or(
            approved,
            condition::APPROVED,
            reason::APPROVED,
            "every prefix is approved",
        ),
        or(
            ready,
            condition::READY,
            reason::READY,
            "every prefix is advertised, approved, and served by a node",
        ),
    ]
}

fn covers(routes: &BTreeSet<IpNet>, prefix: Ipv4Net) -> bool {
    routes.iter().any(|route| match route {
        IpNet::V4(route) => route.contains(&prefix),
        IpNet::V6(_) => false,
    })
}

fn said(
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
) -> SiteSaid {
    SiteSaid {
        kind,
        status,
        reason,
        message,
    }
}

#[cfg(test)]
mod tests;
