//! The only place of this crate that spawns.
//!
//! [`Loops`] are meant to run for as long as the server does, and the end of one is for the owner
//! to see. [`Tasks`] are short: queries and connections, which may be finished or cut off at any
//! time without harm.

use std::future::Future;
use std::time::Duration;

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
    #[expect(clippy::disallowed_methods, reason = "tracked, and ended by the drain")]
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let kill = self.kill.clone();
        tokio::spawn(self.tracker.track_future(async move {
            tokio::select! {
                () = kill.cancelled() => {}
                () = task => {}
            }
        }));
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
pub(crate) struct Loops<T>(JoinSet<T>);

/// A loop panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

impl<T: Send + 'static> Loops<T> {
    pub(crate) fn new() -> Self {
        Self(JoinSet::new())
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) {
        self.0.spawn(task);
    }

    /// The next loop that ended; none when none is left.
    pub(crate) async fn ended(&mut self) -> Option<Result<T, Panicked>> {
        Some(
            self.0
                .join_next()
                .await?
                .map_err(|_panic_or_abort| Panicked),
        )
    }
}
