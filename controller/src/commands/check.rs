//! `check`: all findings, then a summary.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tsunaro_model::finding::{Finding, Severity};
use tsunaro_model::gateway::{Gateway, Located, Object, changed_pinned_fields};

use super::FINDINGS;
use super::input::{Files, one_stdin};
use crate::cli::CheckArgs;

pub(crate) fn run(CheckArgs { files, live }: &CheckArgs) -> Result<ExitCode> {
    one_stdin(files.files.iter().chain(live))?;
    let mut wanted = Files::read(&files.files)?;
    wanted.compare();
    if let Some(path) = live {
        let mut live = Files::read(std::slice::from_ref(path))?;
        compare(&live, &mut wanted);
        // What cannot be read is not compared, and that must not look like no change.
        live.findings.retain(|(_, finding)| finding.is_error());
        wanted.findings.append(&mut live.findings);
    }
    let mut out = std::io::stdout().lock();
    wanted.print_findings(&mut out)?;
    if wanted.has_errors() {
        return Ok(ExitCode::from(FINDINGS));
    }
    let Files {
        objects,
        findings,
        foreign,
    } = wanted;
    let plural = if findings.len() == 1 { "" } else { "s" };
    let warnings = format!("{} warning{plural}", findings.len());
    let summary = if objects.is_empty() {
        format!(
            "nothing of tsunaro.io in these files, {warnings}, {foreign} of other groups left alone"
        )
    } else {
        format!(
            "{} valid, {warnings}, {foreign} of other groups left alone",
            objects.len()
        )
    };
    writeln!(out, "{summary}").context("cannot write the summary")?;
    Ok(ExitCode::SUCCESS)
}

/// Adds a finding for every pinned field that would change.
fn compare(live: &Files, wanted: &mut Files) {
    let mut changes = Vec::new();
    for (file, Located { object, position }) in &wanted.objects {
        let Object::Gateway(gateway) = object else {
            continue;
        };
        let Some(old) = gateways(live).find(|old| old.name == gateway.name) else {
            continue;
        };
        for field in changed_pinned_fields(old, gateway) {
            let finding = Finding {
                severity: Severity::Error,
                position: *position,
                field: field.to_owned(),
                what: format!("it is part of the identity of {} and cannot change, appear or vanish any more", gateway.name),
                fix: "put the old value back, or delete the gateway with `deletionPolicy: Delete` and make a new one".to_owned(),
            };
            changes.push((file.clone(), finding));
        }
    }
    wanted.findings.extend(changes);
}

fn gateways(files: &Files) -> impl Iterator<Item = &Gateway> {
    files
        .objects
        .iter()
        .filter_map(|(_, located)| match &located.object {
            Object::Gateway(gateway) => Some(gateway.as_ref()),
            Object::Tailnet(_) | Object::Egress(_) | Object::Ingress(_) | Object::Site(_) => None,
        })
}
