//! A server under measurement: on a core of its own, ended when dropped.

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::content;
use crate::cpu::{self, Cpu};
use crate::guard;

/// The core that servers have.
pub(crate) const SERVER_CORE: usize = 0;
/// The core of the load generator, and of upstreams.
pub(crate) const LOAD_CORE: usize = 1;

/// Between two questions to a server that starts.
const AGAIN: Duration = Duration::from_micros(250);

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
        let server = Self {
            name,
            address,
            child: child?,
            log,
        };
        guard::watch(server.pid())?;
        Ok(server)
    }

    /// Waits until the server answers a question, and says how long that took. It is asked every
    /// [`AGAIN`]: more often would take from it the time that it needs to start.
    pub(crate) fn until_it_answers(&mut self, name: &str) -> Result<Duration> {
        let began = Instant::now();
        let query = content::query(name, 1);
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.connect(self.address)?;
        socket.set_nonblocking(true)?;
        while began.elapsed() < Duration::from_secs(300) {
            let asked = Instant::now();
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{} ended ({status}):\n{log}", self.name);
            }
            if answers(&socket, &query)? {
                return Ok(began.elapsed());
            }
            // No event tells that a server is ready.
            ppoll(
                &mut [],
                Some(AGAIN.saturating_sub(asked.elapsed()).into()),
                None,
            )?;
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

/// Asks once; true when records come back within [`AGAIN`], or have come since the last time.
fn answers(socket: &UdpSocket, query: &[u8]) -> Result<bool> {
    // An error is that of a port where nobody listens yet.
    if socket.send(query).is_err() {
        return Ok(false);
    }
    let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    ppoll(&mut ready, Some(AGAIN.into()), None)?;
    let mut reply = [0; 512];
    while let Ok(length) = socket.recv(&mut reply) {
        let reply = reply.get(..length).unwrap_or_default();
        let no_error = reply.get(3).is_some_and(|bits| bits & 0x0f == 0);
        if no_error && reply.get(7).is_some_and(|count| *count > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Drop for Server {
    fn drop(&mut self) {
        for pid in cpu::tree(self.child.id()).unwrap_or_default() {
            if let Ok(pid) = i32::try_from(pid) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        let _ = self.child.wait();
        let _ = guard::forget(self.child.id());
    }
}
