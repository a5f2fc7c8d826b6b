//! `supervise`: PID 1 of the tailscale container.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::SuperviseArgs;
use crate::{logging, supervise};

/// Runs the command until somebody stops us; the exit code is the command's.
///
/// # Errors
/// When the system refuses what a supervisor needs.
pub(crate) fn supervise(args: SuperviseArgs) -> Result<ExitCode> {
    let SuperviseArgs {
        tailscaled_socket,
        log_format,
        command,
    } = args;
    let _flushed_at_the_end = logging::init(log_format);
    // One thread is plenty, and nothing but the main loop then waits for children.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")?;
    let code = runtime.block_on(supervise::run(command, tailscaled_socket))?;
    Ok(ExitCode::from(code))
}
