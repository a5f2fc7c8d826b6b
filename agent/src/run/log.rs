//! What the loop says of events that a person would want to know.

use tsunaro_model::plan::{Action, mending_command};
use tsunaro_model::report::{Condition, Tri};
use tsunaro_model::tailnet::Prefs;

/// The end of a write to tailscaled.
pub(super) fn applied(action: &Action, result: &Result<Option<Prefs>, String>) {
    match (action, result) {
        (Action::SetRoutes(routes), Ok(_)) if routes.is_empty() => {
            tracing::info!("Routes withdrawn");
        }
        (Action::SetRoutes(routes), Ok(_)) => {
            let list: Vec<String> = routes.iter().map(ToString::to_string).collect();
            tracing::info!(routes = %list.join(", "), "Advertised routes set");
        }
        (Action::MendPrefs(change), Ok(_)) => {
            let command = mending_command(change);
            tracing::info!(%command, "Prefs that do not fit a gateway were put right");
        }
        (Action::LogIn(_), Ok(_)) => {
            tracing::info!("Asked tailscaled to log in with the key of tailnet.authKeyFile");
        }
        (Action::LogInAgain(_), Ok(_)) => {
            tracing::info!(
                "Asked tailscaled to log in again with the new key of tailnet.authKeyFile"
            );
        }
        (_, Err(error)) => tracing::error!(%error, "Tailscaled refused a change"),
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
