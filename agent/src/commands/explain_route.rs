//! `explain route PREFIX`: how far a prefix got, by the running agent's own report.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use ipnet::Ipv4Net;
use tsunaro_model::report::{PathReport, RouteTruth, Tri};
use tsunaro_model::routes;

use super::check::read_config;
use super::fetch;
use crate::cli::ExplainArgs;

/// Prints the chain wanted → advertised → kernel, and the first step that fails. Exit code 0 when
/// the prefix is carried, else 1.
///
/// # Errors
/// When the prefix or the config cannot be understood, or no agent answers.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    let ExplainArgs {
        files,
        running,
        name: _,
        rtype: prefix,
    } = args;
    let prefix = parse_prefix(prefix)?;
    let mut out = std::io::stdout().lock();
    let (config, findings) = read_config(&files.config);
    let config =
        config.with_context(|| format!("the config cannot be used:\n{}", findings.join("\n")))?;
    let wanted = config
        .routes
        .as_ref()
        .map(routes::wanted)
        .unwrap_or_default();
    let covering = wanted.iter().find(|wanted| wanted.contains(&prefix));
    let report = covering
        .map(|_| fetch::report(running.address))
        .transpose()?;
    writeln!(out, "{prefix}")?;
    let (Some(covering), Some(report)) = (covering, report) else {
        writeln!(
            out,
            "  wanted:     no; add it to routes.lan, or a host to routes.egressTargets"
        )?;
        if let Err(reason) = routes::check_routable(prefix) {
            writeln!(out, "  and it may not be advertised: {reason}")?;
        }
        return Ok(ExitCode::FAILURE);
    };
    if *covering == prefix {
        writeln!(out, "  wanted:     yes")?;
    } else {
        writeln!(out, "  wanted:     yes, as part of {covering}")?;
    }
    let truth = report
        .routes
        .iter()
        .find(|truth| truth.prefix == covering.to_string());
    let Some(truth) = truth else {
        writeln!(
            out,
            "  the running agent does not know of it yet; its config may be older than the file"
        )?;
        return Ok(ExitCode::FAILURE);
    };
    let RouteTruth {
        prefix: _,
        wanted: _,
        advertised,
        kernel,
        path,
        reason,
        message,
    } = truth;
    writeln!(
        out,
        "  advertised: {}",
        if *advertised { "yes" } else { "no" }
    )?;
    let shown = match kernel {
        Tri::True => "yes",
        Tri::False => "no",
        Tri::Unknown => "not known",
    };
    let way = path.as_ref().map(way).unwrap_or_default();
    writeln!(out, "  kernel:     {shown}{way}")?;
    writeln!(out, "=> {reason}: {message}")?;
    Ok(if *advertised && *kernel == Tri::True {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `, by eth0 through 192.0.2.1, MTU 1500`.
fn way(path: &PathReport) -> String {
    let PathReport {
        interface,
        gateway,
        mtu,
        advmss,
    } = path;
    let gateway = gateway
        .as_ref()
        .map(|gateway| format!(" through {gateway}"))
        .unwrap_or_default();
    let advmss = advmss
        .map(|octets| format!(", advmss {octets}"))
        .unwrap_or_default();
    format!(", by {interface}{gateway}, MTU {mtu}{advmss}")
}

/// A prefix, or one address as a /32.
fn parse_prefix(text: &str) -> Result<Ipv4Net> {
    let example = "write one such as 192.0.2.0/24: tsunaro-agent explain route 192.0.2.0/24";
    if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
        return Ok(Ipv4Net::from(address));
    }
    let prefix: Ipv4Net = text
        .parse()
        .map_err(|_| anyhow::anyhow!("\"{text}\" is no IPv4 prefix; {example}"))?;
    if prefix.trunc() != prefix {
        bail!("{prefix} has host bits; write {}", prefix.trunc());
    }
    Ok(prefix)
}
