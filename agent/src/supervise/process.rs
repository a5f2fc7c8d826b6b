//! The child process: start, signal, reap. All without blocking.
//!
//! Nothing else in this process waits for children, so a pid that was not reaped yet is that of
//! our child or of an orphan that was given to us.

use std::ffi::OsString;
use std::io;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{WaitOptions, wait};

use super::end::End;

/// The command to supervise.
#[derive(Debug)]
pub(super) struct Program {
    name: OsString,
    args: Vec<OsString>,
}

/// A process that ended and was reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reaped {
    pub(super) pid: Pid,
    pub(super) end: End,
}

impl Program {
    /// Its words; None when there is none.
    pub(super) fn new(words: Vec<OsString>) -> Option<Self> {
        let mut words = words.into_iter();
        Some(Self {
            name: words.next()?,
            args: words.collect(),
        })
    }

    /// Its name without the directories.
    pub(super) fn short_name(&self) -> String {
        let path = std::path::Path::new(&self.name);
        path.file_name()
            .unwrap_or(&self.name)
            .to_string_lossy()
            .into_owned()
    }

    /// Starts it with our standard streams, environment and directory.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn start(&self) -> io::Result<Pid> {
        let child = Command::new(&self.name).args(&self.args).spawn()?;
        i32::try_from(child.id())
            .map(Pid::from_raw)
            .map_err(io::Error::other)
    }
}

/// Lets the orphans of our descendants become our children, as they do where we are PID 1.
///
/// # Errors
/// What the kernel says.
pub(super) fn adopt_orphans() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Sends a signal to a child that was not reaped.
///
/// # Errors
/// What the kernel says; that the child just ended is none.
pub(super) fn send(pid: Pid, signal: Signal) -> nix::Result<()> {
    match kill(pid, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}

/// Reaps one child that has ended, if there is any.
///
/// # Errors
/// What the kernel says; that there are no children is none.
pub(super) fn reap_one() -> io::Result<Option<Reaped>> {
    loop {
        return match wait(WaitOptions::NOHANG) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::CHILD) | Ok(None) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(Some((pid, status))) => match End::of(status) {
                Some(end) => Ok(Some(Reaped {
                    pid: Pid::from_raw(pid.as_raw_nonzero().get()),
                    end,
                })),
                None => continue,
            },
        };
    }
}
