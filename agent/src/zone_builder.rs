//! Parses hosts content and builds zone snapshots, off the async threads, the newest wish first.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tsunaro_model::config::DnsConfig;
use tsunaro_model::hosts::{Hosts, HostsError, Reading};
use tsunaro_model::zone::{self, Census, HostsState, Snapshot, next_serial};

use crate::event::Event;
use crate::files::{Content, ReadFault};
use crate::tasks;

/// What to build from.
#[derive(Debug, Clone)]
pub(crate) struct BuildInput {
    /// The zone's part of the config.
    pub(crate) dns: Arc<DnsConfig>,
    /// The hosts file.
    pub(crate) hosts: HostsFile,
}

/// The hosts file as last read.
#[derive(Debug, Clone)]
pub(crate) enum HostsFile {
    /// The config names none.
    NotConfigured,
    /// Its path, for messages, and what was read there.
    Seen(String, Result<Arc<Content>, ReadFault>),
}

/// A new snapshot, with what there is to say about it.
#[derive(Debug)]
pub(crate) struct Built {
    /// What to serve.
    pub(crate) snapshot: Arc<Snapshot>,
    /// Its counts.
    pub(crate) census: Census,
    /// The hosts content in it.
    pub(crate) hosts: HostsOutcome,
}

/// What became of the hosts file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostsOutcome {
    /// Counts up by one per accepted content.
    pub(crate) generation: u64,
    /// SHA-256 of the accepted content; empty while there was none.
    pub(crate) hash: String,
    /// Skipped names and lines of the accepted content.
    pub(crate) skipped: usize,
    /// Findings of the accepted content, as lines.
    pub(crate) findings: Vec<String>,
    /// Why the newest content is not in use.
    pub(crate) error: Option<String>,
}

/// Memory between two builds.
#[derive(Default)]
struct Builder {
    /// The last good content. Its names are read anew for each build: a million of them take a
    /// fifth of a second, and would take as much memory as the file.
    good: Option<Arc<Content>>,
    outcome: HostsOutcome,
    /// The config part and hosts hash of the last snapshot: the same again keeps the serial.
    last: Option<(Arc<DnsConfig>, String, bool)>,
    serial: Option<u32>,
    generation: u64,
}

/// Builds until the main loop is gone.
///
/// # Errors
/// When the main loop is gone, or a build panicked.
pub(crate) async fn run(
    mut inputs: watch::Receiver<Option<BuildInput>>,
    events: mpsc::Sender<Event>,
    unix_now: fn() -> u32,
) -> anyhow::Result<()> {
    let mut builder = Builder::default();
    loop {
        inputs.changed().await?;
        let Some(input) = inputs.borrow_and_update().clone() else {
            continue;
        };
        let (kept, built) = tasks::off_thread(move || {
            let built = builder.build(&input, unix_now());
            (builder, built)
        })
        .await?;
        builder = kept;
        events.send(Event::Built(built)).await?;
    }
}

impl Builder {
    fn build(&mut self, input: &BuildInput, now: u32) -> Built {
        let BuildInput { dns, hosts } = input;
        let (zone, configured) = match hosts {
            HostsFile::NotConfigured => {
                *self = Self {
                    last: self.last.take(),
                    serial: self.serial,
                    generation: self.generation,
                    ..Self::default()
                };
                (zone::Builder::new(dns, HostsState::NotConfigured), false)
            }
            HostsFile::Seen(path, content) => {
                let new = self.take_hosts(dns, path, content.as_ref());
                let zone = new.or_else(|| self.read_again(dns));
                let unread = || zone::Builder::new(dns, HostsState::Unread);
                (zone.unwrap_or_else(unread), true)
            }
        };
        let key = (Arc::clone(dns), self.outcome.hash.clone(), configured);
        if self.last.as_ref() != Some(&key) {
            self.serial = Some(next_serial(now, self.serial));
            self.generation += 1;
            self.last = Some(key);
        }
        let (snapshot, census) = zone.finish(self.generation, self.serial.unwrap_or(now));
        Built {
            snapshot: Arc::new(snapshot),
            census,
            hosts: self.outcome.clone(),
        }
    }

    /// Takes new content in; the zone with its names, if they are new and good.
    fn take_hosts(
        &mut self,
        dns: &DnsConfig,
        path: &str,
        content: Result<&Arc<Content>, &ReadFault>,
    ) -> Option<zone::Builder> {
        let content = match content {
            Ok(content) => content,
            Err(fault) => {
                self.outcome.error = Some(format!("{path}: {fault}"));
                return None;
            }
        };
        if content.hash == self.outcome.hash {
            self.outcome.error = None;
            return None;
        }
        match read(dns, content) {
            Ok((zone, reading)) => {
                self.outcome = HostsOutcome {
                    generation: self.outcome.generation + 1,
                    hash: content.hash.clone(),
                    skipped: reading.skipped,
                    findings: reading
                        .findings
                        .iter()
                        .map(|finding| finding.in_file(path).to_string())
                        .collect(),
                    error: None,
                };
                self.good = Some(Arc::clone(content));
                Some(zone)
            }
            Err(error) => {
                self.outcome.error = Some(format!("{path}: {error}"));
                None
            }
        }
    }

    /// The zone with the names of the last good content.
    fn read_again(&self, dns: &DnsConfig) -> Option<zone::Builder> {
        let (zone, _) = read(dns, self.good.as_ref()?).ok()?;
        Some(zone)
    }
}

/// A zone with the names of a hosts file, which go straight into its table.
fn read(dns: &DnsConfig, content: &Content) -> Result<(zone::Builder, Reading), HostsError> {
    let bytes = &content.bytes;
    let names = memchr::memchr_iter(b'\n', bytes).count();
    // A name takes less room in the zone than its line does.
    let mut zone = zone::Builder::with_capacity(dns, names, bytes.len());
    let reading = Hosts::read(bytes, |name, address| zone.add(name, address))?;
    Ok((zone, reading))
}

#[cfg(test)]
mod tests;
