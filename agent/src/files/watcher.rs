//! inotify on directories, as a hint only.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// Watches the directories of the moment; one of them that is replaced is watched anew.
pub(super) struct DirectoryWatcher {
    /// None where the system has no inotify left to give; the poll goes on.
    inner: Option<RecommendedWatcher>,
    armed: BTreeMap<PathBuf, (u64, u64)>,
    hints: mpsc::Receiver<()>,
}

impl DirectoryWatcher {
    pub(super) fn new() -> Self {
        let (sender, hints) = mpsc::channel(1);
        // An error (overflow, say) is a hint like any other; a full channel already holds one.
        let inner = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let reading = matches!(&event, Ok(event) if event.kind.is_access());
            if !reading {
                let _ = sender.try_send(());
            }
        });
        if let Err(error) = &inner {
            tracing::warn!(%error, "No file notifications; changes are seen by a poll every 2 s");
        }
        Self {
            inner: inner.ok(),
            armed: BTreeMap::new(),
            hints,
        }
    }

    /// Watches exactly these directories from now on.
    pub(super) fn watch<'a>(&mut self, directories: impl Iterator<Item = &'a Path>) {
        let Some(inner) = &mut self.inner else { return };
        let mut wanted = BTreeMap::new();
        for directory in directories {
            let directory = if directory.as_os_str().is_empty() {
                Path::new(".")
            } else {
                directory
            };
            if let Ok(metadata) = directory.metadata() {
                wanted.insert(directory.to_owned(), (metadata.dev(), metadata.ino()));
            }
        }
        self.armed.retain(|directory, identity| {
            let keep = wanted.get(directory) == Some(identity);
            if !keep {
                // Fails for a directory that is gone; its watch went with it.
                let _ = inner.unwatch(directory);
            }
            keep
        });
        for (directory, identity) in wanted {
            if !self.armed.contains_key(&directory)
                && inner.watch(&directory, RecursiveMode::NonRecursive).is_ok()
            {
                self.armed.insert(directory, identity);
            }
        }
    }

    /// Returns when something may have changed.
    pub(super) async fn hint(&mut self) {
        if self.hints.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Forgets hints that a reading from now on answers.
    pub(super) fn drain(&mut self) {
        while self.hints.try_recv().is_ok() {}
    }
}
