//! The rules of the schemas in CEL, all at the root: a rule at an optional field is skipped when the
//! field is removed, and so can be got round in two steps.
//!
//! Every rule has a twin in `tsunaro_model::gateway`; a table of manifests is run through both.
//! What would cost too much here (conflicts between records, keys of labels) is said by that
//! validation alone.

mod common;
mod gateway;
mod others;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

/// The rules of one kind.
pub(super) fn of_kind(kind: &str) -> Vec<ValidationRule> {
    let rules = match kind {
        "TailnetGateway" => gateway::rules(),
        "Tailnet" => others::tailnet(),
        "TailnetEgress" => others::egress(),
        "TailnetIngress" => others::ingress(),
        "TailnetSite" => others::site(),
        _ => Vec::new(),
    };
    rules.into_iter().map(Rule::into_kubernetes).collect()
}

/// One rule, with the field that it is about.
#[derive(Debug, Clone)]
struct Rule {
    /// Path from the root, as in `.spec.image`.
    field: &'static str,
    cel: String,
    /// Names the field and the fix.
    message: String,
}

fn rule(field: &'static str, cel: impl Into<String>, message: impl Into<String>) -> Rule {
    Rule {
        field,
        cel: cel.into(),
        message: message.into(),
    }
}

/// A rule for an optional field: true without it.
fn optional(field: &'static str, cel: &str, message: impl Into<String>) -> Rule {
    rule(
        field,
        format!("!has({}) || {cel}", common::value(field)),
        message,
    )
}

impl Rule {
    fn into_kubernetes(self) -> ValidationRule {
        let Self {
            field,
            cel,
            message,
        } = self;
        ValidationRule {
            rule: cel,
            message: Some(message),
            field_path: (!field.is_empty()).then(|| field.to_owned()),
            ..ValidationRule::default()
        }
    }
}
