//! Holds the arrows between crates and the size of files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// Which workspace crates a crate may depend on (dev-dependencies apart). A crate that is missing
/// here is an error, so that a new one is placed on purpose.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tsunaro-model", &[]),
    ("tsunaro-dns", &["tsunaro-model"]),
    ("tsunaro-netlink", &["tsunaro-model"]),
    ("tsunaro-localapi", &["tsunaro-model"]),
    (
        "tsunaro-agent",
        &[
            "tsunaro-model",
            "tsunaro-dns",
            "tsunaro-netlink",
            "tsunaro-localapi",
        ],
    ),
    ("tsunaro-controller", &["tsunaro-model"]),
    ("tsunaro-integration", &[]),
    ("tsunaro-bench", &["tsunaro-integration"]),
    ("xtask", &["tsunaro-integration"]),
];

/// Crates that would bring I/O, a clock or async into the pure core.
const NOT_IN_MODEL: &[&str] = &[
    "tokio",
    "mio",
    "hyper",
    "axum",
    "nix",
    "socket2",
    "rtnetlink",
    "notify",
    "jiff",
    "futures",
    "rand",
];

/// Lines that a source file may have.
const MAX_LINES: usize = 600;

pub(crate) fn run() -> Result<()> {
    let mut faults = crate_faults()?;
    let (sizes, size_faults) = file_sizes()?;
    faults.extend(size_faults);
    if !faults.is_empty() {
        bail!("the architecture does not hold:\n  {}", faults.join("\n  "));
    }
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    let largest = sizes.last().copied().unwrap_or(0);
    println!(
        "architecture holds: {} crates, {} files, median {median} lines, largest {largest}",
        ALLOWED.len(),
        sizes.len()
    );
    Ok(())
}

fn crate_faults() -> Result<Vec<String>> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cargo metadata failed")?;
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let members: BTreeSet<&str> = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(may) = allowed.get(name) else {
            faults.push(format!(
                "{name} has no place in xtask's table of arrows; add it to ALLOWED"
            ));
            continue;
        };
        for dependency in package
            .dependencies
            .iter()
            .filter(|d| d.kind != DependencyKind::Development)
        {
            let to = dependency.name.as_str();
            if members.contains(to) && !may.contains(&to) {
                faults.push(format!(
                    "{name} depends on {to}; it may depend on [{}] only",
                    may.join(", ")
                ));
            }
            if name == "tsunaro-model" && NOT_IN_MODEL.contains(&to) {
                faults.push(format!(
                    "tsunaro-model depends on {to}; the pure core has no I/O, clock or async"
                ));
            }
        }
    }
    Ok(faults)
}

/// Sorted line counts of all Rust files, and the files that are too long.
fn file_sizes() -> Result<(Vec<usize>, Vec<String>)> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "*.rs",
        ])
        .output()
        .context("git ls-files failed")?;
    let mut sizes = Vec::new();
    let mut faults = Vec::new();
    for path in String::from_utf8(output.stdout)
        .context("git ls-files printed no UTF-8")?
        .lines()
    {
        if !Path::new(path).exists() {
            continue;
        }
        let lines = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {path}"))?
            .lines()
            .count();
        if lines > MAX_LINES {
            faults.push(format!(
                "{path} has {lines} lines; split it below {MAX_LINES}"
            ));
        }
        sizes.push(lines);
    }
    sizes.sort_unstable();
    Ok((sizes, faults))
}
