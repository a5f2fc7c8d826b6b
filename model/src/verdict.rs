//! What the observations mean: the route truth per prefix, and the conditions.
//!
//! Reasons are stable and documented in docs/status.md; messages are for people and may change.

mod conditions;
pub mod kernel;
pub mod steady;

use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv4Net};

pub use conditions::conditions;
use kernel::KernelReport;

use crate::config::RefusedRoute;
use crate::kernel::checks::CheckName;
use crate::plan::{LoginState, Observed, Refusal};
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
        refused: Option<Refusal>,
        /// Another writer keeps changing the advertised routes.
        foreign_routes: bool,
        /// It came back from a restart with older routes than it had.
        unsaved: bool,
        /// It runs without the control server.
        offline: bool,
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
    /// What cannot be advertised of what the config asks for.
    pub refused: &'a [RefusedRoute],
    /// The config asks for masquerading.
    pub snat: bool,
    /// Upstreams that are this gateway itself, as remarks.
    pub loops: &'a [String],
    /// What clients of the tailnet are told to ask.
    pub split_dns: &'a SplitDns,
    /// Listening addresses that did not answer the agent's own question, with the reason.
    pub deaf: &'a [String],
    /// Kernel checks; None while the kernel was not read.
    pub kernel: Option<&'a KernelReport>,
}

/// The route truth: one entry per prefix that is wanted or advertised, sorted; last what is wanted
/// but cannot be advertised.
pub fn routes(facts: &Facts<'_>) -> Vec<RouteTruth> {
    let Some(wanted) = facts.wanted else {
        return Vec::new();
    };
    let advertised: &[IpNet] = match facts.tailnet {
        TailnetView::Seen { observed, .. } => &observed.prefs.advertise_routes,
        _ => &[],
    };
    let wanted_set: BTreeSet<IpNet> = wanted.iter().copied().map(IpNet::V4).collect();
    let advertised_set: BTreeSet<IpNet> = advertised.iter().copied().collect();
    let context = Context::new(facts);
    let mut truths: Vec<RouteTruth> = wanted
        .iter()
        .map(|prefix| {
            let is_advertised = context.running && advertised_set.contains(&IpNet::V4(*prefix));
            context.truth(*prefix, is_advertised)
        })
        .collect();
    let foreign = advertised_set.difference(&wanted_set);
    truths.extend(foreign.map(|prefix| RouteTruth {
        prefix: prefix.to_string(),
        wanted: false,
        advertised: true,
        kernel: Tri::Unknown,
        path: None,
        reason: "NotWanted".to_owned(),
        message: "advertised although the config does not ask for it; it is withdrawn with the next write".to_owned(),
    }));
    truths.extend(facts.refused.iter().map(|refused| RouteTruth {
        prefix: refused.text.clone(),
        wanted: true,
        advertised: false,
        kernel: Tri::Unknown,
        path: None,
        reason: "Unroutable".to_owned(),
        message: refused.why.clone(),
    }));
    truths
}

/// What is the same for every prefix.
struct Context<'a> {
    kernel: Option<&'a KernelReport>,
    forwarding: Option<&'a CheckReport>,
    running: bool,
    /// Reason and message of a prefix that is not advertised.
    absent: (String, String),
}

impl<'a> Context<'a> {
    fn new(facts: &Facts<'a>) -> Self {
        let condition = conditions::tailnet_ready(facts);
        let absent = if condition.status == Tri::True {
            (
                "NotAdvertised".to_owned(),
                "tailscaled does not advertise it yet; it is set within a second".to_owned(),
            )
        } else {
            (condition.reason, condition.message)
        };
        let forwarding = facts.kernel.and_then(|kernel| {
            let mut checks = kernel.checks.iter();
            checks.find(|check| check.name == CheckName::Ipv4Forwarding.as_str())
        });
        Self {
            kernel: facts.kernel,
            forwarding,
            running: running(facts.tailnet),
            absent,
        }
    }

    fn truth(&self, prefix: Ipv4Net, advertised: bool) -> RouteTruth {
        let path = self.kernel.and_then(|kernel| kernel.paths.get(&prefix));
        let failed = [self.forwarding, path]
            .into_iter()
            .flatten()
            .find(|check| check.status == Tri::False);
        let kernel = match (failed, self.forwarding, path) {
            (Some(_), _, _) => Tri::False,
            (None, Some(_), Some(_)) => Tri::True,
            _ => Tri::Unknown,
        };
        let (reason, message) = if !advertised {
            self.absent.clone()
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
                "advertised, and the kernel forwards to it; approval is the control server's to \
                 tell: headscale nodes list-routes"
                    .to_owned(),
            )
        };
        let way = self.kernel.and_then(|kernel| kernel.ways.get(&prefix));
        RouteTruth {
            prefix: prefix.to_string(),
            wanted: true,
            advertised,
            kernel,
            path: way.cloned(),
            reason,
            message,
        }
    }
}

fn running(view: &TailnetView) -> bool {
    matches!(view, TailnetView::Seen { observed, .. } if observed.backend == Backend::Running)
}

#[cfg(test)]
mod tests;
