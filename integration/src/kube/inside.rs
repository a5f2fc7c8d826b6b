//! The node's namespaces, and commands that run in them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::daemon::{Daemon, only_child};
use super::place::{NODE_NAME, Place};
use crate::Wait;
use crate::lab::launch;
use crate::lab::{Cmd, Output, Process};

const INIT: &str = include_str!("init.sh");

/// The way into a node's namespaces.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Inside {
    /// PID 1 of the node, as the machine counts.
    init: u32,
    dir: PathBuf,
}

impl Inside {
    /// Makes the namespaces around the network namespace. They, and all that
    /// runs in them, end when the returned process does.
    pub(super) fn make(namespace: &str, place: &Place) -> Result<(Self, Process)> {
        if !Place::is_under_run(&place.dir) {
            bail!("{} is not below /run", place.dir.display());
        }
        let script = place.file("init.sh");
        std::fs::write(&script, INIT).with_context(|| format!("write {}", script.display()))?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "nsenter"])
            .arg(format!("--net=/run/netns/{namespace}"))
            .args([
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "--uts",
                "--ipc",
            ])
            .args(["--pid", "--fork", "--mount-proc", "--kill-child=KILL"])
            .arg("sh")
            .arg(script)
            .arg(&place.dir)
            .arg(NODE_NAME);
        launch::settle(&mut command, &Cmd::new("init"), &place.dir);
        let holder =
            launch::spawn_logged(command, "the node's init".into(), place.file("init.log"))?;
        let ready = place.file("ready");
        let init = Wait::new("the node's namespaces", Duration::from_secs(10))
            .every(Duration::from_millis(5))
            .logs([holder.log_path().to_owned()])
            .until(|| {
                if ready.exists() {
                    return only_child(holder.pid()).map(|init| Some(Ok(init)));
                }
                // No use in waiting on.
                Ok(holder.try_wait()?.map(Err))
            })?
            .map_err(|status| {
                anyhow!(
                    "the node's init ended with {status}: {}",
                    holder.log().trim()
                )
            })?;
        let dir = place.dir.clone();
        Ok((Self { init, dir }, holder))
    }

    /// Starts a daemon here; its output goes to `<dir>/<name>.log`.
    pub(super) fn spawn(&self, cmd: &Cmd) -> Result<Daemon> {
        let name = cmd.log_name();
        let log = self.dir.join(format!("{name}.log"));
        let process = launch::spawn_logged(self.command(cmd), name, log)?;
        Ok(Daemon::new(process))
    }

    /// Runs a short command here.
    pub(super) fn run(&self, cmd: &Cmd) -> Result<Output> {
        launch::run_to_end(self.command(cmd), cmd.display(), NODE_NAME, cmd.timeout)
    }

    fn command(&self, cmd: &Cmd) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "nsenter"])
            .arg(format!("--target={}", self.init))
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--"])
            .arg(&cmd.program)
            .args(&cmd.args);
        launch::settle(&mut command, cmd, &self.dir);
        command
    }

    /// Links the one binary of Kubernetes under each name it is started by.
    pub(super) fn link_programs(place: &Place, kubernetes: &Path) -> Result<()> {
        std::fs::create_dir_all(place.bin()).context("create the directory of programs")?;
        for name in [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
            "kubectl",
        ] {
            std::os::unix::fs::symlink(kubernetes, place.program(name))
                .context("link a program")?;
        }
        Ok(())
    }
}
