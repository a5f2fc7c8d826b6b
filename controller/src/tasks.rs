//! The only place that starts tasks: each has a name, and its end ends the process.

use std::collections::HashMap;
use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// All tasks of the process.
#[derive(Default)]
pub struct Tasks {
    set: JoinSet<anyhow::Result<()>>,
    names: HashMap<tokio::task::Id, &'static str>,
    cancel: CancellationToken,
}

impl Tasks {
    /// Starts a task that runs until it is told to stop.
    pub fn start<F>(&mut self, name: &'static str, future: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let cancel = self.cancel.clone();
        let handle = self.set.spawn(async move {
            tokio::select! {
                () = cancel.cancelled() => Ok(()),
                ended = future => ended.and_then(|()| anyhow::bail!("it returned")),
            }
        });
        self.names.insert(handle.id(), name);
    }

    /// The first task that ends by itself, as an error with its name; pending while there is none.
    pub async fn ended(&mut self) -> anyhow::Error {
        match self.set.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, result))) => {
                let name = self.names.get(&id).copied().unwrap_or("unnamed");
                let why = result
                    .err()
                    .unwrap_or_else(|| anyhow::anyhow!("it returned"));
                why.context(format!("{name} ended"))
            }
            Some(Err(panic)) => {
                let name = self.names.get(&panic.id()).copied().unwrap_or("unnamed");
                anyhow::anyhow!("{name} panicked: {panic}")
            }
        }
    }

    /// Tells all to stop and waits for them.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        while self.set.join_next().await.is_some() {}
    }
}
