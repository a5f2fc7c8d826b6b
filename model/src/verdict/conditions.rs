//! The conditions: summaries with a stable reason each.

use ipnet::Ipv4Net;

use super::kernel::{KernelReport, some};
use super::{Facts, TailnetView};
use crate::plan::{self, LoginState, Observed, Refusal, RefusalKind};
use crate::report::{CheckReport, Condition, RouteTruth, Tri};
use crate::split_dns::SplitDns;
use crate::tailnet::{Backend, HealthWarning};
use crate::zone::HostsState;

/// Prefixes in a command at most that a person is asked to run.
const MAX_IN_COMMAND: usize = 32;

/// The conditions, in a fixed order, without transition times, of facts and the route truth that
/// [`super::routes`] made of them.
pub fn conditions(facts: &Facts<'_>, truths: &[RouteTruth]) -> Vec<Condition> {
    vec![
        dns_ready(facts),
        tailnet_ready(facts),
        routes_advertised(facts, truths),
        kernel_ready(facts),
        split_dns(facts.split_dns),
    ]
}

fn dns_ready(facts: &Facts<'_>) -> Condition {
    let verdict = if !facts.listening {
        no("NotListening", "the DNS sockets are not bound".to_owned())
    } else if facts.hosts == HostsState::Unread && facts.stale.is_empty() {
        unknown("Starting", "the hosts file was not read yet")
    } else if facts.hosts == HostsState::Unread {
        no("HostsUnread", facts.stale.join("; "))
    } else if !facts.deaf.is_empty() {
        let message = format!(
            "our own question went unanswered: {}",
            facts.deaf.join("; ")
        );
        no("NotAnswering", message)
    } else if !facts.stale.is_empty() {
        yes("ServingLastGood", facts.stale.join("; "))
    } else if !facts.loops.is_empty() {
        yes("UpstreamIsItself", facts.loops.join("; "))
    } else {
        yes("Serving", "the zone is served".to_owned())
    };
    condition("DNSReady", verdict)
}

pub(super) fn tailnet_ready(facts: &Facts<'_>) -> Condition {
    let verdict = match facts.tailnet {
        TailnetView::NotConfigured => unknown(
            "NotConfigured",
            "the config has neither routes nor tailnet.authKeyFile",
        ),
        TailnetView::Unseen => unknown("Starting", "tailscaled was not asked yet"),
        TailnetView::Unreachable(why) => no("Unreachable", why.clone()),
        TailnetView::Seen {
            observed,
            login,
            refused,
            foreign_routes: _,
            unsaved,
            offline,
        } => match observed.backend {
            _ if store_failed(observed) => no("StateStoreFailed", store(observed)),
            Backend::Running => match unfit(observed, refused.as_ref(), facts) {
                Some(verdict) => verdict,
                None => running(observed, *unsaved, *offline),
            },
            Backend::NeedsLogin => match refused {
                Some(refused) => no(
                    refusal(refused),
                    format!(
                        "tailscaled needs a login and does not take it from us; after a logout restart tailscaled, so that it \
                         reads its config file again: {}",
                        refused.why
                    ),
                ),
                None => needs_login(observed, *login),
            },
            Backend::Stopped => stopped(refused.as_ref()),
            Backend::NeedsMachineAuth => {
                let message =
                    "the control server waits for an administrator to approve this machine";
                no("NeedsApproval", message.to_owned())
            }
            Backend::InUseOtherUser => no(
                "InUse",
                "another user of this host owns tailscaled".to_owned(),
            ),
            Backend::Starting => no(
                "Starting",
                format!("tailscaled is connecting{}", health(observed)),
            ),
            Backend::NoState => {
                let message = "tailscaled has no state yet: the control server or its state store was not reached";
                no("NoState", format!("{message}{}", health(observed)))
            }
        },
    };
    condition("TailnetReady", verdict)
}

/// Prefs that keep the node from being a gateway, if it is to be one.
fn unfit(observed: &Observed, refused: Option<&Refusal>, facts: &Facts<'_>) -> Option<Verdict> {
    facts.wanted?;
    let change = plan::mending(&observed.prefs, facts.snat)?;
    let command = plan::mending_command(&change);
    let why = refused
        .map(|refused| format!(" ({})", refused.why))
        .unwrap_or_default();
    let message = format!("tailscaled's prefs do not fit a gateway{why}; run: {command}");
    Some(no("PrefsDiffer", message))
}

