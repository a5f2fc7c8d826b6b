//! Keeps one command running: the PID 1 of the tailscale container.
//!
//! [`machine`] decides; this is the shell around it. It owns no task and listens on nothing: one
//! loop waits for signals (SIGCHLD among them), for the machine's next deadline, and for the health
//! of the tailscaled that runs. Each wait can be dropped at any time: children are reaped until
//! none is left, so a lost wake-up loses no child, and the health is read whole at each connection.

mod backoff;
mod end;
mod machine;
mod process;
mod signals;
mod store;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tracing::{debug, error, info, warn};

use end::{End, NotStarted};
use machine::{Action, Event, Machine};
use process::Program;
use signals::{Heard, Signals};

/// Runs the command, again and again, until a signal stops us; the exit code that we end with.
/// With the socket of a tailscaled, one that is stuck is restarted too.
///
/// # Errors
/// When the system refuses what a supervisor needs, before anything was started.
pub(crate) async fn run(command: Vec<OsString>, socket: Option<PathBuf>) -> Result<u8> {
    let program = Program::new(command).context("no command to supervise")?;
    // Before the first child: no signal and no orphan of it may be missed.
    let signals = Signals::new().context("cannot handle signals")?;
    process::adopt_orphans().context("cannot adopt orphans")?;
    let machine = Machine::new(Instant::now(), rand::random());
    Ok(Supervisor {
        name: program.short_name(),
        program,
        socket,
        signals,
        machine,
        child: None,
    }
    .run()
    .await)
}

struct Supervisor {
    program: Program,
    name: String,
    socket: Option<PathBuf>,
    signals: Signals,
    machine: Machine,
    child: Option<Child>,
}

struct Child {
    pid: Pid,
    since: Instant,
    /// Done when it is stuck; None once that was told.
    stuck: Option<BoxFuture<'static, String>>,
}

impl Supervisor {
    async fn run(mut self) -> u8 {
        loop {
            let event = match self.next_heard().await {
                Woken::Signal(Heard::Children) => {
                    if let Some(code) = self.reap() {
                        return code;
                    }
                    continue;
                }
                Woken::Signal(Heard::Forward(signal)) => {
                    match self.pid() {
                        Some(pid) => info!(pid, "Passing {} on to {}.", signal.signal(), self.name),
                        None => info!("Got {} while {} does not run.", signal.signal(), self.name),
                    }
                    Event::Signal(signal)
                }
                Woken::Stuck(words) => {
                    warn!(
                        pid = self.pid(),
                        health = words,
                        "{} is stuck without its state store; restarting it.",
                        self.name
                    );
                    Event::Stuck
                }
                Woken::Deadline => Event::Tick,
            };
            if let Some(code) = self.take(event, Instant::now()) {
                return code;
            }
        }
    }

    async fn next_heard(&mut self) -> Woken {
        let deadline = self.machine.deadline();
        let time = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let watch = self.child.as_mut().and_then(|child| child.stuck.as_mut());
        let stuck = async {
            match watch {
                Some(stuck) => stuck.await,
                None => std::future::pending().await,
            }
        };
        let woken = tokio::select! {
            biased;
            heard = self.signals.next() => Woken::Signal(heard),
            words = stuck => Woken::Stuck(words),
            () = time => Woken::Deadline,
        };
        if let (Woken::Stuck(_), Some(child)) = (&woken, &mut self.child) {
            child.stuck = None;
        }
        woken
    }

    /// Reaps all that ended; the exit code if that was all.
    fn reap(&mut self) -> Option<u8> {
        loop {
            match process::reap_one() {
                Ok(None) => return None,
                Err(error) => {
                    error!(%error, "Cannot wait for children.");
                    return None;
                }
                Ok(Some(reaped)) => match self.child.take_if(|child| child.pid == reaped.pid) {
                    None => debug!(
                        pid = reaped.pid.as_raw(),
                        "Reaped an orphan: {}.", reaped.end
                    ),
                    Some(child) => {
                        let code = self.ended(&child, reaped.end);
                        if code.is_some() {
                            return code;
                        }
                    }
                },
            }
        }
    }

    fn ended(&mut self, child: &Child, end: End) -> Option<u8> {
        let now = Instant::now();
        let ran = shown(now.saturating_duration_since(child.since));
        let code = self.take(Event::Ended(end), now);
        let pid = child.pid.as_raw();
        match self.machine.deadline() {
            Some(at) => {
                let pause = shown(at.saturating_duration_since(now));
                warn!(
                    pid,
                    ?ran,
                    ?pause,
                    "{} ended: {end}; starting it again.",
                    self.name
                );
            }
            None => info!(pid, ?ran, "{} ended: {end}.", self.name),
        }
        code
    }

    /// Does what an event leads to; the exit code if all is over.
    fn take(&mut self, event: Event, now: Instant) -> Option<u8> {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            match self.machine.on(event, now)? {
                Action::Start => next = Some(self.start()),
                Action::Signal(signal) => self.send(signal.signal()),
                Action::Kill => {
                    warn!(pid = self.pid(), "{} does not end; killing it.", self.name);
                    self.send(Signal::SIGKILL);
                }
                Action::Exit(code) => return Some(code),
            }
        }
        None
    }

    fn start(&mut self) -> Event {
        match self.program.start() {
            Ok(pid) => {
                info!(pid = pid.as_raw(), "Started {}.", self.name);
                let stuck = Some(store::stuck(self.socket.clone()).boxed());
                self.child = Some(Child {
                    pid,
                    since: Instant::now(),
                    stuck,
                });
                Event::Started
            }
            Err(error) => {
                error!(%error, "Cannot start {}.", self.name);
                Event::NotStarted(NotStarted::of(&error))
            }
        }
    }

    fn send(&self, signal: Signal) {
        let Some(child) = &self.child else { return };
        if let Err(error) = process::send(child.pid, signal) {
            error!(pid = child.pid.as_raw(), %error, "Cannot send {signal} to {}.", self.name);
        }
    }

    fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(|child| child.pid.as_raw())
    }
}

/// As much of a time as a person reads.
fn shown(time: Duration) -> Duration {
    Duration::from_millis(time.as_millis().try_into().unwrap_or(u64::MAX))
}

/// Why the loop goes on.
enum Woken {
    Signal(Heard),
    /// tailscaled's words.
    Stuck(String),
    Deadline,
}
