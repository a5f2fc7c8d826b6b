//! Conditions of what is said whole at once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::crd;

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
