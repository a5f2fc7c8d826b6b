//! inotify on directories, as a hint only.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// A change touches a directory several times, a long file is written in several steps; what is
/// there is read when nothing came for so long, and no more often.
pub(super) const DEBOUNCE: Duration = Duration::from_millis(50);

/// Who writes into a file will close it, and is waited for as long as this after the last write.
const WRITING: Duration = Duration::from_secs(1);

/// A change that never ends is read all the same: its writer keeps the file open.
const PATIENCE: Duration = Duration::from_secs(2);

/// What clears up after a swap, and then has not to be read once more.
const CLEARED: Duration = Duration::from_millis(5);

/// Hints that wait; more tell nothing new.
const HINTS: usize = 8;

/// What happened to a file, or to the symlink of a Kubernetes volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    /// It came by a rename, or was closed after writing: the content is whole.
    Whole,
    /// Written to, and not closed yet.
    Written,
    /// Anything else; more may follow.
    Touched,
}

/// Names in the watched directories that matter.
type Names = Arc<Mutex<BTreeSet<OsString>>>;

/// Watches the directories of the moment; one of them that is replaced is watched anew.
pub(super) struct DirectoryWatcher {
    /// None where the system has no inotify left to give; the poll goes on.
    inner: Option<RecommendedWatcher>,
    armed: BTreeMap<PathBuf, (u64, u64)>,
    names: Names,
    hints: mpsc::Receiver<Hint>,
}

impl DirectoryWatcher {
    pub(super) fn new() -> Self {
        let (sender, hints) = mpsc::channel(HINTS);
        let names = Names::default();
        let known = Arc::clone(&names);
        let inner = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if let Some(hint) = hint(&event, &known) {
                let _ = sender.try_send(hint);
            }
        });
        if let Err(error) = &inner {
            tracing::warn!(%error, "No file notifications; changes are seen by a poll every 2 s");
        }
        Self {
            inner: inner.ok(),
            armed: BTreeMap::new(),
            names,
            hints,
        }
    }

    /// Watches the directories of exactly these files from now on.
    pub(super) fn watch<'a>(&mut self, files: impl Iterator<Item = &'a Path> + Clone) {
        let Some(inner) = &mut self.inner else { return };
        let directories = files.clone().filter_map(Path::parent);
        let names = files.chain(directories.clone()).filter_map(Path::file_name);
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) =
            names.map(OsString::from).collect();
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
    pub(super) async fn hint(&mut self) -> Hint {
        match self.hints.recv().await {
            Some(hint) => hint,
            None => std::future::pending().await,
        }
    }

    /// Waits until the change that began with `first` is complete, and not less than until
    /// `not_before`; a reading from then on answers all hints so far.
    pub(super) async fn settle(&mut self, first: Hint, not_before: Instant) {
        let last = Instant::now() + PATIENCE;
        let mut pause = DEBOUNCE;
        let mut hint = first;
        loop {
            match hint {
                Hint::Whole => {
                    sleep(CLEARED).await;
                    break;
                }
                Hint::Written => pause = WRITING,
                Hint::Touched => {}
            }
            match timeout_at(last.min(Instant::now() + pause), self.hint()).await {
                Ok(next) => hint = next,
                Err(_) => break,
            }
        }
        sleep_until(not_before).await;
        while self.hints.try_recv().is_ok() {}
    }
}

