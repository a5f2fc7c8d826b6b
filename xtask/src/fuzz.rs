//! `cargo xtask fuzz`: builds and runs the targets of `fuzz/` with the stable compiler.
//!
//! The flags are those of cargo-fuzz with `--sanitizer none`: coverage for libFuzzer, debug
//! assertions and overflow checks. No sanitizer is missed, as the project has no unsafe code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::MetadataCommand;
use clap::{Args, ValueEnum};

use crate::step;

const MANIFEST: &str = "fuzz/Cargo.toml";
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing -Ccodegen-units=1 -Cdebug-assertions";
/// Longest input in octets. Larger ones find the same branches more slowly.
const MAX_INPUT: u32 = 2048;

#[derive(Args)]
pub(crate) struct Options {
    /// The target; without it, one after the other.
    #[arg(value_enum)]
    target: Option<Target>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 300)]
    seconds: u32,
    /// Instead of fuzzing, reduce the corpora and what runs found to the fewest files.
    #[arg(long)]
    minimise: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Messages from the network, up to the reply.
    Wire,
    /// Replies of upstreams, up to the reply for the client.
    Upstream,
    /// Hosts files, up to the zone.
    Hosts,
    /// Config files, up to the zone.
    Config,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let directory = build()?;
    let all = Target::value_variants();
    for target in options.target.as_ref().map_or(all, std::slice::from_ref) {
        let work = Workplace::of(*target, &directory)?;
        if options.minimise {
            work.minimise()?;
        } else {
            work.fuzz(options.seconds)?;
        }
    }
    Ok(())
}

/// Builds all targets; gives the directory of the binaries.
fn build() -> Result<PathBuf> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("cannot start rustc")?;
    let version = String::from_utf8(output.stdout).context("rustc printed no UTF-8")?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc names no host")?;
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--manifest-path", MANIFEST]);
    // With a target named, build scripts and macros are compiled without the flags.
    command.args(["--target", host]).env("RUSTFLAGS", FLAGS);
    step::run("build the fuzz targets", &mut command)?;
    let metadata = MetadataCommand::new()
        .manifest_path(MANIFEST)
        .no_deps()
        .exec()
        .context("cargo metadata failed")?;
    Ok(metadata
        .target_directory
        .join(host)
        .join("release")
        .into_std_path_buf())
}

/// The files of one target.
struct Workplace {
    name: String,
    binary: PathBuf,
    /// Committed.
    corpus: PathBuf,
    /// What runs on this machine found.
    found: PathBuf,
    artifacts: PathBuf,
}

impl Workplace {
    fn of(target: Target, binaries: &Path) -> Result<Self> {
        let name = target
            .to_possible_value()
            .context("a target without name")?
            .get_name()
            .to_owned();
        let under = |directory: &str| Path::new("fuzz").join(directory).join(&name);
        let work = Self {
            binary: binaries.join(&name),
            corpus: under("corpus"),
            found: under("work"),
            artifacts: under("artifacts"),
            name,
        };
        for directory in [&work.corpus, &work.found, &work.artifacts] {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        Ok(work)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg(format!("-max_len={MAX_INPUT}"))
            .arg(format!("-artifact_prefix={}/", self.artifacts.display()));
        command
    }

    fn fuzz(&self, seconds: u32) -> Result<()> {
        let mut command = self.command();
        command.arg(format!("-max_total_time={seconds}")).args([
            "-print_final_stats=1",
            "-timeout=10",
            "-verbosity=1",
        ]);
        let words = Path::new("fuzz").join(format!("{}.dict", self.name));
        if words.exists() {
            command.arg(format!("-dict={}", words.display()));
        }
        // New inputs go to the first directory.
        command.args([&self.found, &self.corpus]);
        step::run(&format!("fuzz {}", self.name), &mut command)
    }

    /// Replaces the corpus by the fewest inputs that cover what it and the finds cover.
    fn minimise(&self) -> Result<()> {
        let fewest = self.found.with_extension("fewest");
        fs::create_dir_all(&fewest).with_context(|| format!("cannot make {}", fewest.display()))?;
        let mut command = self.command();
        command
            .arg("-set_cover_merge=1")
            .args([&fewest, &self.corpus, &self.found]);
        step::run(&format!("minimise {}", self.name), &mut command)?;
        let kept = fs::read_dir(&fewest)?.count();
        ensure!(kept > 0, "nothing was kept of {}", self.name);
        fs::remove_dir_all(&self.corpus)?;
        fs::rename(&fewest, &self.corpus)?;
        println!("{}: {kept} files", self.corpus.display());
        Ok(())
    }
}
