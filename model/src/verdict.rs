//! What the observations mean: the route truth per prefix, and the conditions.
//!
//! Reasons are stable and documented in docs/status.md; messages are for people and may change.

use std::collections::BTreeMap;

use ipnet::{IpNet, Ipv4Net};

use crate::plan::{LoginState, Observed};
use crate::report::{CheckReport, Condition, RouteTruth, Tri};
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
        let condition = tailnet_ready(facts.tailnet);
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

/// The conditions, in a fixed order, without transition times.
pub fn conditions(facts: &Facts<'_>) -> Vec<Condition> {
    vec![
        dns_ready(facts),
        tailnet_ready(facts.tailnet),
        routes_advertised(facts),
        kernel_ready(facts),
        condition(
            "SplitDNS",
            Tri::Unknown,
            "NotChecked",
            "what tailnet clients are told to ask is not compared yet",
        ),
    ]
}

fn dns_ready(facts: &Facts<'_>) -> Condition {
    let (status, reason, message) = if !facts.listening {
        (
            Tri::False,
            "NotListening",
            "the DNS sockets are not bound".to_owned(),
        )
    } else if facts.hosts == HostsState::Unread && facts.stale.is_empty() {
        (
            Tri::Unknown,
            "Starting",
            "the hosts file was not read yet".to_owned(),
        )
    } else if facts.hosts == HostsState::Unread {
        (Tri::False, "HostsUnread", facts.stale.join("; "))
    } else if facts.stale.is_empty() {
        (Tri::True, "Serving", "the zone is served".to_owned())
    } else {
        (Tri::True, "ServingLastGood", facts.stale.join("; "))
    };
    condition("DNSReady", status, reason, &message)
}

fn tailnet_ready(view: &TailnetView) -> Condition {
    let (status, reason, message) = match view {
        TailnetView::NotConfigured => (
            Tri::Unknown,
            "NotConfigured",
            "the config has neither routes nor tailnet.authKeyFile".to_owned(),
        ),
        TailnetView::Unseen => (
            Tri::Unknown,
            "Starting",
            "tailscaled was not asked yet".to_owned(),
        ),
        TailnetView::Unreachable(why) => (Tri::False, "Unreachable", why.clone()),
        TailnetView::Seen {
            observed,
            login,
            refused: _,
        } => {
            let health = || {
                if observed.health.is_empty() {
                    String::new()
                } else {
                    format!("; tailscaled says: {}", observed.health.join(" | "))
                }
            };
            match (observed.backend, login) {
                (Backend::Running, _) => (Tri::True, "Running", "tailscaled runs".to_owned()),
                (Backend::NeedsLogin, LoginState::NoKey) => (
                    Tri::False,
                    "NeedsLogin",
                    format!(
                        "tailscaled needs a login and there is no key to try: put a new pre-auth key into tailnet.authKeyFile{}",
                        health()
                    ),
                ),
                (Backend::NeedsLogin, LoginState::Refused) => (
                    Tri::False,
                    "LoginRefused",
                    format!(
                        "the control server refused the key of tailnet.authKeyFile: {}; put a new pre-auth key there",
                        observed.login_error.as_deref().unwrap_or_default()
                    ),
                ),
                (Backend::NeedsLogin, LoginState::Tried) => (
                    Tri::False,
                    "LoginPending",
                    format!(
                        "a login was asked for with the key of tailnet.authKeyFile and is not through yet{}",
                        health()
                    ),
                ),
                (Backend::NeedsLogin, _) => (
                    Tri::False,
                    "NeedsLogin",
                    "tailscaled needs a login; it is asked for now".to_owned(),
                ),
                (Backend::Stopped, _) => (
                    Tri::False,
                    "Stopped",
                    "tailscaled was told to stop; run: tailscale up".to_owned(),
                ),
                (Backend::NeedsMachineAuth, _) => (
                    Tri::False,
                    "NeedsApproval",
                    "the control server waits for an administrator to approve this machine"
                        .to_owned(),
                ),
                (Backend::InUseOtherUser, _) => (
                    Tri::False,
                    "InUse",
                    "another user of this host owns tailscaled".to_owned(),
                ),
                (Backend::Starting, _) => (
                    Tri::False,
                    "Starting",
                    format!("tailscaled is connecting{}", health()),
                ),
                (Backend::NoState, _) => (
                    Tri::False,
                    "NoState",
                    format!(
                        "tailscaled has no state yet: the control server or its state store was not reached{}",
                        health()
                    ),
                ),
            }
        }
    };
    condition("TailnetReady", status, reason, &message)
}

fn routes_advertised(facts: &Facts<'_>) -> Condition {
    let Some(wanted) = facts.wanted else {
        return condition(
            "RoutesAdvertised",
            Tri::Unknown,
            "NotConfigured",
            "the config has no routes section",
        );
    };
    let truths = routes(facts);
    let missing: Vec<&str> = truths
        .iter()
        .filter(|truth| truth.wanted && !truth.advertised)
        .map(|truth| truth.prefix.as_str())
        .collect();
    if let TailnetView::Seen {
        refused: Some(why), ..
    } = facts.tailnet
        && !missing.is_empty()
    {
        return condition("RoutesAdvertised", Tri::False, "Refused", why);
    }
    if missing.is_empty() {
        let message = format!("{} of {} prefixes advertised", wanted.len(), wanted.len());
        return condition("RoutesAdvertised", Tri::True, "Advertised", &message);
    }
    let tailnet = tailnet_ready(facts.tailnet);
    let reason = if tailnet.status == Tri::True {
        "NotAdvertised".to_owned()
    } else {
        format!("Tailnet{}", tailnet.reason)
    };
    let message = format!(
        "{} of {} prefixes are not advertised: {}",
        missing.len(),
        wanted.len(),
        missing.join(", ")
    );
    condition("RoutesAdvertised", Tri::False, &reason, &message)
}

fn kernel_ready(facts: &Facts<'_>) -> Condition {
    let Some(checks) = facts.kernel else {
        return condition(
            "KernelReady",
            Tri::Unknown,
            "NotRead",
            "the kernel's state was not read yet",
        );
    };
    let failed: Vec<&CheckReport> = checks
        .iter()
        .filter(|check| check.status == Tri::False)
        .collect();
    match failed.first() {
        None => condition(
            "KernelReady",
            Tri::True,
            "ChecksPassed",
            "every kernel check that can be read passes",
        ),
        Some(first) => {
            let rest: Vec<&str> = failed
                .iter()
                .skip(1)
                .map(|check| check.name.as_str())
                .collect();
            let mut message = format!("{}: {}", first.name, first.message);
            if !rest.is_empty() {
                message.push_str(&format!("; failing as well: {}", rest.join(", ")));
            }
            condition("KernelReady", Tri::False, &first.reason, &message)
        }
    }
}

fn running(view: &TailnetView) -> bool {
    matches!(view, TailnetView::Seen { observed, .. } if observed.backend == Backend::Running)
}

fn condition(kind: &str, status: Tri, reason: &str, message: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: String::new(),
    }
}

#[cfg(test)]
mod tests;
