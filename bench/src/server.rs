//! A server under measurement: on a core of its own, ended when dropped.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tsunaro_integration::wire;

use crate::content;
use crate::cpu::{self, Cpu};

/// The core that servers have.
pub(crate) const SERVER_CORE: usize = 0;
/// The core of the load generator, and of upstreams.
pub(crate) const LOAD_CORE: usize = 1;

/// A running server.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    child: Child,
    log: PathBuf,
}

/// Puts this process, and what it starts from now on, on a core.
pub(crate) fn take_core(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .with_context(|| format!("take core {core}; the benchmark needs two"))
}

impl Server {
    /// Starts a program on a core.
    pub(crate) fn spawn(
        name: &'static str,
        address: SocketAddr,
        core: usize,
        dir: &Path,
        command: &mut Command,
    ) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output = File::create(&log)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        take_core(core)?;
        let child = command.spawn().with_context(|| format!("start {name}"));
        take_core(LOAD_CORE)?;
        Ok(Self {
            name,
            address,
            child: child?,
            log,
        })
    }

    /// Waits until the server answers a question, and says how long that took.
    pub(crate) fn until_it_answers(&mut self, name: &str) -> Result<Duration> {
        let began = Instant::now();
        let query = content::query(name, 1);
        while began.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{} ended ({status}):\n{log}", self.name);
            }
            let reply = wire::udp(self.address, &query, Duration::from_millis(2));
            if let Ok(Some(reply)) = reply
                && reply.octets.get(3).is_some_and(|bits| bits & 0x0f == 0)
                && reply.octets.get(7).is_some_and(|count| *count > 0)
            {
                return Ok(began.elapsed());
            }
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        bail!("{} does not answer for {name}:\n{log}", self.name)
    }

    /// What it has used so far.
    pub(crate) fn cpu(&self) -> Result<Cpu> {
        cpu::used(self.child.id())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the first process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(
            Pid::from_raw(i32::try_from(self.child.id())?),
            signal,
        )?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for pid in cpu::tree(self.child.id()).unwrap_or_default() {
            if let Ok(pid) = i32::try_from(pid) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        let _ = self.child.wait();
    }
}
