//! The static release build, which does not depend on where it is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use flate2::Compression;
use tsunaro_integration::peers;

use super::elf;
use super::source::Source;
use crate::step;

/// Writes the crates that a program was built from into it, for scanners of images.
const AUDITABLE: &str = "cargo-auditable";
pub(super) const AUDITABLE_VERSION: &str = "0.7.7";

/// An architecture that there are images for, as Go and the image specification call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

/// What an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Platform {
    pub(super) architecture: &'static str,
    /// As rustc calls it. glibc is linked in, with its resolver of /etc/hosts and DNS: it loads no
    /// module of a name service, for the image has no nsswitch.conf that asks for one.
    pub(super) target: &'static str,
    /// Cargo's variable for the linker of this target, and Debian's cross-compiler for it.
    linker: (&'static str, &'static str),
}

impl Platform {
    /// Of this architecture; none: of this machine.
    pub(super) fn of(architecture: Option<Architecture>) -> Result<Self> {
        let architecture = match (architecture, std::env::consts::ARCH) {
            (Some(architecture), _) => architecture,
            (None, "x86_64") => Architecture::Amd64,
            (None, "aarch64") => Architecture::Arm64,
            (None, other) => bail!("there is no image for {other}, only for x86_64 and aarch64"),
        };
        Ok(match architecture {
            Architecture::Amd64 => Self {
                architecture: "amd64",
                target: "x86_64-unknown-linux-gnu",
                linker: (
                    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
                    "x86_64-linux-gnu-gcc",
                ),
            },
            Architecture::Arm64 => Self {
                architecture: "arm64",
                target: "aarch64-unknown-linux-gnu",
                linker: (
                    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
                    "aarch64-linux-gnu-gcc",
                ),
            },
        })
    }

    /// Whether this machine cannot run its programs without help.
    fn is_foreign(self) -> bool {
        !self.target.starts_with(std::env::consts::ARCH)
    }
}

/// What an image is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be shipped: small, fast, and minutes of work.
    Release,
    /// To be run once by the tests: made as fast as it can be.
    Tests,
}

impl Purpose {
    /// The profile in the workspace's Cargo.toml.
    fn profile(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Tests => "dev",
        }
    }

    /// What cargo calls the profile's directory.
    fn profile_directory(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Tests => "debug",
        }
    }

    /// Where the archive is, below the target directory.
    pub(super) fn directory(self) -> &'static str {
        match self {
            Self::Release => "image",
            Self::Tests => "image-tests",
        }
    }

    /// Where it is built. Tests share the macros and build scripts of all other tests, half of the work.
    pub(super) fn target_directory(self, source: &Source) -> PathBuf {
        match self {
            Self::Release => source.target_directory.join(self.directory()),
            Self::Tests => source.target_directory.clone(),
        }
    }

    /// How hard the layers are compressed.
    pub(super) fn compression(self) -> Compression {
        match self {
            Self::Release => Compression::best(),
            Self::Tests => Compression::fast(),
        }
    }
}

/// A program as it goes into the image.
pub(super) struct Built {
    /// Its name, and its package's.
    pub(super) package: &'static str,
    pub(super) bytes: Vec<u8>,
    /// How many crates its auditable data names.
    pub(super) audited: usize,
}

