//! Programs that run on this machine itself, outside the lab's namespaces.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::lab::{Process, spawner};

const KEPT: [&str; 5] = [
    "PATH",
    "HOME",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "LLVM_PROFILE_FILE",
];

/// Starts a program with its output in `log`. It dies with the returned value,
/// and with this process however that ends.
pub fn spawn_local<A: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
    log: &Path,
) -> Result<Process> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("open {}", log.display()))?;
    let start = file.metadata()?.len();
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .args(args)
        // Variables of ours, such as TSUNARO_CONFIG, would be flags of an agent.
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept)))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0);
    let name = program
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Process::new(
        name,
        spawner::spawn(command)?,
        log.to_owned(),
        start,
    ))
}
