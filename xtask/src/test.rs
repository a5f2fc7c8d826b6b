//! `cargo xtask test`: the tests, from cheap to real.

use std::process::Command;

use anyhow::{Result, bail};
use clap::ValueEnum;
use tsunaro_integration::packages;
use tsunaro_integration::peers::{Peers, ensure_kubernetes};

use crate::ahead::Ahead;
use crate::step::{self, Counts};
use crate::{architecture, crds, image, rules, speed};

/// A part of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Tables, properties, loopback sockets, and the kernel's own netlink (which needs root).
    Unit,
    /// Instructions per answer against a budget.
    Speed,
    /// The DNS cases on the wire of the real binary, compared with real CoreDNS and NSD.
    Dns,
    /// A real tailnet in network namespaces, and the clients of real life.
    Tailnet,
    /// The controller at real servers: its Headscale client at Headscale, its custom resources and
    /// objects at kube-apiserver.
    Controller,
    /// A real Kubernetes node in namespaces. Only when named: on a busy machine it takes
    /// more minutes than all the others.
    Kubernetes,
    /// The controller at a real API server, on a real node, with a real Headscale. Only when named, as
    /// Kubernetes.
    Reconciler,
    /// The Headscale client at the oldest Headscale that is supported. Only when named, before a pin
    /// moves: it builds that Headscale.
    OldestHeadscale,
}

impl Part {
    /// Run with all the others.
    fn is_default(self) -> bool {
        !matches!(
            self,
            Self::Kubernetes | Self::Reconciler | Self::OldestHeadscale
        )
    }

    /// Needs the pinned parts of Kubernetes.
    fn needs_kubernetes(self) -> bool {
        matches!(self, Self::Controller | Self::Kubernetes | Self::Reconciler)
    }

    /// Needs our agent's binary, outside an image.
    fn needs_agent(self) -> bool {
        matches!(self, Self::Dns | Self::Tailnet)
    }
}

pub(crate) fn run(part: Option<Part>, filter: Option<&str>) -> Result<()> {
    let mut counts = Counts::default();
    let all = part.is_none();
    if part == Some(Part::Speed) {
        packages::install()?;
        return speed::run();
    }
    if part != Some(Part::Unit) {
        packages::install()?;
    }
    let needs_kubernetes = part.is_none_or(Part::needs_kubernetes);
    let mut ahead = if needs_kubernetes {
        Some(Ahead::start()?)
    } else {
        None
    };
    if all {
        lints()?;
    }
    if all || part == Some(Part::Unit) {
        let mut command = cargo("test");
        command.args(["--workspace", "--no-fail-fast"]);
        let what = "unit tests, properties, loopback sockets";
        run_some(what, command.args(filter), filter, &mut counts)?;
    }
    if all {
        speed::run()?;
    }
    if part.is_none_or(Part::needs_agent) {
        step::run(
            "build the agent",
            cargo("build").args(["--workspace", "--bin", "tsunaro-agent"]),
        )?;
    }
    for (each, tests, what) in [
        (Part::Dns, &["--test", "dns"][..], "DNS cases on the wire"),
        (Part::Tailnet, &["--test", "lab"], "the lab itself"),
        (Part::Tailnet, &["--test", "tailnet"], "the real tailnet"),
        (Part::Tailnet, &["--test", "clients"], "real clients"),
        (
            Part::Kubernetes,
            &["--test", "kubernetes"],
            "the real Kubernetes node",
        ),
        (
            Part::Controller,
            &["--test", "real_headscale"],
            "the Headscale client on a real Headscale",
        ),
        (
            Part::Reconciler,
            &["--test", "controller"],
            "the controller on a real Kubernetes and Headscale",
        ),
        (
            Part::Controller,
            &["--test", "api"],
            "custom resources at a real API server",
        ),
        (
            Part::Controller,
            &["--test", "lease"],
            "the controller and its Lease at a real API server",
        ),
        (
            Part::OldestHeadscale,
            &["--test", "real_headscale"],
            "the Headscale client on the oldest Headscale",
        ),
    ] {
        if part == Some(each) || (all && each.is_default()) {
            let image = match each {
                Part::Kubernetes => Some(image::for_tests()?),
                _ => None,
            };
            let mut command = cargo("test");
            command.arg("--workspace").args(tests);
            // While the pinned parts are being built ahead.
            step::run(
                &format!("compile: {what}"),
                command.args(["--no-run", "--quiet"]),
            )?;
            if !all {
                // Nothing is left to do beside it: it goes on here, and not in the idle class.
                drop(ahead.take());
            }
            Peers::ensure()?;
            if each.needs_kubernetes() {
                ensure_kubernetes()?;
            }
            let mut command = cargo("test");
            command.arg("--workspace").args(tests).args(filter);
            // A starting node keeps two cores busy.
            let threads = if matches!(each, Part::Kubernetes | Part::Reconciler) {
                1
            } else {
                3
            };
            command.args(["--", "--nocapture"]);
            if each == Part::OldestHeadscale {
                // Its test alone is marked so.
                command.arg("--ignored");
            }
            command.arg(format!("--test-threads={threads}"));
            command.envs(image.map(|image| ("TSUNARO_IMAGE", image)));
            run_some(what, &mut command, filter, &mut counts)?;
        }
    }
    let Counts { passed, failed } = counts;
    if passed + failed == 0 {
        bail!(
            "no test has a name that contains {}",
            filter.unwrap_or_default()
        );
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        bail!("{failed} tests failed");
    }
    Ok(())
}

/// Runs tests; without a filter, none at all is a fault.
fn run_some(
    what: &str,
    command: &mut Command,
    filter: Option<&str>,
    counts: &mut Counts,
) -> Result<()> {
    let ran = step::run_tests(what, command, counts)?;
    if ran == 0 && filter.is_none() {
        bail!("{what} ran no test");
    }
    Ok(())
}

fn lints() -> Result<()> {
    architecture::run()?;
    crds::run(true)?;
    rules::run(true)?;
    step::run("cargo fmt --check", cargo("fmt").args(["--all", "--check"]))?;
    step::run(
        "cargo clippy",
        cargo("clippy").args([
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--benches",
            "--examples",
            // Those that a plain `cargo test` leaves out.
            "--test",
            "*",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    )
}

/// Always with `--workspace`: the packages then share one set of features, and each dependency is
/// built once instead of once for each choice of packages.
fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new("cargo");
    command.arg(subcommand);
    command
}
