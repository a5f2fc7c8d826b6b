//! The only place that starts tasks: each has a name, and its end is an event for the main loop.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Why a supervised task ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It was told to.
    Cancelled,
    /// It returned or panicked by itself; the process must end.
    Unexpectedly {
        /// The task's name.
        task: &'static str,
        /// What it said.
        error: String,
    },
}

/// All tasks of the process.
pub(crate) struct Tasks {
    set: JoinSet<(&'static str, Option<anyhow::Error>)>,
    names: HashMap<tokio::task::Id, &'static str>,
    cancel: CancellationToken,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self {
            set: JoinSet::new(),
            names: HashMap::new(),
            cancel: CancellationToken::new(),
        }
    }

    /// Starts a task that must run until it is cancelled.
    pub(crate) fn start<F>(&mut self, name: &'static str, future: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let cancel = self.cancel.clone();
        let handle = self.set.spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => (name, None),
                result = future => match result {
                    Ok(()) => (name, Some(anyhow::anyhow!("it returned"))),
                    Err(error) => (name, Some(error)),
                },
            }
        });
        self.names.insert(handle.id(), name);
    }

    /// The next task that ends; pending while there is none.
    pub(crate) async fn next_ended(&mut self) -> Ended {
        match self.set.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, (name, error)))) => {
                self.names.remove(&id);
                match error {
                    None => Ended::Cancelled,
                    Some(error) => Ended::Unexpectedly {
                        task: name,
                        error: format!("{error:#}"),
                    },
                }
            }
            Some(Err(panic)) => {
                let task = self.names.remove(&panic.id()).unwrap_or("unnamed");
                Ended::Unexpectedly {
                    task,
                    error: panic.to_string(),
                }
            }
        }
    }

    /// Tells all tasks to stop and waits for them.
    pub(crate) async fn stop(mut self) {
        self.cancel.cancel();
        while self.set.join_next().await.is_some() {}
    }
}

/// Pauses between attempts: growing from 100 ms to 5 s, with jitter, for ever.
pub(crate) struct Delays(Box<dyn Iterator<Item = Duration> + Send>);

impl Delays {
    pub(crate) fn new() -> Self {
        let builder = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(5))
            .without_max_times()
            .with_jitter();
        Self(Box::new(builder.build()))
    }

    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        self.0.next().unwrap_or(Duration::from_secs(5))
    }

    /// Starts over after a success.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }
}

/// Runs CPU-heavy work off the async threads.
///
/// # Errors
/// When the work panicked.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| anyhow::anyhow!("a computation failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_returns_or_fails_or_panics_is_reported_by_name() {
        for (expected, future) in [
            (
                "it returned",
                Box::pin(async { Ok(()) })
                    as std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>,
            ),
            ("broken", Box::pin(async { Err(anyhow::anyhow!("broken")) })),
            ("panicked", Box::pin(async { panic!("boom") })),
        ] {
            let mut tasks = Tasks::new();
            tasks.start("worker", future);
            let Ended::Unexpectedly { task, error } = tasks.next_ended().await else {
                panic!("{expected}")
            };
            assert_eq!(task, "worker");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[tokio::test]
    async fn stop_ends_tasks_that_would_run_for_ever() {
        let mut tasks = Tasks::new();
        tasks.start("for ever", std::future::pending());
        tasks.stop().await;
    }
}
