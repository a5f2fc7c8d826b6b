//! The main loop's sign of life.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How often the main loop ticks.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// A loop that has not ticked for this long hangs.
const STALE: Duration = Duration::from_secs(15);

/// Shared by the loop that beats and the probe that looks.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeat {
    start: Instant,
    last_millis: Arc<AtomicU64>,
}

impl Heartbeat {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            last_millis: Arc::new(AtomicU64::new(0)),
        }
    }

    /// The main loop is alive.
    pub(crate) fn beat(&self) {
        let millis = u64::try_from(self.uptime().as_millis()).unwrap_or(u64::MAX);
        self.last_millis.store(millis, Ordering::Relaxed);
    }

    /// Time since the start.
    pub(crate) fn uptime(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether the loop ticked lately.
    pub(crate) fn is_fresh(&self) -> bool {
        let last = Duration::from_millis(self.last_millis.load(Ordering::Relaxed));
        self.uptime().saturating_sub(last) < STALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds rule 79.
    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stops_ticking_goes_stale_and_recovers() {
        let heartbeat = Heartbeat::new();
        heartbeat.beat();
        tokio::time::advance(STALE - Duration::from_millis(1)).await;
        assert!(heartbeat.is_fresh());
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(!heartbeat.is_fresh());
        heartbeat.beat();
        assert!(heartbeat.is_fresh());
    }
}
