//! The process in the gateway's Pod: watch → parse → plan → apply → observe → report.

mod apply;
mod cli;
mod commands;
mod control_server;
mod event;
mod files;
mod heartbeat;
mod http;
mod kernel;
mod logging;
mod metrics;
mod run;
mod self_probe;
mod settings;
mod stop;
mod supervise;
mod tailnet;
mod tasks;
mod version;
mod world;
mod zone_builder;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            // Nobody may be reading.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