fn running(observed: &Observed, unsaved: bool, offline: bool) -> Verdict {
    match (offline, unsaved) {
        (true, _) => {
            let message = "tailscaled runs, but the control server cannot be reached: traffic goes on, and peers \
                           learn of changes when it is back; see that the control server runs and that this host \
                           reaches it";
            yes(
                "ControlServerUnreachable",
                format!("{message}{}", health(observed)),
            )
        }
        (false, true) => {
            let message = "tailscaled runs, but came back from its last restart with older prefs: it cannot save its \
                           state, and loses every change with the next restart; make its --state writable, in \
                           Kubernetes let its Role get and update the state Secret, and look for WriteState in its log";
            yes("StateNotSaved", message.to_owned())
        }
        (false, false) => yes("Running", "tailscaled runs".to_owned()),
    }
}

/// The reason of a write that is not taken.
fn refusal(refused: &Refusal) -> &'static str {
    match refused.kind {
        RefusalKind::Locked => "ConfigLocked",
        RefusalKind::NotOperator => "NotOperator",
        RefusalKind::Other => "Refused",
    }
}

/// The state store could not be opened when tailscaled started.
fn store_failed(observed: &Observed) -> bool {
    let words = HealthWarning::STATE_STORE_WORDS;
    observed.health.iter().any(|text| text.starts_with(words))
}

fn store(observed: &Observed) -> String {
    format!(
        "tailscaled could not open its state store when it started and works with an empty one in memory, which \
         only a restart of tailscaled ends (the supervisor in the Pod does that); see that its --state can be \
         read, in Kubernetes that the API server answers and its Role may get and update the state Secret{}",
        health(observed)
    )
}

fn stopped(refused: Option<&Refusal>) -> Verdict {
    let why = refused
        .map(|refused| format!(" and does not let us start it ({})", refused.why))
        .unwrap_or_default();
    no(
        "Stopped",
        format!("tailscaled was told to stop{why}; run: tailscale up"),
    )
}

fn needs_login(observed: &Observed, login: LoginState) -> Verdict {
    match login {
        LoginState::Refused => {
            let error = observed.login_error.as_deref().unwrap_or_default();
            let message = format!(
                "the control server refused the key of tailnet.authKeyFile: {error}; put a new pre-auth key there"
            );
            no("LoginRefused", message)
        }
        LoginState::Expired => {
            let message = "the node is expired at the control server, which no key mends; an administrator can run \
                           `headscale nodes expire --identifier ID --disable`, or delete the node and put a new \
                           pre-auth key into tailnet.authKeyFile";
            no("NodeExpired", message.to_owned())
        }
        LoginState::NoKey => {
            let message = "tailscaled needs a login and there is no key to try: put a new pre-auth key into \
                           tailnet.authKeyFile";
            no("NeedsLogin", format!("{message}{}", health(observed)))
        }
        LoginState::Tried => {
            let message =
                "a login was asked for with the key of tailnet.authKeyFile and is not through yet";
            no("LoginPending", format!("{message}{}", health(observed)))
        }
        LoginState::Pending | LoginState::NotNeeded => no(
            "NeedsLogin",
            "tailscaled needs a login; it is asked for now".to_owned(),
        ),
    }
}

fn health(observed: &Observed) -> String {
    if observed.health.is_empty() {
        String::new()
    } else {
        format!("; tailscaled says: {}", observed.health.join(" | "))
    }
}

