//! Another writer: healed at once, and never fought faster than once a minute.

use std::time::Duration;

/// Between two healings of the same thing while another writer persists.
pub const HEAL_PAUSE: Duration = Duration::from_secs(60);

/// What is known of one thing that is kept at a wanted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftMemory<T> {
    /// The wanted value that was last seen to hold.
    held: Option<T>,
    /// It was seen to hold, and then no longer.
    drifted: bool,
    /// When a drift was healed last.
    healed_at: Option<Duration>,
    healings: u64,
    foreign: bool,
}

impl<T> Default for DriftMemory<T> {
    fn default() -> Self {
        Self {
            held: None,
            drifted: false,
            healed_at: None,
            healings: 0,
            foreign: false,
        }
    }
}

impl<T: Clone + PartialEq> DriftMemory<T> {
    /// Times that a drift was healed.
    pub fn healings(&self) -> u64 {
        self.healings
    }

    /// Another writer undid a healing within [`HEAL_PAUSE`], and not a quiet pause has passed since.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Whether the wanted value may be written now, else when.
    pub(super) fn may_write(&self, wanted: &T, now: Duration) -> Result<(), Duration> {
        let drift = self.drifted && self.held.as_ref() == Some(wanted);
        match self.healed_at {
            Some(at) if drift && now < at + HEAL_PAUSE => Err(at + HEAL_PAUSE),
            _ => Ok(()),
        }
    }

    /// Takes in whether the wanted value holds.
    pub(super) fn observe(&mut self, wanted: &T, holds: bool, now: Duration) {
        let healed_lately = self.healed_at.is_some_and(|at| now < at + HEAL_PAUSE);
        if holds {
            self.held = Some(wanted.clone());
            self.drifted = false;
            if !healed_lately {
                self.foreign = false;
            }
        } else if self.held.as_ref() == Some(wanted) {
            self.drifted = true;
            if healed_lately {
                self.foreign = true;
            }
        } else {
            self.drifted = false;
        }
    }

    pub(super) fn written(&mut self, now: Duration) {
        if self.drifted {
            self.healed_at = Some(now);
            self.healings += 1;
        }
    }

    pub(super) fn forget(&mut self) {
        self.held = None;
        self.drifted = false;
    }
}
