//! Watches the config, hosts and key files, and resolv.conf: any event in their directories is a hint, the content
//! hash decides, a poll is the fallback.
//!
//! A Kubernetes volume changes by a swap of the symlink `..data` in the directory of the file, so
//! the directory is watched and the path is opened anew each time.

mod read;
mod watcher;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub(crate) use read::{Content, ReadFault, read_capped};
use watcher::{DEBOUNCE, DirectoryWatcher};

use crate::event::Event;
use crate::tasks;

/// The fallback when no notification comes (network file systems, a symlink's far end).
const POLL: Duration = Duration::from_secs(2);

/// A file that is written in place is empty for a moment; it counts as empty after this time.
const WRITING: Duration = Duration::from_secs(1);

/// A key or config file is small; more than this is a mistake.
const SMALL_FILE_MAX: u64 = 1024 * 1024;

/// Which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The config file.
    Config,
    /// The hosts file.
    Hosts,
    /// The pre-auth key.
    Key,
    /// The host's resolv.conf.
    Resolvers,
}

/// A file in a new state.
#[derive(Debug)]
pub(crate) struct FileSeen {
    /// Which one.
    pub(crate) which: Which,
    /// Where it was read.
    pub(crate) path: PathBuf,
    /// Its content, or why there is none.
    pub(crate) content: Result<Arc<Content>, ReadFault>,
}

/// What to watch; changes with the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The config file.
    pub(crate) config: PathBuf,
    /// The hosts file, if one is named.
    pub(crate) hosts: Option<PathBuf>,
    /// The key file, if one is named.
    pub(crate) key: Option<PathBuf>,
    /// The host's resolv.conf, if it is looked at.
    pub(crate) resolvers: Option<PathBuf>,
    /// Octets that the hosts file may have.
    pub(crate) hosts_max_bytes: u64,
}

impl Paths {
    /// Whether this file is to be watched.
    pub(crate) fn name(&self, which: Which, path: &Path) -> bool {
        let Self {
            config,
            hosts,
            key,
            resolvers,
            hosts_max_bytes: _,
        } = self;
        let named = match which {
            Which::Config => Some(config),
            Which::Hosts => hosts.as_ref(),
            Which::Key => key.as_ref(),
            Which::Resolvers => resolvers.as_ref(),
        };
        named.is_some_and(|named| named == path)
    }

    fn each(&self) -> Vec<(Which, PathBuf, u64)> {
        let Self {
            config,
            hosts,
            key,
            resolvers,
            hosts_max_bytes,
        } = self;
        let mut all = vec![(Which::Config, config.clone(), SMALL_FILE_MAX)];
        all.extend(
            hosts
                .clone()
                .map(|path| (Which::Hosts, path, *hosts_max_bytes)),
        );
        let small = [(Which::Key, key), (Which::Resolvers, resolvers)];
        all.extend(
            small
                .into_iter()
                .filter_map(|(which, path)| Some((which, path.clone()?, SMALL_FILE_MAX))),
        );
        all
    }
}

/// What was reported, so that only news is.
#[derive(Default)]
struct Reported(Vec<Told>);

/// What was reported of one file last.
struct Told {
    which: Which,
    path: PathBuf,
    /// Its content's hash, or why there is none.
    state: Result<String, ReadFault>,
    /// The last readable content was not empty.
    filled: bool,
    /// Since when it is found empty after that.
    emptied: Option<Instant>,
}

impl Reported {
    /// Forgets files that are not watched any more: named again, they are news.
    fn keep_only(&mut self, paths: &Paths) {
        self.0.retain(|told| paths.name(told.which, &told.path));
    }

    /// Takes in what was read; true when it is to be reported.
    fn is_news(&mut self, which: Which, path: &Path, content: &Result<Content, ReadFault>) -> bool {
        let empty = content
            .as_ref()
            .is_ok_and(|content| content.bytes.is_empty());
        let state = content
            .as_ref()
            .map(|content| content.hash.clone())
            .map_err(Clone::clone);
        let known = self.0.iter_mut().find(|told| told.which == which);
        let mut filled = false;
        if let Some(told) = known {
            if !empty {
                told.emptied = None;
            }
            if told.state == state {
                return false;
            }
            if empty && told.filled {
                let since = *told.emptied.get_or_insert_with(Instant::now);
                if since.elapsed() < WRITING {
                    return false;
                }
            }
            filled = told.filled;
        }
        self.0.retain(|told| told.which != which);
        self.0.push(Told {
            which,
            path: path.to_owned(),
            filled: if state.is_ok() { !empty } else { filled },
            state,
            emptied: None,
        });
        true
    }

    /// Whether a file may be empty only because it is being written.
    fn has_emptied(&self) -> bool {
        self.0.iter().any(|told| told.emptied.is_some())
    }
}

/// Reports every file once, and then each change of it, until the receiver is gone.
///
/// # Errors
/// When the main loop is gone.
pub(crate) async fn watch(
    mut paths: watch::Receiver<Paths>,
    events: mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    let mut reported = Reported::default();
    let mut watcher = DirectoryWatcher::new();
    let mut poll = tokio::time::interval_at(Instant::now() + POLL, POLL);
    poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let read = Instant::now();
        let current = paths.borrow_and_update().clone();
        reported.keep_only(&current);
        let current = current.each();
        watcher.watch(current.iter().map(|(_, path, _)| path.as_path()));
        for (which, path, max) in current {
            let read_path = path.clone();
            let content = tasks::off_thread(move || read_capped(&read_path, max)).await?;
            if reported.is_news(which, &path, &content) {
                let seen = FileSeen {
                    which,
                    path,
                    content: content.map(Arc::new),
                };
                events.send(Event::File(seen)).await?;
            }
        }
        tokio::select! {
            biased;
            // First: it may say that a file is being written, which the others would read half.
            hint = watcher.hint() => watcher.settle(hint, read + DEBOUNCE).await,
            changed = paths.changed() => changed?,
            _ = poll.tick() => {}
            () = tokio::time::sleep(WRITING), if reported.has_emptied() => {}
        }
    }
}

#[cfg(test)]
mod tests;
