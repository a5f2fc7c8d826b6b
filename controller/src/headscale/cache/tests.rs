use std::collections::VecDeque;

use super::super::error::{At, Phase};
use super::*;

const INTERVAL: Duration = Duration::from_secs(10);

/// Answers after a while, by a script.
struct Script {
    takes: Duration,
    answers: SyncMutex<VecDeque<Result<NodeList, Error>>>,
    calls: AtomicU64,
    ended: AtomicU64,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Result<NodeList, Error>>) -> Self {
        Self {
            takes: Duration::from_secs(1),
            answers: SyncMutex::new(answers.into_iter().collect()),
            calls: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }
}

impl ListNodes for Script {
    async fn list_nodes(&self) -> Result<NodeList, Error> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.answers
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or_else(|| Ok(NodeList::default()))
    }
}

fn cache(answers: impl IntoIterator<Item = Result<NodeList, Error>>) -> NodeCache<Script> {
    NodeCache::new(Script::new(answers), INTERVAL)
}

fn calls(cache: &NodeCache<Script>) -> u64 {
    cache.source().calls.load(Ordering::SeqCst)
}

fn down(retry_after: Option<u64>) -> Error {
    Error::Unavailable {
        at: At {
            server: "https://hs.example.com".into(),
            request: "GET /node".to_owned(),
        },
        phase: Phase::Connecting,
        cause: "refused".to_owned(),
        retry_after: retry_after.map(Duration::from_secs),
    }
}

#[tokio::test(start_paused = true)]
async fn many_who_ask_at_once_share_one_call_and_one_list() {
    let cache = cache([]);
    let lists = futures::future::join_all((0..100).map(|_| cache.nodes())).await;
    assert_eq!(calls(&cache), 1);
    let first = lists[0].as_ref().unwrap();
    assert!(
        lists
            .iter()
            .all(|list| Arc::ptr_eq(list.as_ref().unwrap(), first))
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_is_asked_for_again_only_after_the_interval() {
    let cache = cache([]);
    cache.nodes().await.unwrap();
    // The call took one second of the interval, which began with it.
    tokio::time::advance(INTERVAL - Duration::from_secs(1) - Duration::from_millis(1)).await;
    cache.nodes().await.unwrap();
    assert_eq!(calls(&cache), 1);
    tokio::time::advance(Duration::from_millis(1)).await;
    cache.nodes().await.unwrap();
    assert_eq!(calls(&cache), 2);
}

#[tokio::test(start_paused = true)]
async fn a_write_makes_the_list_old_at_once_but_does_not_ask_by_itself() {
    let cache = cache([]);
    cache.nodes().await.unwrap();
    cache.invalidate();
    cache.invalidate();
    assert_eq!(calls(&cache), 1);
    cache.nodes().await.unwrap();
    cache.nodes().await.unwrap();
    assert_eq!(calls(&cache), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_under_way_at_a_write_is_not_given_to_who_asks_after_it() {
    let cache = cache([]);
    let (before, after) = tokio::join!(cache.nodes(), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cache.invalidate();
        cache.nodes().await
    });
    assert_eq!(calls(&cache), 2);
    assert!(!Arc::ptr_eq(&before.unwrap(), &after.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_failure_stands_for_a_moment_for_all_who_ask_and_the_last_good_list_stays() {
    let cache = cache([Ok(NodeList::default()), Err(down(None))]);
    let began = Instant::now();
    assert!(cache.last_good().is_none());
    let good = cache.nodes().await.unwrap();
    tokio::time::advance(INTERVAL).await;
    let failed = futures::future::join_all((0..50).map(|_| cache.nodes())).await;
    assert!(failed.iter().all(|outcome| *outcome == Err(down(None))));
    assert_eq!(calls(&cache), 2);
    let (last, asked) = cache.last_good().unwrap();
    assert!(Arc::ptr_eq(&last, &good) && asked == began);
    tokio::time::advance(FAILURE_STANDS - Duration::from_millis(1)).await;
    assert!(cache.nodes().await.is_err());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(cache.nodes().await.is_ok());
    assert_eq!(calls(&cache), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_to_be_left_alone_is() {
    let cache = cache([Err(down(Some(60)))]);
    assert!(cache.nodes().await.is_err());
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(cache.nodes().await.is_err());
    assert_eq!(calls(&cache), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(cache.nodes().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_for_its_call_leaves_it_to_the_next() {
    let cache = cache([]);
    let (stopped, other) = tokio::join!(
        tokio::time::timeout(Duration::from_millis(500), cache.nodes()),
        cache.nodes()
    );
    assert!(stopped.is_err());
    assert!(other.is_ok());
    assert_eq!(calls(&cache), 2);
    assert_eq!(cache.source().ended.load(Ordering::SeqCst), 1);
}
