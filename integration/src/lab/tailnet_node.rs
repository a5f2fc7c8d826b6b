//! A node with a tailscaled, run as in the Pod: from a config file, without containerboot.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::certs::Certs;
use super::command::Cmd;
use super::headscale::CONTROL_URL;
use super::localapi;
use super::node::Node;
use super::process::{Output, Process};
use crate::Wait;
use crate::peers::Peers;

/// How long tailscaled may take from its start to Running.
const RUNNING: Duration = Duration::from_secs(60);

/// A gateway or a peer: a [`Node`] with a tailscaled that may run or not.
#[derive(Debug)]
pub struct TailnetNode {
    node: Node,
    tailscale: PathBuf,
    tailscaled: PathBuf,
    ca: PathBuf,
    config: PathBuf,
    process: Mutex<Option<Process>>,
}

impl Deref for TailnetNode {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

/// Which prefs the config file gives a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefs {
    pub(super) hostname: &'static str,
    pub(super) accept_dns: bool,
    pub(super) accept_routes: bool,
}

impl TailnetNode {
    pub(super) fn new(node: Node, peers: &Peers, certs: &Certs, prefs: Prefs) -> Result<Self> {
        let config = json!({
            "version": "alpha0",
            "Locked": false,
            "Enabled": true,
            "ServerURL": CONTROL_URL,
            "Hostname": prefs.hostname,
            "OperatorUser": "nobody",
            "AcceptDNS": prefs.accept_dns,
            "AcceptRoutes": prefs.accept_routes,
        });
        let config = node.write("tailscaled.json", &serde_json::to_string_pretty(&config)?)?;
        std::fs::create_dir_all(node.dir().join("run"))?;
        Ok(Self {
            tailscale: peers.tailscale.clone(),
            tailscaled: peers.tailscaled.clone(),
            ca: certs.ca.clone(),
            node,
            config,
            process: Mutex::new(None),
        })
    }

    /// The command line of tailscaled as [`start`](Self::start) runs it, for
    /// tests that run it under a supervisor of theirs: program, then arguments.
    #[must_use]
    pub fn tailscaled_words(&self) -> Vec<String> {
        vec![
            self.tailscaled.display().to_string(),
            format!("--config={}", self.config.display()),
            format!("--state={}", self.state().display()),
            format!("--socket={}", self.socket().display()),
        ]
    }

    /// The environment of tailscaled, for the same tests.
    #[must_use]
    pub fn tailscaled_env(&self) -> Vec<(String, String)> {
        [
            ("TS_NO_LOGS_NO_SUPPORT", "true".to_owned()),
            ("TS_DEBUG_FIREWALL_MODE", "nftables".to_owned()),
            ("TS_LOGS_DIR", self.dir().display().to_string()),
            ("SSL_CERT_FILE", self.ca.display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Starts tailscaled without waiting for anything.
    pub fn start(&self) -> Result<()> {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(Process::is_running) {
            bail!("tailscaled runs already on {}", self.name());
        }
        let words = self.tailscaled_words();
        let mut cmd = Cmd::new(&self.tailscaled).args(words.into_iter().skip(1));
        for (name, value) in self.tailscaled_env() {
            cmd = cmd.env(name, value);
        }
        *slot = Some(self.spawn(cmd)?);
        Ok(())
    }

    /// Sends a signal to tailscaled, as SIGSTOP or SIGCONT.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.slot()
            .as_ref()
            .context("tailscaled does not run")?
            .kill(signal)
    }

    /// Ends tailscaled by a signal, SIGTERM or SIGKILL, and waits for its end.
    pub fn stop(&self, signal: Signal) -> Result<()> {
        let process = self.slot().take().context("tailscaled does not run")?;
        process.kill(signal)?;
        process.wait(Duration::from_secs(15))?;
        Ok(())
    }

    /// Stops tailscaled by a signal and starts it again.
    pub fn restart(&self, signal: Signal) -> Result<()> {
        self.stop(signal)?;
        self.start()
    }

    /// Whether tailscaled runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.slot().as_ref().is_some_and(Process::is_running)
    }

    /// tailscaled's process id.
    pub fn tailscaled_pid(&self) -> Result<u32> {
        Ok(self
            .slot()
            .as_ref()
            .context("tailscaled does not run")?
            .pid())
    }

    /// Removes the state file: the login is lost. tailscaled must not run.
    pub fn wipe_state(&self) -> Result<()> {
        if self.is_running() {
            bail!("tailscaled of {} runs: stop it first", self.name());
        }
        match std::fs::remove_file(self.state()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// tailscaled's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir().join("run/tailscaled.sock")
    }

    /// tailscaled's state file.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.dir().join("tailscaled.state")
    }

    /// The certificate authority of the control server, for `SSL_CERT_FILE`.
    #[must_use]
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// Writes a pre-auth key into the file `authkey` and gives its path.
    pub fn write_auth_key(&self, key: &str) -> Result<PathBuf> {
        self.write("authkey", key)
    }

    /// Waits until tailscaled's socket answers.
    pub fn wait_socket(&self) -> Result<()> {
        Wait::new(
            format!("tailscaled's socket on {}", self.name()),
            Duration::from_secs(15),
        )
        .logs([self.dir().to_owned()])
        .every(Duration::from_millis(20))
        .until(|| self.status().map(|_| Some(())))
    }

    /// Logs in with a pre-auth key, as the agent does.
    pub fn login(&self, key: &str) -> Result<()> {
        self.wait_socket()?;
        let socket = self.socket();
        localapi::call(
            &socket,
            "POST",
            "start",
            &json!({ "AuthKey": key }).to_string(),
        )?;
        localapi::call(&socket, "POST", "login-interactive", "")?;
        Ok(())
    }

    /// Runs `tailscale ARGS` against this tailscaled.
    pub fn tailscale(&self, args: &[&str]) -> Result<Output> {
        let socket = format!("--socket={}", self.socket().display());
        self.run(Cmd::new(&self.tailscale).arg(socket).args(args))
    }

    /// One LocalAPI call as root: its status and body.
    pub fn localapi(&self, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
        localapi::request(&self.socket(), method, path, body)
    }

    /// The status, as the LocalAPI gives it.
    pub fn status(&self) -> Result<Value> {
        localapi::status(&self.socket())
    }

    /// Waits until the backend is in this state, as `Running` or `NeedsLogin`.
    pub fn wait_state(&self, state: &str, timeout: Duration) -> Result<Value> {
        Wait::new(format!("{} to be {state}", self.name()), timeout)
            .logs([self.dir().to_owned()])
            .until(|| {
                let status = self.status()?;
                match status.get("BackendState").and_then(Value::as_str) {
                    Some(now) if now == state => Ok(Some(status)),
                    now => bail!("BackendState is {now:?}, Health {:?}", status.get("Health")),
                }
            })
    }

    /// Waits until the backend is Running, at most a minute.
    pub fn wait_running(&self) -> Result<Value> {
        self.wait_state("Running", RUNNING)
    }

    /// The node's IPv4 address in the tailnet.
    pub fn tailnet_ipv4(&self) -> Result<String> {
        let status = self.status()?;
        status
            .get("TailscaleIPs")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find(|address| address.contains('.'))
            .map(str::to_owned)
            .with_context(|| format!("{} has no tailnet address", self.name()))
    }

    fn slot(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
