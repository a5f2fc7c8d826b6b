//! What each command does.

mod check;
mod crds;
mod handover;
mod input;
mod render;
mod run;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{Cli, Command};

/// Exit code when something in the files is wrong.
const FINDINGS: u8 = 1;
/// Exit code when a file cannot be read, as clap's for wrong flags.
pub(crate) const WRONG_USAGE: u8 = 2;
/// Exit code when the reader of the output is gone: 128 and the number of SIGPIPE, as in shells.
pub(crate) const BROKEN_PIPE: u8 = 141;

pub(crate) fn dispatch(Cli { command }: Cli) -> Result<ExitCode> {
    match command {
        Command::Render(args) => render::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Run(args) => run::run(args),
        Command::Handover(args) => handover::run(args),
        Command::Crds(args) => crds::run(&args),
    }
}
