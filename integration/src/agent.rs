//! The agent's binary, for tests that run it as users do.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

use crate::Step;

const PACKAGE: &str = "tsunaro-agent";

static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// The path of the agent: `TSUNARO_AGENT` where that is set, else what
/// `cargo build --workspace --bin tsunaro-agent` makes in the profile of these tests. Builds
/// at most once in a process.
pub fn agent_binary() -> Result<PathBuf> {
    BINARY
        .get_or_init(|| find().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|text| anyhow!(text))
}

fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TSUNARO_AGENT").filter(|value| !value.is_empty()) {
        let path = PathBuf::from(path);
        return path
            .canonicalize()
            .with_context(|| format!("TSUNARO_AGENT names {}", path.display()));
    }
    let step = Step::new("cargo build --workspace --bin tsunaro-agent");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--workspace", "--bin", PACKAGE])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null());
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().context("run cargo")?;
    if !output.status.success() {
        bail!(
            "`cargo build --bin {PACKAGE}`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let path = executable(&String::from_utf8_lossy(&output.stdout))?;
    step.done();
    Ok(path)
}

/// The executable that cargo's messages name for the package's binary.
fn executable(messages: &str) -> Result<PathBuf> {
    for line in messages.lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("cargo's message {line}"))?;
        let ours = message.pointer("/target/name") == Some(&PACKAGE.into());
        if let Some(path) = message.get("executable").and_then(|path| path.as_str())
            && ours
        {
            return Ok(path.into());
        }
    }
    bail!("cargo named no executable of {PACKAGE}")
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
        assert_eq!(executable(messages).unwrap(), PathBuf::from("/t/agent"));
        assert!(executable("{\"reason\":\"build-finished\"}").is_err());
    }
}
