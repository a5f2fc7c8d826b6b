//! `handover`: asks the running controller to move a router's traffic to its standby.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tsunaro_controller::handover::{Answer, Request, ask};
use tsunaro_controller::run::connect;

use super::FINDINGS;
use crate::cli::HandoverArgs;

pub(crate) fn run(args: HandoverArgs) -> Result<ExitCode> {
    let HandoverArgs {
        gateway,
        node,
        tailnet,
        namespace,
        timeout,
    } = args;
    let request = match (gateway, node, tailnet) {
        (Some(gateway), _, _) => Request::Gateway(gateway),
        (None, Some(name), Some(tailnet)) => Request::Node { tailnet, name },
        (None, _, _) => anyhow::bail!("name a gateway, or a node with its tailnet"),
    };
    let answer = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(async {
            let client = connect().await?;
            ask(client, &namespace, &request, Duration::from_secs(timeout)).await
        })?;
    let mut out = std::io::stdout().lock();
    match answer {
        Answer::Done {
            node,
            outcome,
            took_ms,
        } => {
            let sentence = outcome.sentence();
            writeln!(out, "{node}: {sentence} ({took_ms} ms)")?;
            Ok(ExitCode::SUCCESS)
        }
        Answer::Refused(why) => {
            writeln!(out, "not handed over: {why}")?;
            Ok(ExitCode::from(FINDINGS))
        }
    }
}
