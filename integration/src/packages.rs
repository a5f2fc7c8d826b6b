//! The Debian packages that the lab needs.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::Step;

const LIST: &str = include_str!("../apt-packages.txt");

/// The packages' names, in the order of the list.
pub fn names() -> impl Iterator<Item = &'static str> {
    LIST.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Those that are not installed.
pub fn missing() -> Vec<&'static str> {
    names().filter(|name| !installed(name)).collect()
}

fn installed(name: &str) -> bool {
    Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}", name])
        .output()
        .is_ok_and(|output| output.stdout == b"installed")
}

/// Installs what is missing; needs root.
pub fn install() -> Result<()> {
    install_these(&missing())
}

/// Installs these packages, of which there may be none; needs root.
pub fn install_these(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("not root; as root: apt-get install {}", missing.join(" "));
    }
    let step = Step::announced(format!("apt-get install {}", missing.join(" ")));
    apt(&["update", "--quiet=2"])?;
    let mut args = vec!["install", "--yes", "--quiet=2", "--no-install-recommends"];
    args.extend(missing);
    apt(&args)?;
    step.done();
    Ok(())
}

fn apt(args: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("run apt-get")?;
    if !output.status.success() {
        bail!(
            "apt-get {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
