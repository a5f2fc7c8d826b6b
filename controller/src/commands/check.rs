//! `check`: all findings, then a summary.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tsunaro_model::finding::{Finding, Severity};
use tsunaro_model::gateway::{Gateway, Located, Object, changed_pinned_fields};

use super::FINDINGS;
use super::input::Files;
use crate::cli::CheckArgs;

pub(crate) fn run(CheckArgs { files, live }: &CheckArgs) -> Result<ExitCode> {
    let mut wanted = Files::read(&files.files)?;
    if let Some(path) = live {
        let live = Files::read(std::slice::from_ref(path))?;
        compare(&live, &mut wanted);
    }
    let mut out = std::io::stdout().lock();
    wanted.print_findings(&mut out)?;
    if wanted.has_errors() {
        return Ok(ExitCode::from(FINDINGS));
    }
    let plural = if wanted.findings.len() == 1 { "" } else { "s" };
    writeln!(
        out,
        "{} valid, {} warning{plural}, {} of other groups left alone",
        wanted.objects.len(),
        wanted.findings.len(),
        wanted.foreign
    )
    .context("cannot write the summary")?;
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
