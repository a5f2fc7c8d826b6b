//! The command line of the controller.

mod cli;
mod commands;
mod version;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::dispatch(cli::Cli::parse()) {
        Ok(code) => code,
        // Whoever read the output has seen enough, as with `| head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(commands::BROKEN_PIPE),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(commands::WRONG_USAGE)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
