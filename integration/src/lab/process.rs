//! A running program of the lab.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::Wait;

/// A started program. Dropping it kills its process group.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Mutex<Child>,
    pid: u32,
    log: PathBuf,
    log_start: u64,
}

impl Process {
    pub(crate) fn new(name: String, child: Child, log: PathBuf, log_start: u64) -> Self {
        let pid = child.id();
        Self {
            name,
            child: Mutex::new(child),
            pid,
            log,
            log_start,
        }
    }

    /// The program's process id: of the program itself, for the chain that
    /// enters the namespace replaces itself by it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The name given when it was started.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file with its stdout and stderr.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// What it wrote since it was started; earlier runs under the same name
    /// are in the same file, before that.
    #[must_use]
    pub fn log(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.log)?;
            file.seek(SeekFrom::Start(self.log_start))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("{}: {error}", self.log.display()),
        }
    }

    /// Its exit status, if it has ended.
    pub fn try_wait(&self) -> Result<Option<ExitStatus>> {
        self.child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .try_wait()
            .with_context(|| format!("wait for {}", self.name))
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.try_wait(), Ok(None))
    }

    /// Sends a signal to the program alone; an error if it has ended.
    pub fn kill(&self, signal: Signal) -> Result<()> {
        // Under the lock and unreaped, so that the pid is still its own.
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = child.try_wait()? {
            bail!("{} has ended already: {status}", self.name);
        }
        signal::kill(self.nix_pid()?, signal).with_context(|| format!("{signal} to {}", self.name))
    }

    /// Waits for its end; on a timeout the error shows the end of its log.
    pub fn wait(&self, timeout: Duration) -> Result<ExitStatus> {
        Wait::new(
            format!("the end of {} (pid {})", self.name, self.pid),
            timeout,
        )
        .every(Duration::from_millis(10))
        .logs([self.log.clone()])
        .until(|| self.try_wait())
    }

    /// SIGTERM, then waits for the end.
    pub fn terminate(&self, timeout: Duration) -> Result<ExitStatus> {
        self.kill(Signal::SIGTERM)?;
        self.wait(timeout)
    }

    /// SIGKILL to the program and its process group, and reaps it.
    pub fn kill_now(&self) -> Result<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        // ESRCH: it has just ended, or left its group; the next line sees to it.
        let _ = signal::killpg(self.nix_pid()?, Signal::SIGKILL);
        child.kill()?;
        Ok(child.wait()?)
    }

    fn nix_pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.pid)?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The lab's own drop kills what this cannot.
        let _ = self.kill_now();
    }
}

/// What a short command left behind.
#[derive(Debug)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    pub(super) command: String,
}

impl Output {
    /// Whether it exited with 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status.success()
    }

    /// Standard output of a command that succeeded; else an error with all it said.
    pub fn ok(self) -> Result<String> {
        if self.success() {
            return Ok(self.stdout);
        }
        let end = match self.status.signal() {
            Some(signal) => format!("signal {signal}"),
            None => format!("exit {}", self.status.code().unwrap_or(-1)),
        };
        bail!(
            "`{}`: {end}: {}{}",
            self.command,
            self.stderr.trim(),
            self.stdout.trim()
        )
    }
}
