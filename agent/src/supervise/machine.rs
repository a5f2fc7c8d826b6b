//! What to do when: pure, with the time passed in.
//!
//! ```text
//!            start             ended                 its time
//!   Waiting ───────► Starting ┄┄┄┄┄► Waiting ◄─────────────────┐
//!                       │ started                              │
//!                       ▼           stuck                ended │
//!                    Running ──────────────► Replacing ────────┤
//!                       │ └────────────────────────────────────┘
//!                       │ SIGTERM, SIGINT (from every state)
//!                       ▼         ended
//!                    Stopping ────────────► Done
//! ```

use std::time::{Duration, Instant};

use super::backoff::{Backoff, RAN_WELL};
use super::end::{End, NotStarted};
use super::signals::Forwarded;

/// How long a stuck child may take to end after SIGTERM. tailscaled takes 0.2 s, and one that is
/// stuck serves nobody.
pub(super) const REPLACE_TIMEOUT: Duration = Duration::from_secs(10);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The child that was asked for runs.
    Started,
    /// The child that was asked for could not be started.
    NotStarted(NotStarted),
    /// The child ended.
    Ended(End),
    /// The child runs, but only a restart makes it work.
    Stuck,
    /// Somebody signalled us.
    Signal(Forwarded),
    /// Time passed.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Start the child, and tell whether that worked.
    Start,
    /// Send the child this signal.
    Signal(Forwarded),
    /// End the child, which does not end by itself.
    Kill,
    /// Nothing is left to do: exit with this code.
    Exit(u8),
}

/// The supervisor's state. Every event is answered by at most one action.
#[derive(Debug)]
pub(super) struct Machine {
    state: State,
    backoff: Backoff,
    /// A child has run: that the command exists is known.
    has_started: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No child; the next one starts then.
    Waiting(Instant),
    /// A child was asked for.
    Starting,
    /// A child runs since then.
    Running(Instant),
    /// A stuck child was told to end and may take until then; None once it was killed.
    Replacing(Option<Instant>),
    /// We were told to stop, and wait for as long as the child takes: whoever stops us decides
    /// when it has been too long, and kills us both.
    Stopping,
    /// All is over.
    Done,
}

impl Machine {
    /// Nothing runs; the first [`Event::Tick`] starts the child. `seed` decides the jitter.
    pub(super) fn new(now: Instant, seed: u64) -> Self {
        Self {
            state: State::Waiting(now),
            backoff: Backoff::new(seed),
            has_started: false,
        }
    }

    /// When a [`Event::Tick`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(until) => Some(until),
            State::Replacing(until) => until,
            State::Starting | State::Running(_) | State::Stopping | State::Done => None,
        }
    }

    /// Takes one event.
    pub(super) fn on(&mut self, event: Event, now: Instant) -> Option<Action> {
        match event {
            Event::Started => self.on_started(now),
            Event::NotStarted(why) => self.on_not_started(why, now),
            Event::Ended(end) => self.on_ended(end, now),
            Event::Stuck => self.on_stuck(now),
            Event::Signal(signal) => self.on_signal(signal),
            Event::Tick => self.on_tick(now),
        }
    }

    fn on_started(&mut self, now: Instant) -> Option<Action> {
        if self.state == State::Starting {
            self.has_started = true;
            self.state = State::Running(now);
        }
        None
    }

    fn on_not_started(&mut self, why: NotStarted, now: Instant) -> Option<Action> {
        if self.state != State::Starting {
            return None;
        }
        // A command that never was there is a mistake of whoever wrote it; one that vanished, or a
        // machine out of memory, may come back.
        if let Some(code) = why.exit_code().filter(|_| !self.has_started) {
            return self.exit(code);
        }
        self.wait(now)
    }

    fn on_ended(&mut self, end: End, now: Instant) -> Option<Action> {
        match self.state {
            State::Running(since) => {
                if now.saturating_duration_since(since) >= RAN_WELL {
                    self.backoff.reset();
                }
                self.wait(now)
            }
            // However long a stuck child ran, it did not run well.
            State::Replacing(_) => self.wait(now),
            State::Stopping => self.exit(end.exit_code()),
            State::Waiting(_) | State::Starting | State::Done => None,
        }
    }

    fn on_stuck(&mut self, now: Instant) -> Option<Action> {
        let State::Running(_) = self.state else {
            return None;
        };
        self.state = State::Replacing(Some(now + REPLACE_TIMEOUT));
        Some(Action::Signal(Forwarded::Terminate))
    }

    fn on_signal(&mut self, signal: Forwarded) -> Option<Action> {
        match self.state {
            State::Running(_) | State::Replacing(_) | State::Stopping => {
                if signal.stops() {
                    self.state = State::Stopping;
                }
                Some(Action::Signal(signal))
            }
            State::Waiting(_) | State::Starting if signal.stops() => {
                self.exit(End::Signal(signal.number()).exit_code())
            }
            State::Waiting(_) | State::Starting | State::Done => None,
        }
    }

    fn on_tick(&mut self, now: Instant) -> Option<Action> {
        match self.state {
            State::Waiting(until) if now >= until => {
                self.state = State::Starting;
                Some(Action::Start)
            }
            State::Replacing(Some(until)) if now >= until => {
                self.state = State::Replacing(None);
                Some(Action::Kill)
            }
            _ => None,
        }
    }

    fn wait(&mut self, now: Instant) -> Option<Action> {
        self.state = State::Waiting(now + self.backoff.next());
        None
    }

    fn exit(&mut self, code: u8) -> Option<Action> {
        self.state = State::Done;
        Some(Action::Exit(code))
    }
}

#[cfg(test)]
mod tests;
