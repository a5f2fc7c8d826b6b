//! The agent's and the controller's binaries, for tests that run them as users do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

use crate::Step;

const AGENT: &str = "tsunaro-agent";
const CONTROLLER: &str = "tsunaro-controller";

static AGENT_BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// The path of the agent: `TSUNARO_AGENT` where that is set, else what
/// `cargo build --workspace --bin tsunaro-agent` makes in the profile of these tests. Builds
/// at most once in a process.
pub fn agent_binary() -> Result<PathBuf> {
    AGENT_BINARY
        .get_or_init(|| find().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|text| anyhow!(text))
}

fn find() -> Result<PathBuf> {
    match std::env::var_os("TSUNARO_AGENT").filter(|value| !value.is_empty()) {
        Some(path) => {
            let path = PathBuf::from(path);
            path.canonicalize()
                .with_context(|| format!("TSUNARO_AGENT names {}", path.display()))
        }
        None => build(AGENT, Path::new(env!("CARGO_MANIFEST_DIR")), None),
    }
}

/// The path of the controller, built as [`agent_binary`] is.
pub fn controller_binary() -> Result<PathBuf> {
    controller_of(Path::new(env!("CARGO_MANIFEST_DIR")), None)
}

/// The controller of the workspace in this folder, built into another target directory where one is given.
pub fn controller_of(folder: &Path, target: Option<&Path>) -> Result<PathBuf> {
    build(CONTROLLER, folder, target)
}

fn build(package: &str, folder: &Path, target: Option<&Path>) -> Result<PathBuf> {
    let step = Step::new(format!("cargo build --workspace --bin {package}"));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--workspace", "--bin", package])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(folder)
        .stdin(Stdio::null());
    if let Some(target) = target {
        cargo.arg("--target-dir").arg(target);
    }
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().context("run cargo")?;
    if !output.status.success() {
        bail!(
            "`cargo build --bin {package}`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let path = executable(package, &String::from_utf8_lossy(&output.stdout))?;
    step.done();
    Ok(path)
}

/// The executable that cargo's messages name for the package's binary.
fn executable(package: &str, messages: &str) -> Result<PathBuf> {
    for line in messages.lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("cargo's message {line}"))?;
        let ours = message.pointer("/target/name") == Some(&package.into());
        if let Some(path) = message.get("executable").and_then(|path| path.as_str())
            && ours
        {
            return Ok(path.into());
        }
    }
    bail!("cargo named no executable of {package}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_the_executable_that_cargo_names_for_the_package() {
        let messages = "\
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"tsunaro_model\"},\"executable\":null}
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"xtask\"},\"executable\":\"/t/xtask\"}
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"tsunaro-agent\"},\"executable\":\"/t/agent\"}
{\"reason\":\"build-finished\",\"success\":true}";
        assert_eq!(
            executable(AGENT, messages).unwrap(),
            PathBuf::from("/t/agent")
        );
        assert!(executable(CONTROLLER, messages).is_err());
    }
}
