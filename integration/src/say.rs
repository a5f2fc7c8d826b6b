//! One line about what is going on, so that a long step is never silent.

use std::io::Write;
use std::time::Instant;

/// Writes one line to stderr past the test harness's capture, which would
/// hold it back until the test has failed.
pub fn say(line: &str) {
    let mut stderr = std::io::stderr().lock();
    // A closed stderr is no reason to fail a test.
    let _ = writeln!(stderr, "lab: {line}");
}

/// A step that says at its end how long it took.
pub struct Step {
    what: String,
    started: Instant,
}

impl Step {
    /// Starts the clock; says nothing yet.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            started: Instant::now(),
        }
    }

    /// Says what begins, for steps of many seconds.
    #[must_use]
    pub fn announced(what: impl Into<String>) -> Self {
        let step = Self::new(what);
        say(&format!("{} …", step.what));
        step
    }

    /// Says the step and its duration in seconds.
    pub fn done(self) {
        say(&format!(
            "{}: {:.1} s",
            self.what,
            self.started.elapsed().as_secs_f64()
        ));
    }
}
