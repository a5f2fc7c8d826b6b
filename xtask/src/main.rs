//! The project's own commands. `cargo xtask test` runs the tests.

mod ahead;
mod architecture;
mod bench;
mod crds;
mod deny;
mod fuzz;
mod image;
mod node;
mod rules;
mod speed;
mod step;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tsunaro_integration::packages;
use tsunaro_integration::peers::{Peers, ensure_kubernetes};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "The project's own commands",
    bin_name = "cargo xtask"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the tests, or one part of them; ends with the counts.
    Test {
        /// The part to run; without it, the lints and all parts but those that say so.
        #[arg(value_enum)]
        part: Option<test::Part>,
        /// Run only tests whose name contains this.
        filter: Option<String>,
    },
    /// Measure.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Check the direction between crates and the size of files.
    Architecture,
    /// Write docs/dns-rules.md: which test holds which rule of the DNS contract.
    Rules {
        /// Write nothing; fail when a rule has no test or the table is stale.
        #[arg(long)]
        check: bool,
    },
    /// Fuzz with libFuzzer: what comes from the network, from upstreams and from files.
    Fuzz(fuzz::Options),
    /// Check licences, sources and duplicate or banned crates with cargo-deny.
    Deny,
    /// Write deploy/crds and deploy/manifests from what the controller prints.
    Crds {
        /// Only say whether the files are current, and fail when they are not.
        #[arg(long)]
        check: bool,
    },
    /// Make the image as an OCI archive, without a container engine, and its SBOM.
    Image(image::ImageArgs),
    /// A Kubernetes node on this machine, as the tests have it, for a person to play with.
    Node(node::Node),
    /// Install what tests and image need (Debian packages, as root) and build the pinned tools once.
    Setup,
    /// Build the pinned tools alone.
    #[command(hide = true)]
    Peers,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Test { part, filter } => test::run(part, filter.as_deref())?,
        Command::Bench(bench) => bench::run(&bench)?,
        Command::Architecture => architecture::run()?,
        Command::Rules { check } => rules::run(check)?,
        Command::Fuzz(options) => fuzz::run(&options)?,
        Command::Deny => deny::run()?,
        Command::Crds { check } => crds::run(check)?,
        Command::Image(args) => drop(image::run(&args)?),
        Command::Node(node) => return node::run(node),
        Command::Peers => {
            Peers::ensure()?;
            ensure_kubernetes()?;
        }
        Command::Setup => {
            packages::install()?;
            Peers::ensure()?;
            ensure_kubernetes()?;
            image::setup()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
