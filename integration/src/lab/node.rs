//! A network namespace with a hosts file and a resolv.conf of its own.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::command::{Cmd, UNPRIVILEGED_UID};
use super::launch;
use super::process::{Output, Process};

/// Runs in the new mount namespace, before the program replaces it: the Pod
/// view of the files, and /sys of this network namespace.
const ENTER: &str = "\
set -e
mount --bind \"$1/resolv.conf\" /etc/resolv.conf
mount --bind \"$1/hosts\" /etc/hosts
mount -t sysfs sysfs /sys
if [ -n \"$2\" ]; then mount --bind \"$2\" \"$3\"; fi
shift 3
exec \"$@\"
";

/// A machine of the lab: what runs here sees its network, hosts and resolv.conf.
#[derive(Debug, Clone)]
pub struct Node {
    name: &'static str,
    namespace: String,
    dir: PathBuf,
}

impl Node {
    /// Lays the node's directory; the namespace exists already.
    pub(crate) fn new(
        name: &'static str,
        namespace: String,
        run_dir: &Path,
        hosts: &str,
        resolv_conf: &str,
    ) -> Result<Self> {
        let dir = run_dir.join(name);
        std::fs::create_dir_all(dir.join("bin"))
            .with_context(|| format!("create {}", dir.display()))?;
        let node = Self {
            name,
            namespace,
            dir,
        };
        node.write("hosts", hosts)?;
        node.write("resolv.conf", resolv_conf)?;
        Ok(node)
    }

    /// A node that another process has laid.
    pub(crate) fn found(name: &'static str, namespace: &str, dir: &Path) -> Self {
        Self {
            name,
            namespace: namespace.to_owned(),
            dir: dir.to_owned(),
        }
    }

    /// The node's name in the lab: `gw1`, `peer`, …
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// Its network namespace, as `ip netns` lists it.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its directory, readable to all: logs, sockets, files that a test writes.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a file into the node's directory, in place, and gives its path.
    /// `resolv.conf` and `hosts` are what its programs see under /etc.
    pub fn write(&self, file: &str, content: &str) -> Result<PathBuf> {
        let path = self.dir.join(file);
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Starts a program here; its output goes to `<dir>/<name>.log`.
    pub fn spawn(&self, cmd: impl Into<Cmd>) -> Result<Process> {
        let cmd = cmd.into();
        let name = cmd.log_name();
        let log = self.dir.join(format!("{name}.log"));
        launch::spawn_logged(self.command(&cmd)?, format!("{name} on {}", self.name), log)
    }

    /// Runs a short command here to its end; kills it at its timeout.
    pub fn run(&self, cmd: impl Into<Cmd>) -> Result<Output> {
        let cmd = cmd.into();
        launch::run_to_end(self.command(&cmd)?, cmd.display(), self.name, cmd.timeout)
    }

    /// Runs a shell script here; its standard output, or an error with all it said.
    pub fn sh(&self, script: &str) -> Result<String> {
        self.run(["sh", "-ec", script])?.ok()
    }

    /// Switches IPv4 forwarding.
    pub fn set_ipv4_forwarding(&self, on: bool) -> Result<()> {
        let value = u8::from(on);
        self.sh(&format!("echo {value} > /proc/sys/net/ipv4/ip_forward"))?;
        Ok(())
    }

    /// Pings an IPv4 address once, waiting at most a second.
    pub fn ping_once(&self, target: &str) -> Result<()> {
        self.run(["ping", "-n", "-c", "1", "-W", "1", target])?
            .ok()?;
        Ok(())
    }

    fn command(&self, cmd: &Cmd) -> Result<Command> {
        // The death signal first, that it may hold while the chain runs too.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "nsenter"])
            .arg(format!("--net=/run/netns/{}", self.namespace))
            .args(["unshare", "--mount", "sh", "-c", ENTER, "enter"])
            .arg(&self.dir);
        // An unprivileged program may lie where its uid cannot go, as under
        // /root: it runs from a bind mount in the node's directory.
        let program = match cmd.program.file_name() {
            Some(file) if cmd.unprivileged && cmd.program.is_absolute() => {
                let at = self.dir.join("bin").join(file);
                OpenOptions::new().create(true).append(true).open(&at)?;
                command.arg(&cmd.program).arg(&at);
                at
            }
            _ => {
                command.args(["", ""]);
                cmd.program.clone()
            }
        };
        if cmd.unprivileged {
            command.arg("setpriv");
            let id = UNPRIVILEGED_UID.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
            command.args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]);
            // The kernel forgets the death signal when the uid changes, so
            // that it is set by a second setpriv, after the change.
            command.args(["--", "setpriv", "--pdeathsig", "KILL", "--"]);
        }
        command.arg(program).args(&cmd.args);
        launch::settle(&mut command, cmd, &self.dir);
        Ok(command)
    }
}
