//! The only place of this crate that spawns, the forwarder's apart.
//!
//! [`Loops`] are meant to run for as long as the server does, and the end of one is for the owner
//! to see. [`Tasks`] are short: queries and connections, which may be finished or cut off at any
//! time without harm.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Short tasks that a stop waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    kill: CancellationToken,
}

impl Tasks {
    /// Runs `task` in the background until it ends or the drain's deadline is over.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(task, &Handle::current());
    }

    /// As [`Tasks::spawn`], from a thread outside the runtime.
    pub(crate) fn spawn_on(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
        runtime: &Handle,
    ) {
        let kill = self.kill.clone();
        let bounded = async move {
            tokio::select! {
                () = kill.cancelled() => {}
                () = task => {}
            }
        };
        self.tracker.spawn_on(bounded, runtime);
    }

    /// Waits for all tasks; after `deadline` ends those that are left and says how many.
    pub(crate) async fn drain(&self, deadline: Duration) -> usize {
        self.tracker.close();
        if tokio::time::timeout(deadline, self.tracker.wait())
            .await
            .is_ok()
        {
            return 0;
        }
        let left = self.tracker.len();
        self.kill.cancel();
        self.tracker.wait().await;
        left
    }
}

/// Long-lived loops, each of which ends with a `T`.
#[derive(Debug)]
pub(crate) struct Loops<T>(JoinSet<Result<T, Panicked>>);

/// A loop panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

impl<T: Send + 'static> Loops<T> {
    pub(crate) fn new() -> Self {
        Self(JoinSet::new())
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) {
        self.0.spawn(async move { Ok(task.await) });
    }

    /// Runs a loop that blocks on a thread of its own. It has to end by itself soon after it was
    /// told to: nothing can end it from outside.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn spawn_thread(
        &mut self,
        name: &str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<()> {
        let (sender, ended) = oneshot::channel();
        let body = move || {
            // The receiver is gone when the server was dropped: nobody wants to know.
            let _ = sender.send(body());
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)?;
        // A panic drops the sender.
        self.0
            .spawn(async move { ended.await.map_err(|_| Panicked) });
        Ok(())
    }

    /// The next loop that ended; none when none is left.
    pub(crate) async fn ended(&mut self) -> Option<Result<T, Panicked>> {
        let ended = self.0.join_next().await?;
        Some(ended.unwrap_or(Err(Panicked)))
    }
}
