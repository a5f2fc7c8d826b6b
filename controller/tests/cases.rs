//! One table of manifests, run through the validation of `check` and through the schema with its CEL
//! rules: the two agree. The same table is for a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

mod support;

use serde_json::Value;
use support::schema::{self, Refusal};
use support::table::{By, Table};
use tsunaro_model::finding::Finding;
use tsunaro_model::gateway::{Gateway, Object, Parsed, changed_pinned_fields, parse};

fn ours(object: &Value) -> Parsed {
    parse(&object.to_string())
}

fn errors(parsed: &Parsed) -> Vec<&Finding> {
    parsed
        .findings
        .iter()
        .filter(|finding| finding.is_error())
        .collect()
}

fn gateway(object: &Value) -> Gateway {
    let mut parsed = ours(object);
    match parsed.objects.pop().map(|located| located.object) {
        Some(Object::Gateway(gateway)) => *gateway,
        other => panic!(
            "no gateway but {other:?} in {object}\n{:?}",
            parsed.findings
        ),
    }
}

#[test]
fn the_table_is_as_large_as_promised() {
    let table = Table::read();
    let forbidden = table
        .transitions
        .iter()
        .filter(|case| case.field.is_some())
        .count();
    assert!(
        table.refused.len() + forbidden >= 60,
        "{} and {forbidden}",
        table.refused.len()
    );
}

#[test]
fn our_validation_refuses_every_bad_manifest_and_names_the_field_and_the_fix() {
    let table = Table::read();
    for case in &table.refused {
        let parsed = ours(&table.object(case));
        let errors = errors(&parsed);
        let named = errors
            .iter()
            .any(|finding| finding.field.starts_with(&case.field) && !finding.fix.is_empty());
        assert!(
            named,
            "{}: no error names {}: {:?}",
            case.name, case.field, parsed.findings
        );
        assert!(parsed.objects.is_empty(), "{}", case.name);
    }
}

#[test]
fn the_schema_refuses_every_bad_manifest_in_the_way_that_the_table_says() {
    let table = Table::read();
    for case in &table.refused {
        let refusals = schema::check(&case.kind, &table.object(case), None);
        let rules: Vec<&str> = refusals.iter().filter_map(Refusal::as_rule).collect();
        let structural: Vec<&str> = refusals.iter().filter_map(Refusal::as_schema).collect();
        let name = &case.name;
        match case.refused_by {
            By::Rule => {
                assert!(
                    rules.iter().any(|message| message.starts_with(&case.field)),
                    "{name}: no rule names {}: {refusals:?}",
                    case.field
                );
                assert!(structural.is_empty(), "{name}: {structural:?}");
            }
            By::Schema => assert!(
                structural.iter().any(|path| path.starts_with(&case.field)),
                "{name}: the schema does not name {}: {refusals:?}",
                case.field
            ),
            By::Check => assert!(refusals.is_empty(), "{name}: {refusals:?}"),
        }
    }
}

#[test]
fn both_accept_every_good_manifest() {
    let table = Table::read();
    for case in &table.accepted {
        let object = table.object(case);
        let parsed = ours(&object);
        assert!(
            errors(&parsed).is_empty(),
            "{}: {:?}",
            case.name,
            parsed.findings
        );
        assert_eq!(parsed.objects.len(), 1, "{}", case.name);
        let refusals = schema::check(&case.kind, &object, None);
        assert!(refusals.is_empty(), "{}: {refusals:?}", case.name);
    }
}

#[test]
fn both_refuse_the_same_changes_of_a_pinned_gateway_and_none_of_an_unpinned_one() {
    let table = Table::read();
    for case in &table.transitions {
        let (live, wanted) = table.transition(case);
        let unpinned = Table::unpinned(&live);
        let changed = changed_pinned_fields(&gateway(&live), &gateway(&wanted));
        let refusals = schema::check("TailnetGateway", &wanted, Some(&live));
        let messages: Vec<&str> = refusals.iter().filter_map(Refusal::as_rule).collect();
        let name = &case.name;
        match &case.field {
            Some(field) => {
                assert_eq!(changed, [field.as_str()], "{name}");
                assert_eq!(messages.len(), 1, "{name}: {refusals:?}");
                assert!(
                    messages[0].starts_with(&format!("{field}: ")),
                    "{name}: {messages:?}"
                );
            }
            None => {
                assert!(changed.is_empty(), "{name}: {changed:?}");
                assert!(refusals.is_empty(), "{name}: {refusals:?}");
            }
        }
        assert!(
            changed_pinned_fields(&gateway(&unpinned), &gateway(&wanted)).is_empty(),
            "{name}"
        );
        assert!(
            schema::check("TailnetGateway", &wanted, Some(&unpinned)).is_empty(),
            "{name}"
        );
    }
}

#[test]
fn every_rule_refuses_at_least_one_manifest_of_the_table() {
    let table = Table::read();
    let mut seen = std::collections::BTreeSet::new();
    for case in &table.refused {
        let refusals = schema::check(&case.kind, &table.object(case), None);
        seen.extend(
            refusals
                .iter()
                .filter_map(Refusal::as_rule)
                .map(|message| (case.kind.clone(), message.to_owned())),
        );
    }
    for case in &table.transitions {
        let (live, wanted) = table.transition(case);
        let refusals = schema::check("TailnetGateway", &wanted, Some(&live));
        seen.extend(
            refusals
                .iter()
                .filter_map(Refusal::as_rule)
                .map(|message| ("TailnetGateway".to_owned(), message.to_owned())),
        );
    }
    // Names of references have one rule per kind, shown for the gateway.
    let unseen: Vec<_> = schema::all_rules()
        .into_iter()
        .filter(|(kind, message)| {
            kind == "TailnetGateway" && !seen.contains(&(kind.clone(), message.clone()))
        })
        .collect();
    assert!(unseen.is_empty(), "{unseen:#?}");
}
