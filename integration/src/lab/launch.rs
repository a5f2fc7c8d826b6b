//! Starting built command lines: into a log, or to their end.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::command::Cmd;
use super::process::{Output, Process};
use super::spawner;
use crate::Wait;

/// Gives the command the program's own environment, its directory, no standard
/// input, and a process group of its own, so that what it forks can be killed with it.
pub(crate) fn settle(command: &mut Command, cmd: &Cmd, dir: &Path) {
    command
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("HOME", dir)
        .env("LANG", "C.UTF-8");
    for name in ["RUST_LOG", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(cmd.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(dir).stdin(Stdio::null());
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// Starts a command whose output goes to the end of the log.
pub(crate) fn spawn_logged(
    mut command: Command,
    name: String,
    log_path: PathBuf,
) -> Result<Process> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log_path)
        .with_context(|| format!("open {}", log_path.display()))?;
    let log_start = log.metadata()?.len();
    command.stdout(log.try_clone()?).stderr(log);
    let child = spawner::spawn(command)?;
    Ok(Process::new(name, child, log_path, log_start))
}

/// Runs a short command to its end; kills it at its timeout.
pub(crate) fn run_to_end(
    mut command: Command,
    display: String,
    at: &str,
    timeout: Duration,
) -> Result<Output> {
    // Files, not pipes: nothing has to read them while the command runs.
    let stdout = tempfile::NamedTempFile::new()?;
    let stderr = tempfile::NamedTempFile::new()?;
    command.stdout(stdout.reopen()?).stderr(stderr.reopen()?);
    let process = Process::new(
        format!("`{display}` on {at}"),
        spawner::spawn(command)?,
        stderr.path().to_owned(),
        0,
    );
    let status = Wait::new(format!("the end of {}", process.name()), timeout)
        .every(Duration::from_millis(3))
        .logs([stdout.path().to_owned(), stderr.path().to_owned()])
        .until(|| process.try_wait())?;
    let read = |path: &Path| -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
    };
    Ok(Output {
        status,
        stdout: read(stdout.path())?,
        stderr: read(stderr.path())?,
        command: display,
    })
}
