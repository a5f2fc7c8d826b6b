//! The one place where a test waits for something to become true.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Lines of each log shown when a wait times out.
const TAIL_LINES: usize = 15;

/// A wait with its deadline, and the logs to show if it is missed.
pub struct Wait {
    what: String,
    timeout: Duration,
    interval: Duration,
    logs: Vec<PathBuf>,
}

impl Wait {
    /// Waits for `what`, at most `timeout`, polling every 50 ms.
    #[must_use]
    pub fn new(what: impl Into<String>, timeout: Duration) -> Self {
        Self {
            what: what.into(),
            timeout,
            interval: Duration::from_millis(50),
            logs: Vec::new(),
        }
    }

    /// Polls at another interval.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Shows on a timeout the ends of these logs; of a directory, of all logs in it then.
    #[must_use]
    pub fn logs(mut self, logs: impl IntoIterator<Item = PathBuf>) -> Self {
        self.logs.extend(logs);
        self
    }

    /// Polls until `probe` gives a value. `Ok(None)` and `Err` both mean "not
    /// yet"; the last error is the observation that a timeout reports.
    pub fn until<T>(self, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let started = Instant::now();
        let mut polls = 0_u32;
        loop {
            let last = match probe() {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => "nothing yet".to_owned(),
                Err(error) => format!("{error:#}"),
            };
            polls = polls.saturating_add(1);
            if started.elapsed() >= self.timeout {
                let mut text = format!(
                    "waited {:.1} s ({polls} polls) for {}; last observation: {last}",
                    started.elapsed().as_secs_f64(),
                    self.what
                );
                for log in &self.logs {
                    write!(text, "\n{}", tails(log))?;
                }
                bail!(text);
            }
            pause(self.interval);
        }
    }
}

/// Polls `probe` every 50 ms until it gives a value; see [`Wait::until`].
pub fn wait_until<T>(
    what: &str,
    timeout: Duration,
    probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    Wait::new(what, timeout).until(probe)
}

/// The pause between two polls. Only here: the conditions live in other
/// processes, which cannot wake this thread. An early wake-up costs one poll.
pub(crate) fn pause(interval: Duration) {
    std::thread::park_timeout(interval);
}

/// The last lines of a log under a heading with its path; of a directory,
/// those of all `*.log` files in and below it.
pub(crate) fn tails(path: &Path) -> String {
    if path.is_dir() {
        let mut texts: Vec<String> = entries(path)
            .iter()
            .filter(|entry| entry.is_dir() || entry.extension().is_some_and(|ext| ext == "log"))
            .map(|entry| tails(entry))
            .collect();
        texts.retain(|text| !text.is_empty());
        return texts.join("\n");
    }
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("--- {}: {error}", path.display()),
    };
    let skipped = text.lines().count().saturating_sub(TAIL_LINES);
    let mut out = format!("--- {} (from line {})", path.display(), skipped + 1);
    for line in text.lines().skip(skipped) {
        out.push_str("\n    ");
        out.push_str(line);
    }
    out
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_names_what_was_awaited_the_last_observation_and_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("x.log");
        std::fs::write(&log, "one\ntwo\n").unwrap();
        let error = Wait::new("the moon", Duration::from_millis(20))
            .every(Duration::from_millis(5))
            .logs([dir.path().to_owned()])
            .until(|| -> Result<Option<()>> { bail!("only the sun") })
            .unwrap_err()
            .to_string();
        assert!(error.contains("for the moon"), "{error}");
        assert!(error.contains("last observation: only the sun"), "{error}");
        assert!(error.contains("    two"), "{error}");
    }

    #[test]
    fn a_value_ends_the_wait() {
        let mut polls = 0;
        let value = wait_until("three polls", Duration::from_secs(5), || {
            polls += 1;
            Ok((polls == 3).then_some(polls))
        });
        assert_eq!(value.unwrap(), 3);
    }
}
