//! `cargo xtask bench`: builds the agent and the benchmark for release, and runs it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use clap::Subcommand;

use crate::step;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// The agent's DNS beside CoreDNS, NSD, Knot, unbound, dnsmasq and a bare UDP echo. Needs two
    /// cores to itself, and the servers' Debian packages, which it installs as root.
    Dns {
        /// About two minutes: fewer and shorter rounds, no million names.
        #[arg(long)]
        quick: bool,
        /// Also write the numbers to this file.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Also write the tables into docs/performance.md, in place of those that are there.
        #[arg(long)]
        docs: bool,
        /// Fail when a goal of the last table is missed.
        #[arg(long)]
        check: bool,
        /// Only this section: local, kinds, dnsperf, hits, misses, reload, start; repeatable.
        #[arg(long)]
        section: Vec<String>,
    },
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    let Bench::Dns {
        quick,
        json,
        docs,
        check,
        section,
    } = bench;
    step::run(
        "build the agent and the benchmark for release",
        Command::new("cargo").args([
            "build",
            "--quiet",
            "--release",
            "-p",
            "tsunaro-agent",
            "-p",
            "tsunaro-bench",
        ]),
    )?;
    let workspace = MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cargo metadata failed")?;
    let target = workspace
        .target_directory
        .into_std_path_buf()
        .join("release");
    let mut command = Command::new(target.join("tsunaro-bench"));
    command
        .arg("dns")
        .arg("--agent")
        .arg(target.join("tsunaro-agent"));
    if *quick {
        command.arg("--quick");
    }
    if let Some(json) = json {
        command.arg("--json").arg(json);
    }
    if *docs {
        let document = workspace.workspace_root.join("docs/performance.md");
        command.arg("--docs").arg(document);
    }
    if *check {
        command.arg("--check");
    }
    for section in section {
        command.args(["--section", section]);
    }
    if !command.status().context("run the benchmark")?.success() {
        bail!("the benchmark failed");
    }
    Ok(())
}
