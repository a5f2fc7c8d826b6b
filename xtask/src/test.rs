//! `cargo xtask test`: every test, from cheap to real.

use std::process::Command;

use anyhow::{Result, bail};
use clap::ValueEnum;
use tsunaro_integration::{packages, peers::Peers};

use crate::step::{self, Counts};
use crate::{architecture, crds};

/// A part of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Everything that needs neither root nor Go: tables, properties, loopback sockets.
    Unit,
    /// The DNS cases on the wire of the real binary, compared with real CoreDNS and NSD.
    Dns,
    /// A real tailnet in network namespaces.
    Tailnet,
}

pub(crate) fn run(part: Option<Part>, filter: Option<&str>) -> Result<()> {
    let mut counts = Counts::default();
    let all = part.is_none();
    packages::install()?;
    if all {
        lints()?;
    }
    if all || part == Some(Part::Unit) {
        let mut command = cargo("test");
        command.args(["--workspace", "--exclude", "tsunaro-integration"]);
        step::run_tests(
            "unit tests, properties, loopback sockets",
            command.args(filter),
            &mut counts,
        )?;
    }
    if part != Some(Part::Unit) {
        Peers::ensure()?;
        step::run(
            "build the agent",
            cargo("build").args(["-p", "tsunaro-agent"]),
        )?;
    }
    for (each, tests, what) in [
        (Part::Dns, &["--test", "dns"][..], "DNS cases on the wire"),
        (Part::Tailnet, &["--lib", "--test", "lab"], "the lab itself"),
        (Part::Tailnet, &["--test", "tailnet"], "the real tailnet"),
    ] {
        if all || part == Some(each) {
            let mut command = cargo("test");
            command
                .args(["-p", "tsunaro-integration"])
                .args(tests)
                .args(filter);
            command.args(["--", "--nocapture", "--test-threads=3"]);
            step::run_tests(what, &mut command, &mut counts)?;
        }
    }
    let Counts { passed, failed } = counts;
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        bail!("{failed} tests failed");
    }
    Ok(())
}

fn lints() -> Result<()> {
    architecture::run()?;
    crds::run(true)?;
    step::run("cargo fmt --check", cargo("fmt").args(["--all", "--check"]))?;
    step::run(
        "cargo clippy",
        cargo("clippy").args([
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    )
}

fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new("cargo");
    command.arg(subcommand);
    command
}
