//! Answers and failures kept for a while (rules 56 and 57 of the DNS contract).

use std::borrow::Borrow;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;

use super::answer::Failure;
use super::question::Key;
use super::reply::{Lifetime, Reply};
use super::ttl;

/// Questions remembered (rule 56).
const MAX_ENTRIES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// Sum of the messages remembered, in octets: a bound on memory whatever upstreams send. Decoded
/// they take several times as much.
const MAX_OCTETS: usize = 4 << 20;

/// The cache of one generation of the configuration.
#[derive(Debug)]
pub(super) struct Cache {
    entries: LruCache<Key, Entry>,
    octets: usize,
}

#[derive(Debug, Default)]
struct Entry {
    answer: Option<Answer>,
    failure: Option<(Failure, Instant)>,
}

#[derive(Debug)]
struct Answer {
    reply: Arc<Reply>,
    arrived: Instant,
}

/// What the cache knows about a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing that spares a query.
    Nothing,
    /// An answer of this age, within its lifetime.
    Fresh(Arc<Reply>, Duration),
    /// The upstreams failed a moment ago.
    Failed(Failure),
}

impl Cache {
    pub(super) fn new() -> Self {
        Self {
            entries: LruCache::sparse(MAX_ENTRIES),
            octets: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn find(&mut self, key: &Key, now: Instant) -> Found {
        self.find_octets(key.borrow(), now)
    }

    /// As [`Cache::find`], for a key that nobody owns.
    pub(super) fn find_octets(&mut self, key: &[u8], now: Instant) -> Found {
        let Some(entry) = self.entries.get(key) else {
            return Found::Nothing;
        };
        if let Some(answer) = &entry.answer {
            let age = now.saturating_duration_since(answer.arrived);
            if age < answer.lifetime() {
                return Found::Fresh(Arc::clone(&answer.reply), age);
            }
        }
        match &entry.failure {
            Some((failure, until)) if now < *until => Found::Failed(failure.clone()),
            _ => Found::Nothing,
        }
    }

    /// A positive answer past its lifetime, for want of a better one (RFC 8767).
    pub(super) fn find_stale(&mut self, key: &Key, now: Instant) -> Option<Arc<Reply>> {
        let answer = self.entries.get(key)?.answer.as_ref()?;
        let positive = matches!(answer.reply.lifetime, Lifetime::Positive(_));
        let young = now.saturating_duration_since(answer.arrived) <= ttl::MAX_STALE_AGE;
        (positive && young).then(|| Arc::clone(&answer.reply))
    }

    /// Keeps an answer if it may be kept. One that may not still replaces what it contradicts.
    pub(super) fn insert(&mut self, key: Key, reply: Arc<Reply>, now: Instant) {
        if reply.lifetime == Lifetime::Uncacheable {
            self.remove(&key);
            return;
        }
        self.octets += reply.octets;
        self.put(
            key,
            Entry {
                answer: Some(Answer {
                    reply,
                    arrived: now,
                }),
                failure: None,
            },
        );
        while self.octets > MAX_OCTETS {
            let Some((_, entry)) = self.entries.pop_lru() else {
                break;
            };
            self.octets -= entry.octets();
        }
    }

    /// Remembers a failure beside the stale answer that may stand in for it.
    pub(super) fn insert_failure(&mut self, key: Key, failure: Failure, now: Instant) {
        let failure = Some((failure, now + ttl::FAILURE));
        match self.entries.get_mut(&key) {
            Some(entry) => entry.failure = failure,
            None => self.put(
                key,
                Entry {
                    answer: None,
                    failure,
                },
            ),
        }
    }

    fn put(&mut self, key: Key, entry: Entry) {
        if let Some((_, old)) = self.entries.push(key, entry) {
            self.octets -= old.octets();
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(old) = self.entries.pop(key) {
            self.octets -= old.octets();
        }
    }
}

impl Entry {
    fn octets(&self) -> usize {
        self.answer.as_ref().map_or(0, |answer| answer.reply.octets)
    }
}

impl Answer {
    fn lifetime(&self) -> Duration {
        let seconds = match self.reply.lifetime {
            Lifetime::Uncacheable => 0,
            Lifetime::Positive(seconds) | Lifetime::Negative(seconds) => seconds,
        };
        Duration::from_secs(seconds.into())
    }
}

#[cfg(test)]
mod tests;
