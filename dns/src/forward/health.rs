//! Passive health of one upstream (rule 53 of the DNS contract) and its smoothed round-trip time.
//!
//! ```text
//!        3 failures in a row                 probe fails: back-off doubles, at most 30 s
//!   Up ───────────────────────► Down(1 s) ─────────────────────────────┐
//!   ▲                              │  ▲────────────────────────────────┘
//!   └──────────────────────────────┘ any answer in time
//! ```

use std::time::{Duration, Instant};

/// Failures in a row that put an upstream last.
const FAILURES_TO_DOWN: u32 = 3;
/// First pause between probes.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause between probes.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Shortest wait before the next upstream is asked too (rule 50).
pub(super) const MIN_HEDGE: Duration = Duration::from_millis(200);
/// Longest wait before the next upstream is asked too (rule 50).
pub(super) const MAX_HEDGE: Duration = Duration::from_millis(400);

/// What one upstream's recent answers say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Health {
    state: State,
    consecutive_failures: u32,
    smoothed_rtt: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Up,
    Down {
        backoff: Duration,
        probe_at: Instant,
    },
}

/// Why an upstream was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It was its turn.
    Regular,
    /// It is down and gets a copy of a query that others answer.
    Probe,
}

/// What an upstream made of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It answered in time; the round trip if it could be measured (RFC 6298 §3: not after a
    /// resend).
    Answered(Option<Duration>),
    /// It failed, or was silent for too long.
    Failed(Role),
}

/// A change worth a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Put last.
    WentDown,
    /// Back in its place.
    CameUp,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            state: State::Up,
            consecutive_failures: 0,
            smoothed_rtt: None,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    pub(super) fn consecutive_failures(&self) -> u32 {
        self.consecutive_failures
    }

    pub(super) fn smoothed_rtt(&self) -> Option<Duration> {
        self.smoothed_rtt
    }

    /// How long to wait for this upstream alone before the next one is asked too.
    pub(super) fn hedge_after(&self) -> Duration {
        self.smoothed_rtt
            .map_or(MIN_HEDGE, |rtt| (rtt * 2).clamp(MIN_HEDGE, MAX_HEDGE))
    }

    /// True when a probe is due; the caller sends it. Later calls are false until the next one is.
    pub(super) fn take_probe(&mut self, now: Instant) -> bool {
        match &mut self.state {
            State::Down { backoff, probe_at } if now >= *probe_at => {
                *probe_at = now + *backoff;
                true
            }
            State::Down { .. } | State::Up => false,
        }
    }

    /// Takes in what came of a query.
    pub(super) fn record(&mut self, verdict: Verdict, now: Instant) -> Option<Change> {
        match verdict {
            Verdict::Answered(rtt) => {
                self.smooth(rtt);
                self.consecutive_failures = 0;
                let was = std::mem::replace(&mut self.state, State::Up);
                (was != State::Up).then_some(Change::CameUp)
            }
            Verdict::Failed(role) => {
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                match &mut self.state {
                    State::Up if self.consecutive_failures >= FAILURES_TO_DOWN => {
                        self.state = State::Down {
                            backoff: MIN_BACKOFF,
                            probe_at: now + MIN_BACKOFF,
                        };
                        Some(Change::WentDown)
                    }
                    State::Down { backoff, probe_at } if role == Role::Probe => {
                        *backoff = (*backoff * 2).min(MAX_BACKOFF);
                        *probe_at = now + *backoff;
                        None
                    }
                    State::Up | State::Down { .. } => None,
                }
            }
        }
    }

    /// RFC 6298 §2: a new sample weighs one eighth.
    fn smooth(&mut self, sample: Option<Duration>) {
        let Some(sample) = sample else { return };
        self.smoothed_rtt = Some(
            self.smoothed_rtt
                .map_or(sample, |old| old * 7 / 8 + sample / 8),
        );
    }
}

#[cfg(test)]
mod tests;
