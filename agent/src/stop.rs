//! The end: stay ready and serve on, withdraw, close; a second signal ends at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How long the withdrawal of the routes may take.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(3);

/// How long queries in flight may take after the sockets have closed.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the process is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not on its way out.
    Serving,
    /// Still ready, advertising and answering, until then.
    LameDuck(Instant),
    /// The routes are being withdrawn, until then at most.
    Withdrawing(Instant),
    /// Time to close.
    Closing,
}

impl Stage {
    /// The first signal.
    pub(crate) fn leave(now: Instant, lame_duck: Duration) -> Self {
        Self::LameDuck(now + lame_duck)
    }

    /// The stage at `now`, given whether the routes are withdrawn by now.
    pub(crate) fn advance(self, now: Instant, withdrawn: bool) -> Self {
        match self {
            Self::LameDuck(until) if now >= until => Self::Withdrawing(now + WITHDRAW_TIMEOUT),
            Self::Withdrawing(until) if withdrawn || now >= until => Self::Closing,
            other => other,
        }
    }

    /// When time alone changes the stage.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::LameDuck(until) | Self::Withdrawing(until) => Some(until),
            Self::Serving | Self::Closing => None,
        }
    }
}

/// SIGTERM and SIGINT; a SIGHUP, out of habit, must not end the process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on the signals are ours.
    ///
    /// # Errors
    /// When the handlers cannot be set.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal's name.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => {
                    tracing::info!("SIGHUP: nothing to do, files are read again when they change");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds rule 80.
    #[tokio::test(start_paused = true)]
    async fn the_lame_duck_comes_before_the_withdrawal_and_the_withdrawal_before_the_close() {
        let start = Instant::now();
        let stage = Stage::leave(start, Duration::from_secs(5));
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(stage.advance(at(4), true), stage);
        let withdrawing = stage.advance(at(5), true);
        assert_eq!(withdrawing, Stage::Withdrawing(at(8)));
        assert_eq!(withdrawing.advance(at(6), false), withdrawing);
        assert_eq!(withdrawing.advance(at(6), true), Stage::Closing);
        assert_eq!(withdrawing.advance(at(8), false), Stage::Closing);
    }
}
