//! The route truth: wanted, advertised, approved, served.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::super::names::{condition, reason};
use super::super::policy;
use super::super::snapshot::{Control, Snapshot, v4};
use super::{Said, Truth};
use crate::crd::RouteStatus;
use crate::headscale::Node;

/// Entries of `status.routes` at most, as in the schema.
const MAX_ROUTES: usize = 4096;
/// Octets of the prefixes in a command. A message ends at 32,768, and a command without its end, run as it
/// stands, takes approvals away.
const LONGEST_COMMAND: usize = 12_288;

/// Every prefix that is wanted, advertised or approved.
pub(super) fn of(snapshot: &Snapshot) -> Vec<RouteStatus> {
    let wanted: BTreeSet<IpNet> = snapshot.spec.wanted().iter().copied().map(v4).collect();
    let Some(nodes) = snapshot.nodes() else {
        return without_headscale(snapshot, &wanted);
    };
    let node = snapshot.node();
    let no_prefixes = BTreeSet::new();
    let (advertised, approved) = node.map_or((&no_prefixes, &no_prefixes), |node| {
        (&node.advertised, &node.approved)
    });
    let all: BTreeSet<IpNet> = wanted
        .iter()
        .chain(advertised)
        .chain(approved)
        .copied()
        .collect();
    all.into_iter()
        .take(MAX_ROUTES)
        .map(|prefix| {
            let server = nodes.iter().find(|node| node.serving.contains(&prefix));
            RouteStatus {
                prefix: prefix.to_string(),
                wanted: wanted.contains(&prefix),
                advertised: advertised.contains(&prefix),
                approved: approved.contains(&prefix),
                serving: node.is_some_and(|node| node.serving.contains(&prefix)),
                served_by: server.map(|node: &Node| node.given_name.clone()),
            }
        })
        .collect()
}

/// What was last known, with what the agent says of advertising.
fn without_headscale(snapshot: &Snapshot, wanted: &BTreeSet<IpNet>) -> Vec<RouteStatus> {
    let before = &snapshot.subject.before.routes;
    let report = snapshot.report();
    wanted
        .iter()
        .map(|prefix| {
            let prefix = prefix.to_string();
            let old = before.iter().find(|route| route.prefix == prefix);
            let seen = report.and_then(|report| {
                let truth = report.routes.iter().find(|truth| truth.prefix == prefix)?;
                Some(truth.advertised)
            });
            RouteStatus {
                wanted: true,
                advertised: seen.or(old.map(|old| old.advertised)).unwrap_or(false),
                approved: old.is_some_and(|old| old.approved),
                serving: old.is_some_and(|old| old.serving),
                served_by: old.and_then(|old| old.served_by.clone()),
                prefix,
            }
        })
        .collect()
}

/// `RoutesInSync`: the first step that fails for some prefix.
pub(super) fn in_sync(snapshot: &Snapshot, routes: &[RouteStatus]) -> Said {
    let say = |status, reason: &str, message: String| {
        Said::new(condition::ROUTES_IN_SYNC, status, reason, message)
    };
    if let Control::Unreachable(why) = &snapshot.control {
        return say(
            Truth::Unknown,
            reason::HEADSCALE_UNREACHABLE,
            format!("Headscale cannot be asked: {why}"),
        );
    }
    if snapshot.nodes().is_none() {
        return say(
            Truth::Unknown,
            reason::TAILNET_NOT_FOUND,
            "without a Tailnet and its API key nobody knows".to_owned(),
        );
    }
    let which = |pick: &dyn Fn(&RouteStatus) -> bool| {
        let picked: Vec<&str> = routes
            .iter()
            .filter(|route| pick(route))
            .map(|route| route.prefix.as_str())
            .collect();
        (!picked.is_empty()).then(|| picked.join(", "))
    };
    if let Some(prefixes) = which(&|route| route.wanted && !route.advertised) {
        return say(
            Truth::False,
            reason::NOT_ADVERTISED,
            format!(
                "the node does not advertise {prefixes}{}",
                why_not(snapshot)
            ),
        );
    }
    if let Some(prefixes) = which(&|route| !route.wanted && route.advertised) {
        return say(
            Truth::False,
            reason::UNWANTED_ADVERTISED,
            format!("the node advertises {prefixes}, which nobody asks for"),
        );
    }
    if let Some(prefixes) = which(&|route| route.wanted && !route.approved) {
        return say(
            Truth::False,
            reason::PENDING_APPROVAL,
            pending(snapshot, routes, &prefixes),
        );
    }
    if let Some(prefixes) = which(&|route| route.wanted && route.served_by.is_none()) {
        return say(
            Truth::False,
            reason::NOT_SERVING,
            format!("{prefixes}: approved, and no node serves it; is this node online?"),
        );
    }
    say(
        Truth::True,
        reason::APPROVED,
        "every wanted prefix is advertised, approved, and served by a node".to_owned(),
    )
}

/// What the agent says about a prefix that is not advertised.
fn why_not(snapshot: &Snapshot) -> String {
    let Some(report) = snapshot.report() else {
        return String::new();
    };
    let truth = report
        .routes
        .iter()
        .find(|truth| truth.wanted && !truth.advertised);
    truth.map_or_else(String::new, |truth| {
        format!(" ({}: {})", truth.reason, truth.message)
    })
}

fn pending(snapshot: &Snapshot, routes: &[RouteStatus], prefixes: &str) -> String {
    let by_hand = match snapshot.node() {
        // What the command names replaces what is approved.
        Some(node) => {
            let all: Vec<&str> = routes
                .iter()
                .filter(|route| route.wanted || route.approved)
                .map(|route| route.prefix.as_str())
                .collect();
            let all = all.join(",");
            if all.len() > LONGEST_COMMAND {
                return format!(
                    "{} prefixes are not approved, more than a command has room for here; let the policy approve them (autoApprovers), or approve all in one request: each replaces what was approved",
                    prefixes.split(", ").count()
                );
            }
            format!(
                "{prefixes}: not approved; by hand (headscale nodes approve-routes --identifier {} --routes {all})",
                node.id,
            )
        }
        None => format!("{prefixes}: not approved"),
    };
    let Some(gateway) = snapshot.spec.gateway() else {
        return by_hand;
    };
    let lines = snapshot
        .policy
        .as_ref()
        .zip(snapshot.tailnet.as_ref())
        .and_then(|(current, tailnet)| {
            let need = policy::Need::of(gateway, tailnet, snapshot.spec.wanted());
            policy::missing(current, &[need])
        });
    match lines {
        Some(lines) => format!("{by_hand}; by itself, once the policy has {lines}"),
        None => by_hand,
    }
}
