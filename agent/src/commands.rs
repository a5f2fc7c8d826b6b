//! One function per command.

mod check;
mod explain;
mod explain_route;
mod fetch;
mod install;
mod status;
mod supervise;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::{Cli, Command};
use crate::{logging, run};

/// Runs the command that was asked for.
///
/// # Errors
/// What kept it from its work, for people.
pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run(args) => {
            let _flushed_at_the_end = logging::init(args.log_format);
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .context("no runtime")?;
            let code = runtime.block_on(run::run(args));
            // A read that hangs (a dead network mount) must not keep the process.
            runtime.shutdown_background();
            code
        }
        Command::Check(args) => check::check(&args),
        Command::Explain(args) if args.name == "route" => explain_route::explain(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Status(args) => status::status(&args),
        Command::Supervise(args) => supervise::supervise(args),
        Command::Install(args) => install::install(&args),
    }
}
