//! A daemon in the node's PID namespace.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::Wait;
use crate::lab::Process;

/// A program that nsenter runs as its child, as a new PID namespace demands, and whose
/// end nsenter passes on. Dropping it kills both.
#[derive(Debug)]
pub(super) struct Daemon {
    nsenter: Process,
}

impl Daemon {
    pub(super) fn new(nsenter: Process) -> Self {
        Self { nsenter }
    }

    /// An error with the end of its log, if it has ended.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(status) = self.nsenter.try_wait()? {
            let log = self.nsenter.log();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            bail!(
                "{} has ended: {status}\n{}",
                self.nsenter.name(),
                tail.join("\n")
            );
        }
        Ok(())
    }

    /// Its process id, as the machine counts.
    pub(super) fn pid(&self) -> Result<u32> {
        Wait::new(
            format!("{} to start", self.nsenter.name()),
            Duration::from_secs(5),
        )
        .every(Duration::from_millis(2))
        .until(|| only_child(self.nsenter.pid()).map(Some))
    }

    /// Sends a signal to the program.
    pub(super) fn kill(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid()?)?);
        signal::kill(pid, signal)
            .with_context(|| format!("{signal} to {}", self.nsenter.name()))?;
        if signal == Signal::SIGCONT {
            // nsenter stops itself when its child stops.
            self.nsenter.kill(signal)?;
        }
        Ok(())
    }

    /// Ends it by a signal and waits for its end.
    pub(super) fn stop(&self, signal: Signal) -> Result<()> {
        self.kill(signal)?;
        self.nsenter.wait(Duration::from_secs(20))?;
        Ok(())
    }
}

/// The one child of a process.
pub(super) fn only_child(pid: u32) -> Result<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let mut children = children.split_whitespace();
    match (children.next(), children.next()) {
        (Some(only), None) => Ok(only.parse()?),
        _ => bail!("process {pid} has not exactly one child"),
    }
}
