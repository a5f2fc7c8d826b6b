//! Every manifest of the table through the API server and through our own validation.

use anyhow::{Result, ensure};
use serde_json::Value;
use tsunaro_model::finding::Finding;
use tsunaro_model::gateway::{Parsed, parse};

use crate::Named;
use crate::cluster::Cluster;
use crate::table::{By, Table};

pub(crate) const TESTS: &[Named] = &[
    (
        "what_the_api_server_refuses_our_validation_refuses_too_and_both_name_the_field",
        bad_manifests,
    ),
    (
        "what_our_validation_accepts_the_api_server_accepts_too",
        good_manifests,
    ),
];

/// Nothing is kept, so that each case is judged alone.
const DRY: &[&str] = &["--dry-run=server"];

fn bad_manifests(cluster: &Cluster) -> Result<()> {
    let table = Table::read();
    let objects: Vec<Value> = table
        .refused
        .iter()
        .map(|case| table.object(case))
        .collect();
    let applied = cluster.apply(DRY, &objects)?;
    let mut disagreements = Vec::new();
    let mut left_to_check = 0;
    for (index, (case, object)) in table.refused.iter().zip(&objects).enumerate() {
        let refusal = applied.refusal(index);
        let expected = match case.refused_by {
            // A rule's message begins with the field and goes on with the fix.
            By::Rule => refusal.contains(&format!("{}: ", case.field)),
            By::Schema => refusal.contains(&case.field),
            By::Check => {
                left_to_check += 1;
                refusal.is_empty()
            }
        };
        let ours = parse(&object.to_string());
        if !expected || !refuses(&ours, &case.field) {
            disagreements.push(format!(
                "{}: {refusal:?}, ours: {:?}",
                case.name, ours.findings
            ));
        }
    }
    ensure!(disagreements.is_empty(), "{disagreements:#?}");
    ensure!(
        applied.accepted() == left_to_check,
        "{left_to_check} cases are left to `check`:\n{}",
        applied.all()
    );
    ensure!(table.refused.len() >= 60, "{} cases", table.refused.len());
    Ok(())
}

/// Our own validation refuses it, names the field, and says what to do.
fn refuses(parsed: &Parsed, field: &str) -> bool {
    parsed.findings.iter().any(|finding| {
        finding.is_error() && finding.field.starts_with(field) && !finding.fix.is_empty()
    })
}

fn good_manifests(cluster: &Cluster) -> Result<()> {
    let table = Table::read();
    let objects: Vec<Value> = table
        .accepted
        .iter()
        .map(|case| table.object(case))
        .collect();
    let applied = cluster.apply(DRY, &objects)?;
    for (index, (case, object)) in table.accepted.iter().zip(&objects).enumerate() {
        let parsed = parse(&object.to_string());
        let errors: Vec<&Finding> = parsed.findings.iter().filter(|f| f.is_error()).collect();
        ensure!(errors.is_empty(), "{}: {errors:?}", case.name);
        let refusal = applied.refusal(index);
        ensure!(refusal.is_empty(), "{}: {refusal}", case.name);
    }
    ensure!(applied.accepted() == objects.len(), "{}", applied.all());
    Ok(())
}
