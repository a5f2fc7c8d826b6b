//! What is built: the checkout, its commit and its time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;
use jiff::Timestamp;

/// The checkout.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) root: PathBuf,
    pub(super) target_directory: PathBuf,
    pub(super) version: String,
    pub(super) license: String,
    /// The commit's hash, with `-dirty` where files differ from it.
    pub(super) commit: String,
    /// The commit's time, or SOURCE_DATE_EPOCH: the only time that goes into the image.
    pub(super) committed: Timestamp,
}

impl Source {
    /// Reads the workspace and git. The version and the licence are those of the package.
    pub(super) fn read(package: &str) -> Result<Self> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("cargo metadata failed")?;
        let package = metadata
            .packages
            .iter()
            .find(|each| each.name == package)
            .context("no such package")?;
        let commit = git(&["rev-parse", "HEAD"])?;
        let clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(seconds) => seconds,
            Err(_) => git(&["log", "-1", "--format=%ct"])?,
        };
        let seconds = seconds
            .parse()
            .with_context(|| format!("\"{seconds}\" is no number of seconds"))?;
        Ok(Self {
            version: package.version.to_string(),
            license: package
                .license
                .clone()
                .context("the package has no license")?,
            root: metadata.workspace_root.into(),
            target_directory: metadata.target_directory.into(),
            commit: if clean {
                commit
            } else {
                format!("{commit}-dirty")
            },
            committed: Timestamp::from_second(seconds).context("the commit's time")?,
        })
    }

    /// The commit as `--version` shows it.
    pub(super) fn short_commit(&self) -> String {
        let (hash, rest) = self.commit.split_at(self.commit.len().min(12));
        let dirty = if rest.ends_with("-dirty") {
            "-dirty"
        } else {
            ""
        };
        format!("{hash}{dirty}")
    }

    /// The labels that the image specification names.
    pub(super) fn labels(&self, title: &str, description: &str) -> BTreeMap<String, String> {
        [
            ("title", title),
            ("description", description),
            ("licenses", &self.license),
            ("version", &self.version),
            ("revision", &self.commit),
        ]
        .map(|(key, value)| (format!("org.opencontainers.image.{key}"), value.to_owned()))
        .into()
    }
}

fn git(args: &[&str]) -> Result<String> {
    output(Command::new("git").args(args))
}

/// What a short command prints, without the white space around it.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
