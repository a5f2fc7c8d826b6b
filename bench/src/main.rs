//! Measures the agent's DNS beside CoreDNS, NSD, Knot, unbound and dnsmasq, and beside a bare UDP
//! echo as the limit of what a server with these system calls can do.
//!
//! Each server has one core, the load generator another; rounds are interleaved, so that what the
//! machine does besides meets all servers alike. `cargo xtask bench dns` builds this and the agent
//! for release and runs it.

mod awake;
mod batch;
mod content;
mod cpu;
mod dnsperf;
mod echo;
mod forward;
mod goals;
mod guard;
mod load;
mod local;
mod reload;
mod results;
mod server;
mod servers;
mod start;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand, ValueEnum};

use awake::Cores;
use results::Results;

#[derive(Parser)]
#[command(about = "Measures the agent's DNS beside other servers")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the sections and print their tables.
    Dns(Options),
    /// Send every datagram back, one core's worth: the limit.
    #[command(hide = true)]
    Echo {
        /// Where to listen.
        address: SocketAddr,
    },
    /// Kill the servers that the benchmark leaves behind.
    #[command(hide = true)]
    Guard,
    /// Put a load on one server, for profiling.
    #[command(hide = true)]
    Load {
        /// The server.
        address: SocketAddr,
        /// Seconds.
        #[arg(long, default_value_t = 5)]
        seconds: u64,
        /// Queries per second; without it as many as the server answers.
        #[arg(long)]
        rate: Option<u32>,
        /// What is asked.
        #[arg(long, value_enum, default_value_t = content::Kind::Mix)]
        kind: content::Kind,
    },
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The agent's program, built for release.
    #[arg(long)]
    pub(crate) agent: PathBuf,
    /// Two minutes in place of eleven: fewer and shorter rounds, no million names.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also write the numbers to this file.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Also write the tables into this Markdown file, in place of those that are there.
    #[arg(long)]
    pub(crate) docs: Option<PathBuf>,
    /// Fail when a goal is missed.
    #[arg(long)]
    pub(crate) check: bool,
    /// Only these sections.
    #[arg(long, value_enum)]
    pub(crate) section: Vec<Section>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// 10,000 names, a tenth of the queries for missing ones.
    Local,
    /// Each kind of local answer by itself.
    Kinds,
    /// Local answers, asked by dnsperf.
    Dnsperf,
    /// Answers from the cache of forwarded ones.
    Hits,
    /// Questions that upstreams have to be asked.
    Misses,
    /// New hosts content under load.
    Reload,
    /// Start to first answer, memory at rest, size.
    Start,
}

impl Options {
    fn has(&self, section: Section) -> bool {
        self.section.is_empty() || self.section.contains(&section)
    }

    /// How often each measurement is repeated.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// How long each takes.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_millis(if self.quick { 400 } else { 1500 })
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Dns(options) => measure(&options),
        Command::Echo { address } => echo::run(address),
        Command::Guard => guard::run(),
        Command::Load {
            address,
            seconds,
            rate,
            kind,
        } => local::load(address, Duration::from_secs(seconds), rate, kind),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<()> {
    servers::install_missing()?;
    guard::start()?;
    server::take_core(server::LOAD_CORE)?;
    let mut results = Results::new(Cores::keep_awake());
    if options.has(Section::Local) {
        local::mixed(options, &mut results)?;
    }
    if options.has(Section::Kinds) {
        local::kinds(options, &mut results)?;
    }
    if options.has(Section::Dnsperf) {
        dnsperf::run(options, &mut results)?;
    }
    if options.has(Section::Hits) {
        forward::hits(options, &mut results)?;
    }
    if options.has(Section::Misses) {
        forward::misses(options, &mut results)?;
    }
    if options.has(Section::Reload) {
        reload::run(options, &mut results)?;
    }
    if options.has(Section::Start) {
        start::run(options, &mut results)?;
    }
    let whole = options.section.is_empty() && !options.quick;
    let missed = goals::print(&mut results, whole);
    println!("\n{}", results.machine()?);
    if let Some(path) = &options.docs {
        results.write_into(path)?;
    }
    if let Some(path) = &options.json {
        std::fs::write(path, results.json()?)?;
    }
    if options.check && missed > 0 {
        bail!("{missed} of the goals above are missed; the benchmark needs the machine to itself");
    }
    Ok(())
}
