//! `cargo xtask crds`: what the controller prints, as files in deploy: the definitions of the custom
//! resources, and the objects of the worked example.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;

use crate::step;

/// Where the definitions are, from the workspace's root.
const DEFINITIONS: &str = "deploy/crds";
/// The objects of the worked example.
const MANIFEST: &str = "deploy/manifests/3-gateway.yaml";
/// The worked example as custom resources.
const EXAMPLE: [&str; 2] = [
    "docs/examples/prod-1/kubernetes/tailnetgateway.yaml",
    "docs/examples/prod-1/kubernetes/tailnet.yaml",
];

/// Writes the files, or with `check` fails when they are stale.
pub(crate) fn run(check: bool) -> Result<()> {
    let wanted = wanted()?;
    let found = found(&wanted)?;
    let paths: BTreeSet<&str> = wanted
        .keys()
        .chain(found.keys())
        .map(String::as_str)
        .collect();
    let stale: Vec<&str> = paths
        .into_iter()
        .filter(|path| wanted.get(*path) != found.get(*path))
        .collect();
    if check && !stale.is_empty() {
        bail!("stale: {}; run `cargo xtask crds`", stale.join(", "));
    }
    for path in stale {
        match wanted.get(path) {
            Some(content) => {
                std::fs::write(path, content).with_context(|| format!("cannot write {path}"))?;
            }
            None => {
                std::fs::remove_file(path).with_context(|| format!("cannot remove {path}"))?;
            }
        }
    }
    let definitions = wanted.len() - 1;
    println!("current: {definitions} definitions in {DEFINITIONS}, and {MANIFEST}");
    Ok(())
}

/// The files as they should be.
fn wanted() -> Result<BTreeMap<String, String>> {
    step::run(
        "the controller",
        Command::new("cargo").args([
            "build",
            "--quiet",
            "--workspace",
            "--bin",
            "tsunaro-controller",
        ]),
    )?;
    let fresh = tempfile::tempdir().context("cannot make a temporary directory")?;
    let directory = fresh
        .path()
        .to_str()
        .context("the temporary directory is not UTF-8")?;
    controller(&["crds", "--directory", directory])?;
    let mut files = BTreeMap::new();
    for (name, content) in read_all(fresh.path())? {
        files.insert(format!("{DEFINITIONS}/{name}"), content);
    }
    let [gateway, tailnet] = EXAMPLE;
    let objects = controller(&["render", "-f", gateway, "-f", tailnet])?;
    let objects = String::from_utf8(objects.stdout).context("the objects are not UTF-8")?;
    let manifest = format!(
        "# Written by `cargo xtask crds`: what `tsunaro-controller render` prints for\n\
         # {gateway} and\n# {tailnet}.\n\
         # docs/controller-objects.md has a reason for each setting.\n{objects}"
    );
    files.insert(MANIFEST.to_owned(), manifest);
    Ok(files)
}

/// The files as they are: all of the directory of definitions, and the manifest.
fn found(wanted: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for path in wanted.keys() {
        let directory = Path::new(path).parent().context("a file has a directory")?;
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    for (name, content) in read_all(Path::new(DEFINITIONS))? {
        files.insert(format!("{DEFINITIONS}/{name}"), content);
    }
    if Path::new(MANIFEST).exists() {
        let content =
            std::fs::read_to_string(MANIFEST).with_context(|| format!("cannot read {MANIFEST}"))?;
        files.insert(MANIFEST.to_owned(), content);
    }
    Ok(files)
}

fn controller(args: &[&str]) -> Result<Output> {
    let program = MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cargo metadata failed")?
        .target_directory
        .into_std_path_buf()
        .join("debug/tsunaro-controller");
    let output = Command::new(&program)
        .args(args)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "tsunaro-controller {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output)
}

fn read_all(directory: &Path) -> Result<BTreeMap<String, String>> {
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
