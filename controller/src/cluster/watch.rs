//! One watch: keeps a store, tells of every change, and says in one line when it cannot.

use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use futures::StreamExt;
use kube::Resource;
use kube::api::Api;
use kube::runtime::reflector::store::Writer;
use kube::runtime::utils::ResetTimerBackoff;
use kube::runtime::watcher::{self, Event, ExponentialBackoff};
use kube::runtime::{WatchStreamExt, watcher as watch};
use serde::de::DeserializeOwned;

use super::failure::words;

/// Between two attempts; jitter may double it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Follows a kind of objects for ever. `changed` gets every object that is there, was changed or
/// went, after the store knows.
pub(super) async fn follow<K, C, F>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    mut writer: Writer<K>,
    changed: C,
) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Eq + Hash + Clone,
    C: Fn(K) -> F,
    F: Future<Output = ()>,
{
    let mut events = std::pin::pin!(watch(api, config).backoff(pauses()));
    let mut trouble: Option<String> = None;
    let mut first = Vec::new();
    while let Some(event) = events.next().await {
        let mut event = match event {
            Ok(event) => event,
            Err(error) => {
                let said = sentence(&error);
                // The back-off asks again; the same answer is not told again.
                if trouble.as_ref() != Some(&said) {
                    tracing::warn!(kind = what, error = %said, "Cannot watch; this is tried again");
                    trouble = Some(said);
                }
                continue;
            }
        };
        if matches!(event, Event::InitDone | Event::Apply(_) | Event::Delete(_))
            && trouble.take().is_some()
        {
            tracing::info!(kind = what, "Watching again");
        }
        slim(&mut event);
        writer.apply_watcher_event(&event);
        match event {
            Event::Init => first.clear(),
            Event::InitApply(object) => first.push(object),
            Event::InitDone => {
                for object in first.drain(..) {
                    changed(object).await;
                }
            }
            Event::Apply(object) | Event::Delete(object) => changed(object).await,
        }
    }
    anyhow::bail!("the watch of {what} ended")
}

/// As kube's default, but at most [`LONGEST_PAUSE`]: after an outage changes wait for no longer than that.
fn pauses() -> ResetTimerBackoff<ExponentialBackoff> {
    let pauses = backon::ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(800))
        .with_max_delay(LONGEST_PAUSE)
        .with_factor(2.0)
        .without_max_times()
        .with_jitter();
    ResetTimerBackoff::new(pauses.into(), Duration::from_secs(120))
}

/// Who wrote which field is a third of most objects, and nobody here reads it.
fn slim<K: Resource>(event: &mut Event<K>) {
    match event {
        Event::Apply(object) | Event::Delete(object) | Event::InitApply(object) => {
            object.meta_mut().managed_fields = None;
        }
        Event::Init | Event::InitDone => {}
    }
}

fn sentence(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => words(error),
        watcher::Error::WatchError(status) => words(&kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}
