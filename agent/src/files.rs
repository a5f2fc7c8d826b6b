//! Watches the config, hosts and key files, and resolv.conf: any event in their directories is a hint, the content
//! hash decides, a poll is the fallback.
//!
//! A Kubernetes volume changes by a swap of the symlink `..data` in the directory of the file, so
//! the directory is watched and the path is opened anew each time.

mod read;
mod watcher;

use std::path::PathBuf;
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

/// What was reported of a file last.
type Last = (Which, PathBuf, Result<String, ReadFault>);

/// Reports every file once, and then each change of it, until the receiver is gone.
///
/// # Errors
/// When the main loop is gone.
pub(crate) async fn watch(
    mut paths: watch::Receiver<Paths>,
    events: mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    let mut last: Vec<Last> = Vec::new();
    let mut emptied = Vec::new();
    let mut watcher = DirectoryWatcher::new();
    let mut poll = tokio::time::interval_at(Instant::now() + POLL, POLL);
    poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let read = Instant::now();
        let current = paths.borrow_and_update().each();
        watcher.watch(current.iter().map(|(_, path, _)| path.as_path()));
        for (which, path, max) in current {
            let read_path = path.clone();
            let content = tasks::off_thread(move || read_capped(&read_path, max)).await?;
            let state = content
                .as_ref()
                .map(|content| content.hash.clone())
                .map_err(Clone::clone);
            let key = (which, path, state);
            if last.contains(&key) {
                emptied.retain(|(other, _)| *other != which);
                continue;
            }
            if content
                .as_ref()
                .is_ok_and(|content| content.bytes.is_empty())
                && has_content(&last, which)
                && !stays_empty(&mut emptied, which)
            {
                continue;
            }
            last.retain(|(other, _, _)| *other != which);
            let (_, path, _) = &key;
            let seen = FileSeen {
                which,
                path: path.clone(),
                content: content.map(Arc::new),
            };
            last.push(key);
            events.send(Event::File(seen)).await?;
        }
        tokio::select! {
            biased;
            // First: it may say that a file is being written, which the others would read half.
            hint = watcher.hint() => watcher.settle(hint, read + DEBOUNCE).await,
            changed = paths.changed() => changed?,
            _ = poll.tick() => {}
            () = tokio::time::sleep(WRITING), if !emptied.is_empty() => {}
        }
    }
}

/// Whether the file was last reported with content.
fn has_content(last: &[Last], which: Which) -> bool {
    last.iter()
        .any(|(other, _, state)| *other == which && state.as_ref().is_ok_and(|hash| hash != EMPTY))
}

/// Whether the file was empty for long enough to mean it.
fn stays_empty(emptied: &mut Vec<(Which, Instant)>, which: Which) -> bool {
    match emptied.iter().find(|(other, _)| *other == which) {
        Some((_, since)) => since.elapsed() >= WRITING,
        None => {
            emptied.push((which, Instant::now()));
            false
        }
    }
}

/// SHA-256 of nothing.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[cfg(test)]
mod tests;
