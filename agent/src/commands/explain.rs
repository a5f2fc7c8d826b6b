//! `explain`: which source answers a query, by the code that answers it.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::{HostsInput, Snapshot};

use super::check::{read_config, read_hosts};
use crate::cli::ExplainArgs;
use crate::settings;

/// Prints the decision.
///
/// # Errors
/// When the files or the question cannot be understood.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    let ExplainArgs {
        files,
        running: _,
        name,
        rtype,
    } = args;
    let (config, findings) = read_config(&files.config);
    let Some(config) = config else {
        bail!("the config cannot be used:\n{}", findings.join("\n"));
    };
    let qname = DnsName::parse_query(name).with_context(|| format!("\"{name}\" is no name"))?;
    let qtype = tsunaro_dns::explain::parse_type(rtype).with_context(|| {
        format!("\"{rtype}\" is no record type; write one such as A, AAAA, TXT or TYPE65")
    })?;
    let hosts =
        settings::hosts_path(files, &config).map(|path| read_hosts(&path, files.hosts_max_bytes));
    let input = match &hosts {
        None => HostsInput::NotConfigured,
        Some(Ok(hosts)) => HostsInput::Read(hosts),
        Some(Err(why)) => {
            eprintln!("{why}");
            HostsInput::Unread
        }
    };
    let (snapshot, _) = Snapshot::build(&config.dns, input, 1, 1);
    writeln!(
        std::io::stdout(),
        "{}",
        tsunaro_dns::explain::explain(&snapshot, &qname, qtype)
    )?;
    Ok(ExitCode::SUCCESS)
}
