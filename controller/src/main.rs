//! The command line of the controller.

mod cli;
mod commands;
mod version;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::dispatch(cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(commands::WRONG_USAGE)
        }
    }
}
