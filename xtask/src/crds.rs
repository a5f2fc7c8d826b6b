//! `cargo xtask crds`: deploy/crds from the types of the controller.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step;

/// Where the definitions are, from the workspace's root.
const DIRECTORY: &str = "deploy/crds";

/// Writes the definitions, or with `check` fails when the files differ from them.
pub(crate) fn run(check: bool) -> Result<()> {
    let directory = Path::new(DIRECTORY);
    let fresh = tempfile::tempdir().context("cannot make a temporary directory")?;
    step::run(
        "definitions of the custom resources",
        Command::new("cargo")
            .args([
                "run",
                "--quiet",
                "-p",
                "tsunaro-controller",
                "--",
                "crds",
                "--directory",
            ])
            .arg(fresh.path()),
    )?;
    let wanted = files(fresh.path())?;
    let found = if directory.exists() {
        files(directory)?
    } else {
        BTreeMap::new()
    };
    if check {
        let stale: Vec<&str> = wanted
            .keys()
            .chain(found.keys())
            .filter(|name| wanted.get(*name) != found.get(*name))
            .map(String::as_str)
            .collect();
        if !stale.is_empty() {
            bail!(
                "{DIRECTORY} is stale ({}); run `cargo xtask crds`",
                stale.join(", ")
            );
        }
        println!("{DIRECTORY} is current: {} definitions", wanted.len());
        return Ok(());
    }
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {DIRECTORY}"))?;
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        std::fs::remove_file(directory.join(name))
            .with_context(|| format!("cannot remove {name}"))?;
    }
    for (name, content) in &wanted {
        std::fs::write(directory.join(name), content)
            .with_context(|| format!("cannot write {name}"))?;
    }
    println!("{DIRECTORY}: {} definitions", wanted.len());
    Ok(())
}

fn files(directory: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory)
        .with_context(|| format!("cannot list {}", directory.display()))?
    {
        let entry = entry.context("cannot list a directory")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let content =
            std::fs::read_to_string(entry.path()).with_context(|| format!("cannot read {name}"))?;
        files.insert(name, content);
    }
    Ok(files)
}
