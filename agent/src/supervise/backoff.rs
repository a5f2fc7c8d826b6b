//! How long to wait before the next start.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// No pause is longer.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The second pause; the first is none at all.
const MIN_PAUSE: Duration = Duration::from_millis(250);

/// A child that ran for so long had come up: a tailscaled is Running 8 to 9 s after its start,
/// its captive-portal probe included.
pub(super) const RAN_WELL: Duration = Duration::from_secs(30);

/// Pauses between an end and the next start: none at first, then growing with jitter to
/// [`MAX_PAUSE`].
#[derive(Debug)]
pub(super) struct Backoff {
    seed: u64,
    /// None: the next start comes at once.
    growing: Option<ExponentialBackoff>,
}

impl Backoff {
    /// `seed` decides the jitter.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            growing: None,
        }
    }

    /// The pause before the next start.
    pub(super) fn next(&mut self) -> Duration {
        match &mut self.growing {
            None => {
                self.growing = Some(growing(self.seed));
                Duration::ZERO
            }
            Some(growing) => growing.next().unwrap_or(MAX_PAUSE).min(MAX_PAUSE),
        }
    }

    /// The child ran well: the next end is a first one again.
    pub(super) fn reset(&mut self) {
        // Else the pauses of each row would be the same.
        self.seed = self.seed.wrapping_add(1);
        self.growing = None;
    }
}

fn growing(seed: u64) -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(MIN_PAUSE)
        // The jitter adds up to as much again.
        .with_max_delay(MAX_PAUSE / 2)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(seed)
        .build()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_start_is_at_once_and_the_pauses_grow_to_the_limit(seed: u64) {
            let mut backoff = Backoff::new(seed);
            for _ in 0..2 {
                prop_assert_eq!(backoff.next(), Duration::ZERO);
                let mut floor = MIN_PAUSE;
                for _ in 0..12 {
                    let pause = backoff.next();
                    prop_assert!(pause >= floor && pause <= floor * 2, "{:?} after {:?}", pause, floor);
                    prop_assert!(pause <= MAX_PAUSE);
                    floor = (floor * 2).min(MAX_PAUSE / 2);
                }
                backoff.reset();
            }
        }
    }

    #[test]
    fn two_seeds_wait_differently() {
        let pauses = |seed| {
            let mut backoff = Backoff::new(seed);
            (0..6).map(|_| backoff.next()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }
}
