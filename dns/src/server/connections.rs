//! Which connections are open, and which one has to go when there are too many: over TCP port 53 by rule
//! 76, and the agent keeps its HTTP port by the same.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The open connections of all listeners.
#[derive(Debug)]
pub struct Connections {
    /// In all, at least 1.
    limit: usize,
    /// Per client address, if limited.
    per_client: Option<usize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    client: IpAddr,
    /// Since when no query is in flight; none while one is.
    idle_since: Option<Instant>,
    evicted: CancellationToken,
}

/// A place among the open connections, given up when dropped.
#[derive(Debug)]
pub struct Slot {
    connections: Arc<Connections>,
    id: u64,
    evicted: CancellationToken,
}

/// How a connection was let in.
#[derive(Debug)]
pub enum Admission {
    /// There was room.
    Free(Slot),
    /// The connection that was idle longest had to go.
    Evicting(Slot),
    /// Every connection that could go is busy.
    Refused,
}

impl Connections {
    /// Room for `limit` connections in all, and for so many of one client address.
    #[must_use]
    pub fn new(limit: usize, per_client: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.max(1),
            per_client,
            state: Mutex::default(),
        })
    }

    /// Lets a connection from `client` in, if there is room or room can be made.
    pub fn admit(self: &Arc<Self>, client: IpAddr, now: Instant) -> Admission {
        let client = client.to_canonical();
        let mut state = self.lock();
        let of_client = state
            .open
            .values()
            .filter(|entry| entry.client == client)
            .count();
        let over_own = self.per_client.is_some_and(|limit| of_client >= limit);
        let full = over_own || state.open.len() >= self.limit;
        if full {
            let oldest = state
                .open
                .iter()
                .filter(|(_, entry)| !over_own || entry.client == client)
                .filter_map(|(id, entry)| Some((entry.idle_since?, *id)))
                .min();
            let Some(entry) = oldest.and_then(|(_, id)| state.open.remove(&id)) else {
                return Admission::Refused;
            };
            entry.evicted.cancel();
        }
        let id = state.next;
        state.next += 1;
        let evicted = CancellationToken::new();
        state.open.insert(
            id,
            Entry {
                client,
                idle_since: Some(now),
                evicted: evicted.clone(),
            },
        );
        let slot = Slot {
            connections: Arc::clone(self),
            id,
            evicted,
        };
        if full {
            Admission::Evicting(slot)
        } else {
            Admission::Free(slot)
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock can leave the map half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// A query is in flight: this connection may not be evicted.
    pub fn busy(&self) {
        self.set(None);
    }

    /// No query is in flight any more.
    pub fn idle(&self, now: Instant) {
        self.set(Some(now));
    }

    /// Waits until the connection has to go.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// The connections that this one is among.
    #[cfg(test)]
    pub(super) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    fn set(&self, idle_since: Option<Instant>) {
        if let Some(entry) = self.connections.lock().open.get_mut(&self.id) {
            entry.idle_since = idle_since;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
