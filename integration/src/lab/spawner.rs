//! Starts every child from one thread that lives as long as the process.
//!
//! Children carry `PR_SET_PDEATHSIG`, and the kernel sends that signal when
//! the *thread* that forked them ends, not the process: a child started from a
//! test's own thread would die with any helper thread, and one started here
//! dies exactly when the test process does, however it does.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Context, Result};

struct Request {
    command: Command,
    reply: SyncSender<io::Result<Child>>,
}

static SPAWNER: OnceLock<SyncSender<Request>> = OnceLock::new();

fn spawner() -> &'static SyncSender<Request> {
    SPAWNER.get_or_init(|| {
        let (sender, receiver) = sync_channel::<Request>(16);
        std::thread::spawn(move || {
            for mut request in receiver {
                // A caller that is gone has unwound; its child dies with the drop of the lab.
                let _ = request.reply.send(request.command.spawn());
            }
        });
        sender
    })
}

/// Spawns the command from the spawner's thread.
pub(crate) fn spawn(command: Command) -> Result<Child> {
    let program = command.get_program().to_owned();
    let (reply, answer) = sync_channel(1);
    spawner()
        .send(Request { command, reply })
        .context("the spawner's thread is gone")?;
    answer
        .recv()
        .context("the spawner's thread is gone")?
        .with_context(|| format!("start {}", program.display()))
}
