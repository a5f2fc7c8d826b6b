//! The pinned parts are built while the Rust side compiles and its tests wait: Go takes what the two
//! cores have left, and a cold run is minutes shorter.

use std::process::{Child, Command};

use anyhow::{Context, Result};

/// Builds the pinned parts in the background until it is dropped. Who needs them asks for them as
/// ever, and waits for the lock of the build that runs.
pub(crate) struct Ahead {
    child: Child,
}

impl Ahead {
    /// Starts this program's `peers` in the kernel's idle class, so that no test is slower by it.
    /// Where the system forbids that class nothing is lost but the head start.
    pub(crate) fn start() -> Result<Self> {
        let this = std::env::current_exe().context("the path of this program")?;
        let child = Command::new("chrt")
            .args(["--idle", "0", "setpriv", "--pdeathsig", "TERM"])
            .arg(this)
            .arg("peers")
            .spawn()
            .context("cannot start chrt of Debian's util-linux")?;
        Ok(Self { child })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // An error says that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
