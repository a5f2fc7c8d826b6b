//! A node for a person: held by a process of its own, found by its name.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{self, SigSet, Signal};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::handle::KubeHandle;
use super::inside::Inside;
use super::node::{KubeNode, KubeOptions};
use super::pki::ADMIN;
use super::place::{Addresses, Place};
use crate::Wait;
use crate::lab::{cgroups, run};

const RECORD: &str = "held.json";

/// What the holder writes down for those who look for its node.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    name: String,
    holder: i32,
    number: u8,
    namespace: String,
    inside: Inside,
}

/// Starts a node under a name, and holds it until SIGTERM or SIGINT; an error if another process
/// does so. To be called by a process's first thread before there is another.
pub fn hold(name: &str) -> Result<()> {
    let claim = Claim::take(name)?;
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    // Threads inherit this; what they start does not, for std undoes it.
    signals.thread_block().context("block the signals")?;
    let options = KubeOptions::default();
    let node = KubeNode::start(options)?;
    let record = Record {
        name: name.to_owned(),
        holder: i32::try_from(std::process::id())?,
        number: options.number,
        namespace: node.machine.namespace().to_owned(),
        inside: node.inside.clone(),
    };
    let at = node.dir().join(RECORD);
    // Complete from the moment that it is seen.
    let staged = at.with_extension("new");
    std::fs::write(&staged, serde_json::to_vec(&record)?)?;
    std::fs::rename(&staged, &at)?;
    signals.wait().context("wait for a signal")?;
    drop(node);
    drop(claim);
    Ok(())
}

/// The process that holds the node of a name, or is about to.
pub fn holder(name: &str) -> Result<Option<i32>> {
    let Ok(mut file) = File::open(Claim::path(name)) else {
        return Ok(None);
    };
    if file.try_lock_shared().is_ok() {
        return Ok(None);
    }
    let mut pid = String::new();
    file.read_to_string(&mut pid)?;
    // Empty in the moment in which it is taken.
    Ok(pid.trim().parse().ok())
}

/// Ends what is about to hold a node but has none yet, and removes what there is of it.
pub fn end_start(name: &str, holder: i32) -> Result<()> {
    signal::kill(Pid::from_raw(holder), Signal::SIGKILL).context("end the holder")?;
    Wait::new("the holder's end", Duration::from_secs(10))
        .until(|| Ok(self::holder(name)?.is_none().then_some(())))?;
    remove_killed(name)?;
    Ok(())
}

/// Removes what a holder that was killed has left; whether there was anything.
pub fn remove_killed(name: &str) -> Result<bool> {
    let removed = run::remove_leftovers()?;
    // The file of its lock is the last of it.
    drop(Claim::take(name)?);
    Ok(!removed.is_empty())
}

/// A name that a process holds a node by, from before the start to after the end: a lock, which
/// the kernel takes back with the process.
struct Claim {
    path: PathBuf,
    _file: File,
}

impl Claim {
    fn path(name: &str) -> PathBuf {
        Path::new(run::ROOT).join(format!("node-{name}.lock"))
    }

    fn take(name: &str) -> Result<Self> {
        let path = Self::path(name);
        std::fs::create_dir_all(run::ROOT).with_context(|| format!("create {}", run::ROOT))?;
        // Who asks for the holder takes the lock for a moment.
        let mut file = Wait::new("the lock of the node's name", Duration::from_secs(1))
            .until(|| {
                let file = File::options()
                    .create(true)
                    .write(true)
                    .truncate(false)
                    .open(&path)?;
                file.try_lock()?;
                // The one before may have removed it since it was opened.
                let there = std::fs::metadata(&path)?;
                Ok((there.ino() == file.metadata()?.ino()).then_some(file))
            })
            .with_context(|| format!("another process holds the node `{name}`"))?;
        file.set_len(0)?;
        write!(file, "{}", std::process::id())?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // One that stays is taken over by the next.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A node that another process holds.
#[derive(Debug)]
pub struct Held {
    record: Record,
    place: Place,
}

impl Held {
    /// Finds the node of this name.
    pub fn find(name: &str) -> Result<Option<Self>> {
        for run in run::alive()? {
            let dir = run.join("kube");
            let Ok(text) = std::fs::read(dir.join(RECORD)) else {
                continue;
            };
            let record: Record = serde_json::from_slice(&text).context("the holder's record")?;
            if record.name == name {
                let id = run
                    .file_name()
                    .context("a run has a name")?
                    .to_string_lossy();
                let place = Place {
                    dir,
                    addresses: Addresses::of(record.number)?,
                    cgroup: cgroups::name(&id),
                };
                return Ok(Some(Self { record, place }));
            }
        }
        Ok(None)
    }

    /// Gives the means to work with it.
    #[must_use]
    pub fn handle(&self) -> KubeHandle {
        KubeHandle {
            machine: crate::lab::Node::found("kube", &self.record.namespace, &self.place.dir),
            inside: self.record.inside.clone(),
            place: self.place.clone(),
            neighbours: Vec::new(),
        }
    }

    /// kubectl for a person: with this process's terminal and directory.
    #[must_use]
    pub fn kubectl(&self, args: &[String]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.record.namespace))
            .arg(self.place.program("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args);
        command
    }

    /// The administrator's kubeconfig, for programs in the node's network namespace.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.place.kubeconfig(ADMIN)
    }

    /// The node's network namespace, as `ip netns` lists it.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.record.namespace
    }

    /// The node's directory, with the logs of its parts.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// Ends the node, and waits until nothing is left of it.
    pub fn end(self) -> Result<()> {
        let run = self
            .place
            .dir
            .parent()
            .context("a node's directory is in a run's")?;
        signal::kill(Pid::from_raw(self.record.holder), Signal::SIGTERM)
            .context("end the holder")?;
        Wait::new("the end of the node", Duration::from_secs(30))
            .until(|| Ok((!run.exists()).then_some(())))
    }
}
