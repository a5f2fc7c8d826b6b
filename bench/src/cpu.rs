//! CPU time and memory of a process and its children, from /proc.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Sub;

use anyhow::{Context, Result};

/// CPU time in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cpu {
    /// Exact, by the scheduler.
    exact: f64,
    /// In whole ticks: good for the share of each, not for their sum.
    user_ticks: f64,
    system_ticks: f64,
}

impl Cpu {
    pub(crate) fn total(self) -> f64 {
        self.exact
    }

    pub(crate) fn user(self) -> f64 {
        let ticks = self.user_ticks + self.system_ticks;
        if ticks > 0.0 {
            self.exact * self.user_ticks / ticks
        } else {
            0.0
        }
    }
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            exact: self.exact - earlier.exact,
            user_ticks: self.user_ticks - earlier.user_ticks,
            system_ticks: self.system_ticks - earlier.system_ticks,
        }
    }
}

/// Clock ticks a second: what /proc counts in, on every architecture we know.
const TICKS: f64 = 100.0;

/// What a process and its children have used so far.
pub(crate) fn used(root: u32) -> Result<Cpu> {
    let mut all = Cpu::default();
    for pid in tree(root)? {
        let Ok(stat) = fields(pid) else { continue };
        let ticks = |index: usize| -> f64 {
            stat.get(index)
                .and_then(|field| field.parse().ok())
                .unwrap_or(0.0)
        };
        // utime and stime, counted from the field after the name.
        let (user, system) = (ticks(11) / TICKS, ticks(12) / TICKS);
        all.exact += on_cpu(pid).unwrap_or(user + system);
        all.user_ticks += user;
        all.system_ticks += system;
    }
    Ok(all)
}

/// Seconds on a CPU in nanoseconds' resolution, over all threads that live.
fn on_cpu(pid: u32) -> Option<f64> {
    let mut seconds = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        let nanoseconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
        seconds += nanoseconds / 1e9;
    }
    Some(seconds)
}

/// Resident memory in MiB: now, or the highest since [`reset_peak`].
pub(crate) fn memory(root: u32, peak: bool) -> Result<f64> {
    let field = if peak { "VmHWM:" } else { "VmRSS:" };
    let mut kib = 0.0;
    for pid in tree(root)? {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            continue;
        };
        let value = text.lines().find_map(|line| line.strip_prefix(field));
        let number = value.and_then(|value| value.split_ascii_whitespace().next());
        kib += number.and_then(|number| number.parse().ok()).unwrap_or(0.0);
    }
    Ok(kib / 1024.0)
}

/// Starts the peak of [`memory`] anew.
pub(crate) fn reset_peak(root: u32) -> Result<()> {
    for pid in tree(root)? {
        // A child may be gone by now.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
    Ok(())
}

/// A process and everything below it.
pub(crate) fn tree(root: u32) -> Result<BTreeSet<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("list /proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(parent) = fields(pid)
            .ok()
            .and_then(|stat| stat.get(1)?.parse::<u32>().ok())
        {
            parents.push((pid, parent));
        }
    }
    let mut all = BTreeSet::from([root]);
    loop {
        let before = all.len();
        for (pid, parent) in &parents {
            if all.contains(parent) {
                all.insert(*pid);
            }
        }
        if all.len() == before {
            return Ok(all);
        }
    }
}

/// The fields of /proc/PID/stat after the name, which may hold blanks.
fn fields(pid: u32) -> Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    Ok(after.split_ascii_whitespace().map(str::to_owned).collect())
}
