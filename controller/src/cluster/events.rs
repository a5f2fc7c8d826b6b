//! Events: one per transition of a condition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};
use kube::{Resource, ResourceExt};

use super::failure::words;
use super::{Context, conditions};
use crate::crd::TailnetGateway;
use crate::reconcile::names::reason;

/// Longest note of an event (`events.k8s.io/v1`).
const MAX_NOTE: usize = 1024;

pub(super) async fn tell(
    context: &Context,
    gateway: &TailnetGateway,
    before: &[Condition],
    transitions: &[Condition],
) {
    for condition in transitions {
        // What is not ours to know is no news.
        if condition.reason == reason::EXTERNALLY_MANAGED {
            continue;
        }
        let is_fault = conditions::is_fault(condition, before);
        let type_ = if is_fault {
            EventType::Warning
        } else {
            EventType::Normal
        };
        let text = format!(
            "{}={}: {}",
            condition.type_, condition.status, condition.message
        );
        conditions::log("TailnetGateway", &gateway.name_any(), condition, is_fault);
        let note = note(&text);
        let event = Event {
            type_,
            reason: condition.reason.clone(),
            note: Some(note),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = context
            .recorder
            .publish(&event, &gateway.object_ref(&()))
            .await
        {
            tracing::warn!(error = %words(&error), "An event could not be written");
        }
    }
}

/// As much as a note may have, and no command without its end.
pub(crate) fn note(text: &str) -> String {
    const MORE: &str = " … (the condition has all of it)";
    if text.len() <= MAX_NOTE {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_NOTE - MORE.len());
    let head = text.get(..end).unwrap_or_default();
    let whole = match (head.rfind('('), head.rfind(')')) {
        (Some(open), close) if close.is_none_or(|close| close < open) => head.get(..open),
        _ => Some(head),
    };
    format!("{}{MORE}", whole.unwrap_or_default().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_a_command_whole_or_not_at_all() {
        let command = |count| {
            format!(
                "x: not approved; by hand (run {})",
                "192.0.2.0/24,".repeat(count)
            )
        };
        assert_eq!(note(&command(3)), command(3));
        let long = note(&command(100));
        assert_eq!(
            long,
            "x: not approved; by hand … (the condition has all of it)"
        );
        let after = format!("({}) {}", "a".repeat(100), "ü".repeat(1000));
        let cut = note(&after);
        assert!(cut.len() <= MAX_NOTE && cut.starts_with("(aaa") && cut.contains("aa) ü"));
    }
}
