//! Hysteresis: a fault shows at once, and so does its end, until it comes back again and again;
//! from then on its end shows only once it has lasted. A flap is then no storm of transitions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::report::{Condition, Tri};

/// Changes of a condition's status are counted over this time.
pub const WINDOW: Duration = Duration::from_secs(60);

/// So many changes within [`WINDOW`] show at once: three faults with their ends.
pub const PROMPT_CHANGES: usize = 6;

/// With more of them, a better status shows only after it has lasted for this long.
pub const HOLD: Duration = Duration::from_secs(20);

/// What was shown of each condition lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steady(BTreeMap<String, Track>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Track {
    shown: Condition,
    /// Times of the shown changes of status within [`WINDOW`], oldest first.
    changes: VecDeque<Duration>,
    /// Since when the true status is better than the shown one.
    better_since: Option<Duration>,
}

impl Steady {
    /// The conditions to show, of the true ones at `now` (the time since the agent's start).
    pub fn show(&mut self, conditions: Vec<Condition>, now: Duration) -> Vec<Condition> {
        conditions
            .into_iter()
            .map(|condition| match self.0.get_mut(&condition.kind) {
                Some(track) => track.show(condition, now),
                None => {
                    let track = Track {
                        shown: condition.clone(),
                        changes: VecDeque::new(),
                        better_since: None,
                    };
                    self.0.insert(condition.kind.clone(), track);
                    condition
                }
            })
            .collect()
    }

    /// Whether the end of any fault is held back, so that time alone changes what is shown.
    pub fn holds_back(&self) -> bool {
        self.0.values().any(|track| track.better_since.is_some())
    }
}

impl Track {
    fn show(&mut self, condition: Condition, now: Duration) -> Condition {
        while self
            .changes
            .front()
            .is_some_and(|change| now >= *change + WINDOW)
        {
            self.changes.pop_front();
        }
        if badness(condition.status) >= badness(self.shown.status) {
            self.better_since = None;
        } else {
            let since = *self.better_since.get_or_insert(now);
            if self.changes.len() >= PROMPT_CHANGES && now < since + HOLD {
                return Condition {
                    message: format!(
                        "{} (it is gone now, but came back again and again; it shows until it has \
                         been gone for {} s)",
                        self.shown.message,
                        HOLD.as_secs()
                    ),
                    ..self.shown.clone()
                };
            }
            self.better_since = None;
        }
        if condition.status != self.shown.status {
            self.changes.push_back(now);
            // More are never asked for.
            let surplus = self.changes.len().saturating_sub(PROMPT_CHANGES);
            self.changes.drain(..surplus);
        }
        self.shown = condition.clone();
        condition
    }
}

fn badness(status: Tri) -> u8 {
    match status {
        Tri::True => 0,
        Tri::Unknown => 1,
        Tri::False => 2,
    }
}

#[cfg(test)]
mod tests;
