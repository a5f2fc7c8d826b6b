//! What the observations mean: the route truth per prefix, and the conditions.
//!
//! Reasons are stable and documented in docs/status.md; messages are for people and may change.

mod conditions;

use std::collections::BTreeMap;

use ipnet::{IpNet, Ipv4Net};

pub use conditions::conditions;

use crate::plan::{LoginState, Observed};
use crate::report::{CheckReport, RouteTruth, Tri};
use crate::split_dns::SplitDns;
use crate::tailnet::Backend;
use crate::zone::HostsState;

/// How tailscaled appears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailnetView {
    /// The config asks nothing of it.
    NotConfigured,
    /// It was not asked yet.
    Unseen,
    /// It cannot be reached, for this reason (with the fix).
    Unreachable(String),
    /// It answers.
    Seen {
        /// State, prefs, health.
        observed: Box<Observed>,
        /// Where the login stands.
        login: LoginState,
        /// The last write that it refused, with the reason.
        refused: Option<String>,
        /// Another writer keeps changing the advertised routes.
        foreign_routes: bool,
    },
}

/// Everything the verdict depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts<'a> {
    /// All DNS sockets are bound.
    pub listening: bool,
    /// Whether dynamic names are known.
    pub hosts: HostsState,
    /// Why the newest config or hosts content is not in use.
    pub stale: Vec<String>,
    /// tailscaled.
    pub tailnet: &'a TailnetView,
    /// The set to advertise; None when routes are not configured.
    pub wanted: Option<&'a [Ipv4Net]>,
    /// What clients of the tailnet are told to ask.
    pub split_dns: &'a SplitDns,
    /// Listening addresses that did not answer the agent's own question, with the reason.
    pub deaf: &'a [String],
    /// Kernel checks; None while the kernel was not read.
    pub kernel: Option<&'a [CheckReport]>,
    /// Of these, the check of the path to each wanted prefix.
    pub paths: &'a BTreeMap<Ipv4Net, CheckReport>,
}

/// The route truth: one entry per prefix that is wanted or advertised, sorted.
pub fn routes(facts: &Facts<'_>) -> Vec<RouteTruth> {
    let Some(wanted) = facts.wanted else {
        return Vec::new();
    };
    let advertised: &[IpNet] = match facts.tailnet {
        TailnetView::Seen { observed, .. } => &observed.prefs.advertise_routes,
        _ => &[],
    };
    let foreign = advertised
        .iter()
        .filter(|net| !matches!(net, IpNet::V4(v4) if wanted.contains(v4)));
    let mut truths: Vec<RouteTruth> = wanted
        .iter()
        .map(|prefix| truth(*prefix, facts, advertised))
        .collect();
    truths.extend(foreign.map(|prefix| RouteTruth {
        prefix: prefix.to_string(),
        wanted: false,
        advertised: true,
        kernel: Tri::Unknown,
        reason: "NotWanted".to_owned(),
        message: "advertised although the config does not ask for it; it is withdrawn with the next write".to_owned(),
    }));
    truths
}

fn truth(prefix: Ipv4Net, facts: &Facts<'_>, advertised: &[IpNet]) -> RouteTruth {
    let is_advertised = running(facts.tailnet) && advertised.contains(&IpNet::V4(prefix));
    let forwarding = facts
        .kernel
        .and_then(|checks| checks.iter().find(|check| check.name == "Ipv4Forwarding"));
    let path = facts.paths.get(&prefix);
    let failed = [forwarding, path]
        .into_iter()
        .flatten()
        .find(|check| check.status == Tri::False);
    let kernel = match (failed, forwarding, path) {
        (Some(_), _, _) => Tri::False,
        (None, Some(_), Some(_)) => Tri::True,
        _ => Tri::Unknown,
    };
    let (reason, message) = if !is_advertised {
        let condition = conditions::tailnet_ready(facts);
        if condition.status == Tri::True {
            (
                "NotAdvertised".to_owned(),
                "tailscaled does not advertise it yet; it is set within a second".to_owned(),
            )
        } else {
            (condition.reason, condition.message)
        }
    } else if let Some(check) = failed {
        (check.reason.clone(), check.message.clone())
    } else if kernel == Tri::Unknown {
        (
            "KernelUnknown".to_owned(),
            "advertised; the kernel's side was not seen yet".to_owned(),
        )
    } else {
        (
            "Carried".to_owned(),
            "advertised, and the kernel forwards to it".to_owned(),
        )
    };
    RouteTruth {
        prefix: prefix.to_string(),
        wanted: true,
        advertised: is_advertised,
        kernel,
        reason,
        message,
    }
}

fn running(view: &TailnetView) -> bool {
    matches!(view, TailnetView::Seen { observed, .. } if observed.backend == Backend::Running)
}

#[cfg(test)]
mod tests;
