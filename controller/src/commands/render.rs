//! `render`: the objects on standard output, findings on standard error.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tsunaro_controller::crd::to_yaml;
use tsunaro_controller::render::{Input, Objects, render};
use tsunaro_model::finding::{Finding, Severity};
use tsunaro_model::gateway::{Egress, Gateway, Located, Object, Tailnet};

use super::FINDINGS;
use super::input::{Files, one_stdin};
use crate::cli::RenderArgs;

pub(crate) fn run(RenderArgs { files, namespace }: &RenderArgs) -> Result<ExitCode> {
    one_stdin(&files.files)?;
    let mut files = Files::read(&files.files)?;
    files.compare();
    let unknown = without_tailnet(&files);
    files.findings.extend(unknown);
    files.print_findings(&mut std::io::stderr().lock())?;
    if files.has_errors() {
        return Ok(ExitCode::from(FINDINGS));
    }
    let gateways: Vec<Gateway> = of_kind(&files, |object| match object {
        Object::Gateway(gateway) => Some(gateway.as_ref().clone()),
        _ => None,
    });
    if gateways.is_empty() {
        eprintln!("error: no TailnetGateway in these files; add its file with `-f`");
        return Ok(ExitCode::from(FINDINGS));
    }
    let egresses: Vec<Egress> = of_kind(&files, |object| match object {
        Object::Egress(egress) => Some(egress.clone()),
        _ => None,
    });
    let mut out = std::io::stdout().lock();
    for gateway in &gateways {
        let objects = render(&Input {
            gateway,
            tailnet: tailnet_of(&files, gateway),
            egresses: &egresses,
            namespace,
        });
        for document in documents(&objects)? {
            write!(out, "---\n{document}").context("cannot write the objects")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn documents(objects: &Objects) -> Result<[String; 9]> {
    Ok([
        to_yaml(&objects.service_account)?,
        to_yaml(&objects.role)?,
        to_yaml(&objects.role_binding)?,
        to_yaml(&objects.disruption_budget)?,
        to_yaml(&objects.service)?,
        to_yaml(&objects.dns_service)?,
        to_yaml(&objects.headless_service)?,
        to_yaml(&objects.config_map)?,
        to_yaml(&objects.stateful_set)?,
    ])
}

fn without_tailnet(files: &Files) -> Vec<(String, Finding)> {
    let mut warnings = Vec::new();
    for (file, Located { object, position }) in &files.objects {
        if let Object::Gateway(gateway) = object
            && tailnet_of(files, gateway).is_none()
        {
            let finding = Finding {
                severity: Severity::Warning,
                position: *position,
                field: "spec.tailnetRef.name".to_owned(),
                what: format!(
                    "the Tailnet {} is not in these files, so the objects name no control server that exists",
                    gateway.tailnet
                ),
                fix: "add its file with another `-f` before you apply them".to_owned(),
            };
            warnings.push((file.clone(), finding));
        }
    }
    warnings
}

fn tailnet_of<'f>(files: &'f Files, gateway: &Gateway) -> Option<&'f Tailnet> {
    files
        .objects
        .iter()
        .find_map(|(_, located)| match &located.object {
            Object::Tailnet(tailnet) if tailnet.name == gateway.tailnet => Some(tailnet.as_ref()),
            _ => None,
        })
}

fn of_kind<T>(files: &Files, pick: impl Fn(&Object) -> Option<T>) -> Vec<T> {
    files
        .objects
        .iter()
        .filter_map(|(_, located)| pick(&located.object))
        .collect()
}
