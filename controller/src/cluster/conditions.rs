//! Conditions of what is said whole at once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::crd;
use crate::reconcile::names::reason;

/// Reasons that gateways and sites go through on their way, and that are a fault only where all was well.
const ON_THE_WAY: [&str; 11] = [
    reason::CREATING,
    reason::DELETING,
    reason::LB_PENDING,
    reason::NODE_OFFLINE,
    reason::NO_POD,
    reason::NOT_ADVERTISED,
    reason::NOT_SERVING,
    reason::PENDING_APPROVAL,
    reason::POD_NOT_READY,
    reason::REGISTERING,
    reason::SUSPENDED,
];

/// What a condition says, apart from its type.
#[derive(Debug, Clone)]
pub(super) struct State {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl State {
    pub(super) fn well(reason: &'static str, message: &str) -> Self {
        Self {
            status: "True",
            reason,
            message: message.to_owned(),
        }
    }

    pub(super) fn fault(reason: &'static str, message: String) -> Self {
        Self {
            status: "False",
            reason,
            message,
        }
    }

    pub(super) fn said<'k>(&self, kind: &'k str) -> (&'k str, &'static str, &'static str, String) {
        (kind, self.status, self.reason, self.message.clone())
    }
}

/// One line per transition of a condition.
pub(super) fn tell(kind: &str, name: &str, before: &[Condition], now: &[Condition]) {
    for said in now {
        let same = |old: &Condition| {
            (&old.type_, &old.status, &old.reason) == (&said.type_, &said.status, &said.reason)
        };
        if before.iter().any(same) {
            continue;
        }
        log(kind, name, said, is_fault(said, before));
    }
}

/// Whether somebody should look at it.
pub(super) fn is_fault(said: &Condition, before: &[Condition]) -> bool {
    let was_true = before
        .iter()
        .any(|old| old.type_ == said.type_ && old.status == "True");
    said.status == "False" && (was_true || !ON_THE_WAY.contains(&said.reason.as_str()))
}

/// A line of the log.
pub(super) fn log(kind: &str, name: &str, said: &Condition, is_fault: bool) {
    let Condition {
        type_: condition,
        status,
        reason,
        message,
        ..
    } = said;
    if is_fault {
        tracing::warn!(%kind, %name, %condition, %status, %reason, "{message}");
    } else {
        tracing::info!(%kind, %name, %condition, %status, %reason, "{message}");
    }
}

/// Type, status, reason and message as a condition, in its place after what was said before.
pub(super) fn dated(
    (kind, status, reason, message): (&str, &str, &str, String),
    before: &crd::Status,
    generation: Option<i64>,
) -> Condition {
    let old = before
        .conditions
        .iter()
        .find(|old| old.type_ == kind && old.status == status);
    // The API server keeps whole seconds; what is written must be what is read back.
    let now = k8s_openapi::jiff::Timestamp::from_second(jiff::Timestamp::now().as_second());
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: old.map_or_else(
            || Time(now.unwrap_or_default()),
            |old| old.last_transition_time.clone(),
        ),
    }
}
