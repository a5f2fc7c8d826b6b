//! The forwarder's only place that spawns: one task per question in flight. They end by
//! themselves within five seconds; a panic in one reaches the clients that wait for it as a
//! failure and no one else.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of one forwarder.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Runs `task` until it ends or the forwarder stops. Dropping a task at any await point is
    /// safe: it owns its sockets and its place among the questions in flight.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// As [`Tasks::spawn`], from a thread outside the runtime.
    pub(super) fn spawn_on(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
        runtime: &Handle,
    ) {
        let stop = self.stop.clone();
        self.tracker.spawn_on(
            async move {
                stop.run_until_cancelled(task).await;
            },
            runtime,
        );
    }

    /// True once nothing new may begin.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits for the tasks, then drops those that are left. True when none was.
    pub(super) async fn drain(&self, patience: Duration) -> bool {
        self.tracker.close();
        let done = tokio::time::timeout(patience, self.tracker.wait())
            .await
            .is_ok();
        self.stop.cancel();
        self.tracker.wait().await;
        done
    }
}
