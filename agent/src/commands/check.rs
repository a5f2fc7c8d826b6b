//! `check`: every finding of the config file and its hosts file.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use tsunaro_model::config::Config;
use tsunaro_model::hosts::Hosts;
use tsunaro_model::zone::{HostsInput, Snapshot};

use crate::cli::FileArgs;
use crate::files::read_capped;
use crate::settings;
use crate::world::parse_config;

/// A config is text that people write; more than this is a mistake.
const CONFIG_MAX: u64 = 1024 * 1024;

/// Prints every finding; exit code 0 without one, 1 with any.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn check(args: &FileArgs) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut findings = 0_usize;
    let mut say = |line: &str| -> std::io::Result<()> {
        findings += 1;
        writeln!(out, "{line}")
    };
    let (config, lines) = read_config(&args.config);
    for line in &lines {
        say(line)?;
    }
    let mut summary = String::new();
    if let Some(config) = config {
        let hosts = match settings::hosts_path(args, &config) {
            Some(path) => match read_hosts(&path, args.hosts_max_bytes) {
                Ok(hosts) => {
                    for finding in &hosts.findings {
                        say(&finding.in_file(&path.display().to_string()).to_string())?;
                    }
                    Some(hosts)
                }
                Err(error) => {
                    say(&error)?;
                    None
                }
            },
            None => None,
        };
        let input = hosts
            .as_ref()
            .map_or(HostsInput::NotConfigured, HostsInput::Read);
        let (_, census) = Snapshot::build(&config.dns, input, 1, 1);
        for name in &census.shadowed {
            say(&format!(
                "{}: warning: {name} is hidden by a static record of the same name; remove one of the two",
                args.config.display()
            ))?;
        }
        summary = format!(
            ": zone {}, {} static and {} dynamic names, {} overrides, {} hosts entries in no zone",
            config.dns.zone,
            census.static_names,
            census.dynamic_names,
            census.overrides,
            census.foreign_entries
        );
    }
    if findings == 0 {
        writeln!(out, "valid{summary}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{findings} {}",
        if findings == 1 { "finding" } else { "findings" }
    )?;
    Ok(ExitCode::FAILURE)
}

/// The config, if it is usable, and all findings as lines.
pub(super) fn read_config(path: &Path) -> (Option<Config>, Vec<String>) {
    let shown = path.display().to_string();
    match read_capped(path, CONFIG_MAX) {
        Err(fault) => (None, vec![format!("{shown}: {fault}")]),
        Ok(content) => {
            let (config, findings) = parse_config(&content.bytes, &[]);
            let (config, findings) = match &config {
                Some(usable) => parse_config(&content.bytes, &settings::listeners_of(usable)),
                None => (config, findings),
            };
            (
                config,
                findings
                    .iter()
                    .map(|finding| finding.in_file(&shown).to_string())
                    .collect(),
            )
        }
    }
}

/// The hosts file, or one line that says why not.
pub(super) fn read_hosts(path: &Path, max: u64) -> Result<Hosts, String> {
    let content = read_capped(path, max).map_err(|fault| format!("{}: {fault}", path.display()))?;
    Hosts::parse(&content.bytes).map_err(|error| format!("{}: {error}", path.display()))
}
