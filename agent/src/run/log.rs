//! What the loop says of events that a person would want to know.

use ipnet::Ipv4Net;
use tsunaro_model::plan::{Action, Refusal, mending_command};
use tsunaro_model::report::{Condition, Tri};
use tsunaro_model::tailnet::Prefs;

/// Prefixes that a line names at most.
const MAX_NAMED: usize = 32;

/// What came of a write.
pub(super) enum Outcome {
    Taken,
    Refused(String),
    /// In the same words as the last time.
    RefusedAgain(String),
}

impl Outcome {
    pub(super) fn of(result: &Result<Option<Prefs>, Refusal>, before: Option<&Refusal>) -> Self {
        match result {
            Ok(_) => Self::Taken,
            Err(refusal) if Some(refusal) == before => Self::RefusedAgain(refusal.why.clone()),
            Err(refusal) => Self::Refused(refusal.why.clone()),
        }
    }
}

/// The end of a write to tailscaled; `healed` tells that it undid another writer's change.
pub(super) fn applied(action: &Action, outcome: &Outcome, healed: bool) {
    match (action, outcome) {
        (Action::SetRoutes(routes), Outcome::Taken) if healed => {
            tracing::warn!(
                routes = %some(routes),
                "Another writer changed the advertised routes; they were put right"
            );
        }
        (Action::SetRoutes(routes), Outcome::Taken) if routes.is_empty() => {
            tracing::info!("Routes withdrawn");
        }
        (Action::SetRoutes(routes), Outcome::Taken) => {
            tracing::info!(count = routes.len(), routes = %some(routes), "Advertised routes set");
        }
        (Action::MendPrefs(change), Outcome::Taken) => {
            let command = mending_command(change);
            tracing::info!(%command, "Prefs that do not fit a gateway were put right");
        }
        (Action::LogIn(_), Outcome::Taken) => {
            tracing::info!("Asked tailscaled to log in with the key of tailnet.authKeyFile");
        }
        (Action::LogInAgain(_), Outcome::Taken) => {
            tracing::info!(
                "Asked tailscaled to log in again with the new key of tailnet.authKeyFile"
            );
        }
        (_, Outcome::Refused(error)) => tracing::error!(%error, "Tailscaled refused a change"),
        (_, Outcome::RefusedAgain(error)) => tracing::debug!(%error, "Tailscaled refused it again"),
    }
}

/// The first prefixes, and how many more there are.
pub(super) fn some(routes: &[Ipv4Net]) -> String {
    let first: Vec<String> = routes
        .iter()
        .take(MAX_NAMED)
        .map(ToString::to_string)
        .collect();
    match routes.len().saturating_sub(MAX_NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Conditions that changed in status or reason.
pub(super) fn transitions(before: &[Condition], after: &[Condition]) {
    let find =
        |conditions: &[Condition], kind: &str| conditions.iter().find(|c| c.kind == kind).cloned();
    let runs = |conditions| find(conditions, "TailnetReady").is_some_and(|c| c.status == Tri::True);
    for condition in after {
        let Condition {
            kind,
            status,
            reason,
            message,
            last_transition_time: _,
        } = condition;
        let old = find(before, kind);
        let same = old.is_some_and(|old| old.status == *status && old.reason == *reason);
        // Without a running tailscaled the kernel cannot be ready either: that is told later, if
        // it is still so then.
        let follows = kind == "KernelReady" && !runs(after) || reason.starts_with("Tailnet");
        let postponed = kind == "KernelReady" && runs(after) && !runs(before);
        if same && !postponed {
            continue;
        }
        match status {
            Tri::False if follows => tracing::debug!(condition = %kind, %reason, "{message}"),
            Tri::False => tracing::warn!(condition = %kind, %reason, "{message}"),
            Tri::True if reason == "ServingLastGood" => {
                tracing::warn!(condition = %kind, %reason, "{message}");
            }
            Tri::True => tracing::info!(condition = %kind, %reason, "{message}"),
            Tri::Unknown => tracing::debug!(condition = %kind, %reason, "{message}"),
        }
    }
}

/// The first digits of a content hash.
pub(super) fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
