//! A run's directory, its lock, and the removal of all that a run leaves.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use sha2::{Digest, Sha256};

use super::cgroups;
use crate::wait::tails;
use crate::{Wait, say};

pub(crate) const ROOT: &str = "/run/tsunaro-lab";
pub(super) const NETNS: &str = "/run/netns";
pub(super) const PREFIX: &str = "tsl-";

/// One run: `/run/tsunaro-lab/<id>`, the namespaces `tsl-<id>-*` and the cgroups `tsl-<id>`.
/// Alive while its `lock` file is locked, which the kernel ends with the process.
#[derive(Debug)]
pub(crate) struct Run {
    id: String,
    dir: PathBuf,
    _lock: File,
}

impl Run {
    /// Clears dead runs away, then begins a new one.
    pub(crate) fn begin() -> Result<Self> {
        let guard = root_lock()?;
        remove_dead_runs()?;
        let id = new_id()?;
        let dir = Path::new(ROOT).join(&id);
        DirBuilder::new()
            .mode(0o755)
            .create(&dir)
            .with_context(|| format!("create {}", dir.display()))?;
        let lock = File::create(dir.join("lock"))?;
        lock.try_lock().context("lock a new run")?;
        std::fs::write(dir.join("pid"), std::process::id().to_string())?;
        drop(guard);
        Ok(Self {
            id,
            dir,
            _lock: lock,
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The namespace's name for a node.
    pub(crate) fn namespace(&self, node: &str) -> String {
        format!("{PREFIX}{}-{node}", self.id)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&tails(&self.dir));
            keep_logs(&self.dir, &self.id);
        }
        if let Err(error) = remove(&self.id) {
            say(&format!(
                "run {} leaves something behind: {error:#}",
                self.id
            ));
        }
    }
}

/// Copies the directory of a failed run to `$TSUNARO_LAB_LOGS/<id>`, if set.
fn keep_logs(dir: &Path, id: &str) {
    let Some(target) = std::env::var_os("TSUNARO_LAB_LOGS") else {
        return;
    };
    let target = Path::new(&target).join(id);
    let copied = std::fs::create_dir_all(&target).and_then(|()| {
        Command::new("cp")
            .args(["--recursive", "--no-target-directory"])
            .args([dir, &target])
            .output()
    });
    match copied {
        Ok(_) => say(&format!("logs of the failed run: {}", target.display())),
        Err(error) => say(&format!("logs not kept: {error}")),
    }
}

/// Removes what dead runs left: processes, namespaces and directories.
/// Every start of a lab does it; gives the ids of the removed runs.
pub fn remove_leftovers() -> Result<Vec<String>> {
    let _guard = root_lock()?;
    remove_dead_runs()
}

/// Serializes the beginning of runs and the clearing away of dead ones: a
/// directory whose lock is not yet taken must not look dead.
fn root_lock() -> Result<File> {
    std::fs::create_dir_all(ROOT).with_context(|| format!("create {ROOT}"))?;
    let lock = File::create(Path::new(ROOT).join(".lock"))?;
    lock.lock().context("lock the directory of runs")?;
    Ok(lock)
}

fn remove_dead_runs() -> Result<Vec<String>> {
    let mut dead = Vec::new();
    let mut alive = Vec::new();
    for entry in std::fs::read_dir(ROOT)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let id = entry.file_name().to_string_lossy().into_owned();
        if is_alive(&entry.path()) {
            alive.push(id);
        } else {
            dead.push(id);
        }
    }
    for name in namespaces()? {
        if let Some(id) = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
            && !alive.iter().chain(&dead).any(|known| known == id)
        {
            dead.push(id.to_owned());
        }
    }
    for id in &dead {
        remove(id).with_context(|| format!("remove the dead run {id}"))?;
        say(&format!("removed what the dead run {id} left"));
    }
    Ok(dead)
}

/// The directories of the runs that live.
pub(crate) fn alive() -> Result<Vec<PathBuf>> {
    let _guard = root_lock()?;
    let mut alive = Vec::new();
    for entry in std::fs::read_dir(ROOT)? {
        let path = entry?.path();
        if path.is_dir() && is_alive(&path) {
            alive.push(path);
        }
    }
    Ok(alive)
}

/// Whether a process holds the run's lock. Looking takes that lock for a moment:
/// hence only under the root lock.
fn is_alive(dir: &Path) -> bool {
    // No lock file: it died before it took the lock, for the root lock is ours.
    match File::open(dir.join("lock")) {
        Ok(lock) => lock.try_lock().is_err(),
        Err(_) => false,
    }
}

fn new_id() -> Result<String> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let mut hash = Sha256::new();
    hash.update(std::process::id().to_le_bytes());
    hash.update(COUNTER.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    hash.update(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)?
            .as_nanos()
            .to_le_bytes(),
    );
    let digest = hash.finalize();
    Ok(digest
        .iter()
        .take(3)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn namespaces() -> Result<Vec<String>> {
    match std::fs::read_dir(NETNS) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).context(NETNS),
    }
}

fn remove(id: &str) -> Result<()> {
    let mine = format!("{PREFIX}{id}-");
    let namespaces: Vec<String> = namespaces()?
        .into_iter()
        .filter(|name| name.starts_with(&mine))
        .collect();
    let inodes: Vec<u64> = namespaces
        .iter()
        .filter_map(|name| Some(std::fs::metadata(Path::new(NETNS).join(name)).ok()?.ino()))
        .collect();
    Wait::new(
        format!("the end of the processes of run {id}"),
        Duration::from_secs(10),
    )
    .every(Duration::from_millis(5))
    .until(|| {
        let pids = processes_in(&inodes)?;
        for pid in &pids {
            // ESRCH: it ended between the look and the signal.
            let _ = signal::kill(*pid, Signal::SIGKILL);
        }
        if !pids.is_empty() {
            bail!("still there: {pids:?}");
        }
        Ok(Some(()))
    })?;
    cgroups::remove(&cgroups::name(id))?;
    for name in namespaces {
        let output = Command::new("ip")
            .args(["netns", "delete", &name])
            .output()?;
        if !output.status.success() {
            bail!(
                "ip netns delete {name}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
    }
    match std::fs::remove_dir_all(Path::new(ROOT).join(id)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The processes in any of these network namespaces. A zombie has none.
fn processes_in(inodes: &[u64]) -> Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Ok(namespace) = std::fs::metadata(entry.path().join("ns/net"))
            && inodes.contains(&namespace.ino())
        {
            pids.push(Pid::from_raw(pid));
        }
    }
    Ok(pids)
}