/// Builds the packages' programs of the same names: each alone for a release, so that none has
/// features that only the other needs, and all at once for the tests, which takes half the time.
pub(super) fn build(
    source: &Source,
    platform: Platform,
    purpose: Purpose,
    packages: &[&'static str],
    target_dir: &Path,
) -> Result<Vec<Built>> {
    let at_once = match purpose {
        Purpose::Release => 1,
        Purpose::Tests => packages.len(),
    };
    let mut built = Vec::with_capacity(packages.len());
    for packages in packages.chunks(at_once) {
        compile(source, platform, purpose, packages, target_dir)?;
        for package in packages {
            built.push(read(source, platform, purpose, package, target_dir)?);
        }
    }
    Ok(built)
}

fn compile(
    source: &Source,
    platform: Platform,
    purpose: Purpose,
    packages: &[&str],
    target_dir: &Path,
) -> Result<()> {
    let auditable = ensure_auditable()?;
    let mut command = Command::new(&auditable);
    command
        .args([
            "auditable",
            "build",
            "--profile",
            purpose.profile(),
            "--locked",
            "--target",
            platform.target,
        ])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(&source.root)
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            rustflags(source, purpose, target_dir)?,
        )
        .env_remove("RUSTFLAGS")
        .env("TSUNARO_COMMIT", source.short_commit());
    if platform.is_foreign() {
        let (variable, linker) = platform.linker;
        // What somebody has set is what he wants.
        if std::env::var_os(variable).is_none() {
            command.env(variable, linker);
        }
    }
    step::run(
        &format!(
            "static {} build of {} in {}",
            purpose.profile(),
            packages.join(" and "),
            target_dir.display()
        ),
        &mut command,
    )
}

/// Reads a program, and checks that it may be shipped.
fn read(
    source: &Source,
    platform: Platform,
    purpose: Purpose,
    package: &'static str,
    target_dir: &Path,
) -> Result<Built> {
    let path = target_dir
        .join(platform.target)
        .join(purpose.profile_directory())
        .join(package);
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let found = elf::inspect(&bytes).with_context(|| format!("{}", path.display()))?;
    ensure!(
        found.interpreter.is_none(),
        "{} is not static: it asks for {:?}",
        path.display(),
        found.interpreter
    );
    let audited = found.audited.iter().any(|each| each == package);
    ensure!(
        audited,
        "{} has no auditable data of {package}",
        path.display()
    );
    for private in [&source.root, target_dir] {
        let needle = private.as_os_str().as_encoded_bytes();
        let leaks = bytes.windows(needle.len()).any(|window| window == needle);
        ensure!(
            !leaks,
            "{} tells where it was built: {}",
            path.display(),
            private.display()
        );
    }
    Ok(Built {
        package,
        bytes,
        audited: found.audited.len(),
    })
}

/// Static, and with the paths of this machine replaced by fixed ones.
fn rustflags(source: &Source, purpose: Purpose, target_dir: &Path) -> Result<String> {
    let cargo_home = match std::env::var_os("CARGO_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?)
                .join(".cargo")
        }
    };
    let mut flags = vec!["-C".to_owned(), "target-feature=+crt-static".to_owned()];
    if purpose == Purpose::Tests {
        // Not in the profile, which the macros and build scripts of other builds have too.
        flags.extend(["-C".to_owned(), "strip=symbols".to_owned()]);
    }
    let mut prefixes = [
        (cargo_home.as_path(), "/cargo"),
        (&source.root, "/src"),
        (target_dir, "/target"),
    ];
    // The last prefix that matches wins, and each of them may lie in another one.
    prefixes.sort_by_key(|(path, _)| path.as_os_str().len());
    for (path, shown) in prefixes {
        let path = path
            .to_str()
            .with_context(|| format!("{} is not UTF-8", path.display()))?;
        flags.push(format!("--remap-path-prefix={path}={shown}"));
    }
    Ok(flags.join("\x1f"))
}

pub(super) fn ensure_auditable() -> Result<PathBuf> {
    let root = peers::cache_dir()?.join(format!("{AUDITABLE}-{AUDITABLE_VERSION}"));
    let binary = root.join("bin").join(AUDITABLE);
    if !binary.exists() {
        let mut command = Command::new("cargo");
        command
            .args([
                "install",
                "--locked",
                "--quiet",
                // It runs for a moment, and is built in half the time.
                "--debug",
                AUDITABLE,
                "--version",
                AUDITABLE_VERSION,
                "--root",
            ])
            .arg(&root);
        step::run(
            &format!("install {AUDITABLE} {AUDITABLE_VERSION} into the cache (minutes, once)"),
            &mut command,
        )
        .with_context(|| format!("{AUDITABLE} could not be installed from crates.io"))?;
    }
    Ok(binary)
}