/// What an event means; nothing if it is about other files, or somebody only reads.
fn hint(event: &notify::Result<notify::Event>, names: &Names) -> Option<Hint> {
    // An error (overflow, say) may hide anything.
    let Ok(event) = event else {
        return Some(Hint::Touched);
    };
    let names = names.lock().unwrap_or_else(PoisonError::into_inner);
    let matters = |path: &PathBuf| {
        // A Kubernetes volume swaps `..data` for a directory whose name begins so, too.
        path.file_name()
            .is_none_or(|name| names.contains(name) || name.as_bytes().starts_with(b".."))
    };
    if !event.paths.is_empty() && !event.paths.iter().any(matters) {
        return None;
    }
    match event.kind {
        EventKind::Modify(ModifyKind::Name(RenameMode::To))
        | EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Hint::Whole),
        // Comes after the two events that it sums up.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) | EventKind::Access(_) => None,
        EventKind::Modify(ModifyKind::Data(_)) => Some(Hint::Written),
        _ => Some(Hint::Touched),
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, DataChange};

    use super::*;

    #[test]
    fn a_hint_is_what_may_have_changed_our_files_and_a_swap_or_a_close_makes_them_whole() {
        let names: Names = Arc::new(Mutex::new([OsString::from("hosts")].into()));
        let data = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let rename = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        let away = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        let both = EventKind::Modify(ModifyKind::Name(RenameMode::Both));
        let close = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let table = [
            (rename, Some("/m/..data"), Some(Hint::Whole)),
            (rename, Some("/m/hosts"), Some(Hint::Whole)),
            (close, Some("/m/hosts"), Some(Hint::Whole)),
            (data, Some("/m/hosts"), Some(Hint::Written)),
            // An editor that keeps the old file beside the one that it will write.
            (away, Some("/m/hosts"), Some(Hint::Touched)),
            (both, Some("/m/hosts"), None),
            (
                EventKind::Create(CreateKind::Folder),
                Some("/m/..2026"),
                Some(Hint::Touched),
            ),
            (EventKind::Other, None, Some(Hint::Touched)),
            (
                EventKind::Access(AccessKind::Open(AccessMode::Read)),
                Some("/m/hosts"),
                None,
            ),
            (data, Some("/m/agent.log"), None),
            (rename, Some("/m/hosts~"), None),
        ];
        for (kind, path, expected) in table {
            let mut event = notify::Event::new(kind);
            event.paths.extend(path.map(PathBuf::from));
            assert_eq!(hint(&Ok(event), &names), expected, "{kind:?} {path:?}");
        }
        let overflow = Err(notify::Error::generic("overflow"));
        assert_eq!(hint(&overflow, &names), Some(Hint::Touched));
    }

    fn watcher() -> (mpsc::Sender<Hint>, DirectoryWatcher) {
        let (sender, hints) = mpsc::channel(HINTS);
        let watcher = DirectoryWatcher {
            inner: None,
            armed: BTreeMap::new(),
            names: Names::default(),
            hints,
        };
        (sender, watcher)
    }

    // Holds rule 38.
    #[tokio::test(start_paused = true)]
    async fn a_burst_is_read_once_when_it_is_over_or_its_content_is_whole() {
        let millis = Duration::from_millis;
        let (sender, mut watcher) = watcher();
        let began = Instant::now();
        watcher.settle(Hint::Touched, began).await;
        assert_eq!(began.elapsed(), DEBOUNCE, "nothing followed");

        let began = Instant::now();
        sender.try_send(Hint::Whole).unwrap();
        watcher.settle(Hint::Touched, began).await;
        assert_eq!(began.elapsed(), CLEARED, "whole at once");

        let began = Instant::now();
        watcher.settle(Hint::Whole, began + DEBOUNCE).await;
        assert_eq!(
            began.elapsed(),
            DEBOUNCE,
            "not so soon after the last reading"
        );

        let began = Instant::now();
        sender.try_send(Hint::Written).unwrap();
        watcher.settle(Hint::Touched, began).await;
        assert_eq!(began.elapsed(), WRITING, "written to and left open");

        let began = Instant::now();
        let closing = async {
            sleep(millis(900)).await;
            let _ = sender.try_send(Hint::Written);
            sleep(millis(900)).await;
            let _ = sender.try_send(Hint::Whole);
        };
        tokio::join!(watcher.settle(Hint::Written, began), closing);
        assert_eq!(
            began.elapsed(),
            millis(1800) + CLEARED,
            "a slow writer closes"
        );

        let began = Instant::now();
        let writing = async {
            loop {
                sleep(millis(40)).await;
                let _ = sender.try_send(Hint::Written);
            }
        };
        tokio::select! {
            () = watcher.settle(Hint::Written, began) => {}
            () = writing => {}
        }
        assert_eq!(began.elapsed(), PATIENCE, "it never pauses");
    }
}
