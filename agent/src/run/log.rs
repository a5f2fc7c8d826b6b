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
    for condition in after {
        let old = before.iter().find(|old| old.kind == condition.kind);
        if old.is_some_and(|old| old.status == condition.status && old.reason == condition.reason) {
            continue;
        }
        let Condition {
            kind,
            status,
            reason,
            message,
            last_transition_time: _,
        } = condition;
        match status {
            // What follows from another condition is not said twice.
            Tri::False if reason.starts_with("Tailnet") => {
                tracing::debug!(condition = %kind, %reason, "{message}");
            }
            Tri::False => tracing::warn!(condition = %kind, %reason, "{message}"),
            Tri::True => tracing::info!(condition = %kind, %reason, "{message}"),
            Tri::Unknown => tracing::debug!(condition = %kind, %reason, "{message}"),
        }
    }
}

/// The first digits of a content hash.
pub(super) fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
