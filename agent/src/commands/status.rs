//! `status`: the report of a running agent, as tables, JSON or YAML.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use tsunaro_model::report::{CheckReport, Condition, RouteTruth, StatusReport, Tri};

use super::fetch;
use crate::cli::{OutputFormat, RunningAgent, StatusArgs};

/// Columns below which a table is a mess.
const MIN_WIDTH: u16 = 100;

/// Prints the report once, or at each change.
///
/// # Errors
/// When no agent answers, or the output cannot be written.
pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode> {
    let StatusArgs {
        running: RunningAgent { address },
        output,
        watch,
    } = args;
    let path = if *watch { "/status?watch" } else { "/status" };
    fetch::watch(*address, path, |report| {
        let text = match output {
            OutputFormat::Table => tables(&report, terminal_width()),
            OutputFormat::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
            OutputFormat::Yaml => format!("---\n{}", serde_saphyr::to_string(&report)?),
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        if *watch && *output == OutputFormat::Table {
            writeln!(
                out,
                "{}",
                "─".repeat(usize::from(terminal_width().unwrap_or(MIN_WIDTH)))
            )?;
        }
        Ok(out.flush()?)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Columns of the terminal; None when the output goes elsewhere, where nothing is folded.
fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col.max(MIN_WIDTH))
}

fn tables(report: &StatusReport, width: Option<u16>) -> String {
    let mut text = head(report, width);
    text.push_str("\nCONDITIONS\n");
    text.push_str(&conditions(&report.conditions, width));
    if !report.routes.is_empty() {
        text.push_str("\nROUTES\n");
        text.push_str(&routes(&report.routes, width));
    }
    let upstreams: Vec<_> = report
        .extra_zones
        .iter()
        .flat_map(|zone| {
            zone.upstreams.iter().map(move |upstream| {
                let rtt = upstream
                    .smoothed_rtt_micros
                    .map_or("-".to_owned(), |micros| {
                        format!("{:.1} ms", as_millis(micros))
                    });
                let health = match (upstream.healthy, upstream.smoothed_rtt_micros) {
                    (false, _) => "down",
                    (true, Some(_)) => "up",
                    (true, None) => "not asked yet",
                };
                [
                    zone.zone.clone(),
                    upstream.address.clone(),
                    health.to_owned(),
                    upstream.consecutive_failures.to_string(),
                    rtt,
                ]
            })
        })
        .collect();
    if !upstreams.is_empty() {
        text.push_str("\nUPSTREAMS\n");
        text.push_str(&table(
            &["ZONE", "ADDRESS", "HEALTH", "FAILURES", "RTT"],
            upstreams,
            width,
        ));
    }
    let failing: Vec<&CheckReport> = report
        .kernel_checks
        .iter()
        .filter(|check| check.status == Tri::False || warns(check))
        .collect();
    if !failing.is_empty() {
        text.push_str("\nKERNEL CHECKS THAT FAIL OR WARN\n");
        let rows = failing.iter().map(|check| {
            [
                check.name.clone(),
                check.reason.clone(),
                check.message.clone(),
            ]
        });
        text.push_str(&table(
            &["CHECK", "REASON", "MESSAGE"],
            rows.collect::<Vec<_>>(),
            width,
        ));
    }
    text
}

/// A check that passes, with something to say.
fn warns(check: &CheckReport) -> bool {
    check.status == Tri::True && !check.message.is_empty()
}

/// Microseconds as milliseconds; an RTT is far below 2³² µs.
fn as_millis(micros: u64) -> f64 {
    u32::try_from(micros).map_or(f64::INFINITY, f64::from) / 1000.0
}

fn head(report: &StatusReport, width: Option<u16>) -> String {
    let zone = &report.zone;
    let mut rows = vec![
        [
            "agent".to_owned(),
            format!(
                "{} ({}), {:?} since {}",
                report.agent.version, report.agent.commit, report.phase, report.agent.started
            ),
        ],
        [
            "zone".to_owned(),
            format!(
                "{} serial {}: {} static, {} dynamic, {} overriding names, {} skipped, {} shadowed",
                zone.name,
                zone.serial,
                zone.static_names,
                zone.dynamic_names,
                zone.overrides,
                zone.skipped,
                zone.shadowed_names.len()
            ),
        ],
        ["config".to_owned(), file(&report.config)],
    ];
    rows.extend(
        report
            .hosts
            .as_ref()
            .map(|hosts| ["hosts".to_owned(), file(hosts)]),
    );
    if let Some(tailnet) = &report.tailnet {
        let online = if tailnet.online { "online" } else { "offline" };
        let line = match &tailnet.error {
            Some(_) => "unreachable".to_owned(),
            None => format!(
                "{}, {online}, tailscaled {}, {} {} {}",
                tailnet.backend_state,
                tailnet.version,
                tailnet.hostname,
                tailnet.addresses.join(" "),
                tailnet.tags.join(" ")
            ),
        };
        rows.push(["tailnet".to_owned(), line.trim_end().to_owned()]);
    }
    table(&[], rows, width)
}

fn file(status: &tsunaro_model::report::FileStatus) -> String {
    let hash = status.hash.get(..12).unwrap_or("none");
    let error = status
        .error
        .as_ref()
        .map(|error| format!("; NOT IN USE: {error}"))
        .unwrap_or_default();
    format!(
        "{} generation {} ({hash}), {} remarks{error}",
        status.path,
        status.generation,
        status.findings.len()
    )
}

fn conditions(conditions: &[Condition], width: Option<u16>) -> String {
    let rows = conditions.iter().map(|condition| {
        let Condition {
            kind,
            status,
            reason,
            message,
            last_transition_time,
        } = condition;
        [
            kind.clone(),
            format!("{status:?}"),
            reason.clone(),
            last_transition_time
                .get(..19)
                .unwrap_or_default()
                .to_owned(),
            message.clone(),
        ]
    });
    table(
        &["CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"],
        rows.collect::<Vec<_>>(),
        width,
    )
}

/// The route truth as a table.
fn routes(routes: &[RouteTruth], width: Option<u16>) -> String {
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let rows = routes.iter().map(|truth| {
        let RouteTruth {
            prefix,
            wanted,
            advertised,
            kernel,
            path: _,
            reason,
            message,
        } = truth;
        let kernel = match kernel {
            Tri::True => "yes",
            Tri::False => "no",
            Tri::Unknown => "?",
        };
        [
            prefix.clone(),
            yes(*wanted),
            yes(*advertised),
            kernel.to_owned(),
            reason.clone(),
            message.clone(),
        ]
    });
    table(
        &[
            "PREFIX",
            "WANTED",
            "ADVERTISED",
            "KERNEL",
            "REASON",
            "MESSAGE",
        ],
        rows.collect::<Vec<_>>(),
        width,
    )
}

fn table<const N: usize>(header: &[&str], rows: Vec<[String; N]>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    if !header.is_empty() {
        table.set_header(header);
    }
    for row in rows {
        table.add_row(row);
    }
    let text = table.to_string();
    let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", trimmed.join("\n"))
}

#[cfg(test)]
mod tests;
