//! Sees to it that no server outlives the benchmark, however that ends: a process of its own that
//! is told of every server, and kills those that are left when the benchmark's end of a pipe
//! closes.
//!
//! Nothing stands between the benchmark and a server's start, so none of them starts later for it.

use std::collections::BTreeSet;
use std::io::{BufRead, Write, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cpu;

static GUARD: OnceLock<Mutex<Child>> = OnceLock::new();

/// Starts the guard, and ends this process with the one that started it.
pub(crate) fn start() -> Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let child = Command::new(std::env::current_exe()?)
        .arg("guard")
        .stdin(Stdio::piped())
        // What ends the benchmark from a terminal must not end its guard as well.
        .process_group(0)
        .spawn()
        .context("start the guard")?;
    // There is one benchmark in a process.
    let _ = GUARD.set(Mutex::new(child));
    Ok(())
}

/// Tells of a server that has started.
pub(crate) fn watch(pid: u32) -> Result<()> {
    tell(&format!("+{pid}"))
}

/// Tells of a server that has ended.
pub(crate) fn forget(pid: u32) -> Result<()> {
    tell(&format!("-{pid}"))
}

fn tell(line: &str) -> Result<()> {
    let Some(guard) = GUARD.get() else {
        return Ok(());
    };
    let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = guard.stdin.as_mut().context("the guard has no pipe")?;
    writeln!(pipe, "{line}").context("the guard is gone")
}

/// The guard itself.
pub(crate) fn run() -> Result<()> {
    let mut alive = BTreeSet::new();
    for line in stdin().lock().lines() {
        let line = line?;
        let (sign, pid) = line
            .split_at_checked(1)
            .context("a line of the benchmark")?;
        let pid: u32 = pid.parse()?;
        if sign == "+" {
            alive.insert(pid);
        } else {
            alive.remove(&pid);
        }
    }
    for root in alive {
        for pid in cpu::tree(root)? {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL);
        }
    }
    Ok(())
}
