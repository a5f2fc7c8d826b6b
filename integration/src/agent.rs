//! The agent's binary, built as it is now.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

/// The path of the agent to test: `TSUNARO_AGENT` if set, else the debug build of this checkout,
/// built once per process.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(|| build().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))
}

fn build() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("TSUNARO_AGENT") {
        return Ok(given.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--package", "tsunaro-agent"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .context("run cargo build")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the agent does not build:\n{stderr}");
    // A test binary lies in <target>/debug/deps.
    let test = std::env::current_exe().context("the path of this test")?;
    let directory = test.ancestors().nth(2).context("the test lies in no target directory")?;
    let agent = directory.join("tsunaro-agent");
    ensure!(agent.exists(), "{} was not built", agent.display());
    Ok(agent)
}
