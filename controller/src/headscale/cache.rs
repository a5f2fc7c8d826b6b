use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::answers::NodeList;
use super::client::Headscale;
use super::error::Error;

/// How long a failure stands for all who ask; less if the interval is shorter.
const FAILURE_STANDS: Duration = Duration::from_secs(5);

/// Where a [`NodeCache`] has its list from.
pub trait ListNodes {
    /// Asks for all nodes.
    fn list_nodes(&self) -> impl Future<Output = Result<NodeList, Error>> + Send;
}

impl ListNodes for Headscale {
    fn list_nodes(&self) -> impl Future<Output = Result<NodeList, Error>> + Send {
        self.nodes()
    }
}

/// One list of nodes for all who ask: at most one call is under way, and at most one is made per
/// interval unless a write makes its answer old.
///
/// The call is made by whoever asks first. If that one's future is dropped, the next one who waits
/// makes it.
#[derive(Debug)]
pub struct NodeCache<L = Headscale> {
    source: L,
    interval: Duration,
    /// How many writes there were.
    writes: AtomicU64,
    latest: Mutex<Option<Look>>,
    good: SyncMutex<Option<(Arc<NodeList>, Instant)>>,
}

/// A call that ended.
#[derive(Debug)]
struct Look {
    outcome: Result<Arc<NodeList>, Error>,
    /// The list is no younger than this.
    began: Instant,
    ended: Instant,
    /// The writes that it has seen for sure.
    writes: u64,
}

impl<L: ListNodes> NodeCache<L> {
    /// A cache that asks `source` at most once per `interval`.
    pub fn new(source: L, interval: Duration) -> Self {
        Self {
            source,
            interval,
            writes: AtomicU64::new(0),
            latest: Mutex::new(None),
            good: SyncMutex::new(None),
        }
    }

    /// Where the list is from, for writes.
    pub fn source(&self) -> &L {
        &self.source
    }

    /// The nodes, no older than the interval and no older than the last write.
    ///
    /// # Errors
    /// As of the last call, which stands for a few seconds or as long as the server asked for, so
    /// that many callers do not ask a server that is in trouble one after the other.
    pub async fn nodes(&self) -> Result<Arc<NodeList>, Error> {
        let mut latest = self.latest.lock().await;
        let writes = self.writes.load(Ordering::Acquire);
        let began = Instant::now();
        if let Some(look) = latest.as_ref()
            && look.stands(began, writes, self.interval)
        {
            return look.outcome.clone();
        }
        let outcome = self.source.list_nodes().await.map(Arc::new);
        if let Ok(nodes) = &outcome {
            let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
            *good = Some((Arc::clone(nodes), began));
        }
        *latest = Some(Look {
            outcome: outcome.clone(),
            began,
            ended: Instant::now(),
            writes,
        });
        outcome
    }

    /// To be called after every write, successful or not: the next one who asks sees its effect.
    pub fn invalidate(&self) {
        self.writes.fetch_add(1, Ordering::Release);
    }

    /// The last list that came, however old, and when it was asked for. Never waits.
    pub fn last_good(&self) -> Option<(Arc<NodeList>, Instant)> {
        self.good
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Look {
    fn stands(&self, now: Instant, writes: u64, interval: Duration) -> bool {
        if self.writes != writes {
            return false;
        }
        let end = match &self.outcome {
            Ok(_) => self.began + interval,
            Err(error) => {
                let asked = error.retry_after().unwrap_or_default();
                self.ended + interval.min(FAILURE_STANDS).max(asked)
            }
        };
        now < end
    }
}

#[cfg(test)]
mod tests;
