//! `cargo xtask node`: the same node for a person.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::traces;

use crate::{Named, Shared};

pub(crate) const TESTS: &[Named] = &[(
    "held::a_node_for_a_person_outlives_the_command_that_starts_it_and_ends_on_demand",
    a_node_for_a_person_outlives_its_command,
)];

/// Runs `cargo xtask node --name NAME ARGS`.
fn xtask(name: &str, args: &[&str]) -> Result<Output> {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "node",
            "--name",
            name,
        ])
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("run cargo")
}

fn succeed(name: &str, args: &[&str]) -> Result<String> {
    let output = xtask(name, args)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{args:?}: {}: {stderr}",
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn a_node_for_a_person_outlives_its_command(_: &Shared) -> Result<()> {
    let name = format!("test-{}", std::process::id());
    let said = succeed(&name, &["up"])?;
    let id = said
        .split("tsl-")
        .nth(1)
        .and_then(|rest| rest.split('-').next());
    let id = id.with_context(|| format!("`up` names no namespace: {said}"))?;
    // Whatever fails below, the node is ended.
    let checked = check_running(&name);
    succeed(&name, &["down"])?;
    checked?;
    assert_eq!(traces(id)?, Vec::<String>::new());
    let output = xtask(&name, &["kubectl", "version"])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let remedy = format!("cargo xtask node --name {name} up");
    assert!(
        !output.status.success() && stderr.contains(&remedy),
        "{stderr}"
    );
    Ok(())
}

fn check_running(name: &str) -> Result<()> {
    let nodes = succeed(name, &["kubectl", "get", "nodes", "--no-headers"])?;
    ensure!(nodes.contains(" Ready "), "{nodes}");
    let output = xtask(name, &["kubectl", "get", "pod", "absent"])?;
    ensure!(
        output.status.code() == Some(1),
        "kubectl's exit code is lost: {}",
        output.status
    );
    let again = xtask(name, &["up"])?;
    let stderr = String::from_utf8_lossy(&again.stderr);
    ensure!(
        !again.status.success() && stderr.contains("runs already"),
        "{stderr}"
    );
    Ok(())
}