fn routes_advertised(facts: &Facts<'_>, truths: &[RouteTruth]) -> Condition {
    const KIND: &str = "RoutesAdvertised";
    let Some(wanted) = facts.wanted else {
        return condition(
            KIND,
            unknown("NotConfigured", "the config has no routes section"),
        );
    };
    let missing: Vec<&str> = truths
        .iter()
        .filter(|truth| truth.wanted && !truth.advertised)
        .map(|truth| truth.prefix.as_str())
        .collect();
    let all = wanted.len() + facts.refused.len();
    if let TailnetView::Seen {
        foreign_routes: true,
        ..
    } = facts.tailnet
    {
        let message = "another writer keeps changing the advertised routes; they are put right once a minute: find \
                       who runs `tailscale set --advertise-routes` or sets TS_ROUTES, and stop it";
        return condition(KIND, no("ForeignWriter", message.to_owned()));
    }
    if missing.is_empty() {
        let message = format!("{0} of {0} prefixes advertised", wanted.len());
        return condition(KIND, yes("Advertised", message));
    }
    if missing.len() == facts.refused.len() {
        let list: Vec<String> = facts
            .refused
            .iter()
            .map(|refused| format!("{}: {}", refused.text, refused.why))
            .collect();
        let message = format!(
            "{} of {all} entries cannot be advertised, the others are: {}",
            list.len(),
            some(&list)
        );
        return condition(KIND, no("Unroutable", message));
    }
    if let TailnetView::Seen {
        refused: Some(refused),
        ..
    } = facts.tailnet
        && super::running(facts.tailnet)
    {
        let command = set_command(wanted)
            .map(|command| format!("; or by hand: {command}"))
            .unwrap_or_default();
        let message = format!("{}{command}", refused.why);
        return condition(KIND, no(refusal(refused), message));
    }
    let message = format!(
        "{} of {all} prefixes are not advertised: {}",
        missing.len(),
        some(&missing)
    );
    let tailnet = tailnet_ready(facts);
    if tailnet.status == Tri::True {
        return condition(KIND, no("NotAdvertised", message));
    }
    condition(
        KIND,
        (Tri::False, format!("Tailnet{}", tailnet.reason), message),
    )
}

/// The command that does by hand what we may not; None where its line would be too long.
fn set_command(wanted: &[Ipv4Net]) -> Option<String> {
    let list: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    (list.len() <= MAX_IN_COMMAND)
        .then(|| format!("tailscale set --advertise-routes={}", list.join(",")))
}

fn kernel_ready(facts: &Facts<'_>) -> Condition {
    let Some(KernelReport { checks, .. }) = facts.kernel else {
        let message = match facts.wanted {
            Some(_) => "the kernel's state was not read yet",
            None => "no routes are configured, so the kernel is not looked at",
        };
        return condition("KernelReady", unknown("NotRead", message));
    };
    let failed: Vec<&CheckReport> = checks
        .iter()
        .filter(|check| check.status == Tri::False)
        .collect();
    let Some(first) = failed.first() else {
        let warnings: Vec<String> = checks
            .iter()
            .filter(|check| check.status == Tri::True && !check.message.is_empty())
            .map(|check| format!("{}: {}", check.name, check.message))
            .collect();
        let mut message = "every kernel check that can be read passes".to_owned();
        if !warnings.is_empty() {
            message = format!("{message}, with a warning: {}", warnings.join("; "));
        }
        return condition("KernelReady", yes("ChecksPassed", message));
    };
    let rest: Vec<&str> = failed
        .iter()
        .skip(1)
        .map(|check| check.name.as_str())
        .collect();
    let mut message = format!("{}: {}", first.name, first.message);
    if !rest.is_empty() {
        message = format!("{message}; failing as well: {}", rest.join(", "));
    }
    condition("KernelReady", (Tri::False, first.reason.clone(), message))
}

fn split_dns(found: &SplitDns) -> Condition {
    let verdict = match found {
        SplitDns::NotConfigured => unknown(
            "NotConfigured",
            "dns.addresses does not say where clients should ask",
        ),
        SplitDns::Unknown => unknown(
            "NoNetworkMap",
            "tailscaled has no network map to read it from",
        ),
        SplitDns::Distributed => yes(
            "Distributed",
            "clients of the tailnet are told to ask this gateway for its zones".to_owned(),
        ),
        SplitDns::NotDistributed { zones: _, lines } => {
            let message = format!(
                "clients of the tailnet are not told to ask this gateway; under dns.nameservers.split of Headscale's \
                 config write: {}",
                lines.join("; ")
            );
            no("NotDistributed", message)
        }
    };
    condition("SplitDNS", verdict)
}

/// Status, reason, message.
type Verdict = (Tri, String, String);

fn yes(reason: &str, message: String) -> Verdict {
    (Tri::True, reason.to_owned(), message)
}

fn no(reason: &str, message: String) -> Verdict {
    (Tri::False, reason.to_owned(), message)
}

fn unknown(reason: &str, message: &str) -> Verdict {
    (Tri::Unknown, reason.to_owned(), message.to_owned())
}

fn condition(kind: &str, (status, reason, message): Verdict) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status,
        reason,
        message,
        last_transition_time: String::new(),
    }
}
