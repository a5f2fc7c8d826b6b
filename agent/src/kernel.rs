//! Watches the kernel: reads it whole, and again soon after each notification.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tsunaro_netlink::{Change, Changes, Error, Kernel};

use crate::event::{Event, KernelQuestion};
use crate::tasks::Delays;

/// Many notifications come in a burst (an interface with its addresses and routes).
const SETTLE: Duration = Duration::from_millis(100);

/// After a reading that took long (thousands of prefixes) the pause is this many times as long, so
/// that a restless kernel does not keep us busy.
const REST: u32 = 10;

/// A notification can be lost; read again this often.
const REREAD: Duration = Duration::from_secs(60);

/// Reports the kernel while something asks for it, until the main loop is gone.
///
/// # Errors
/// When the main loop is gone.
pub(crate) async fn watch(
    mut question: watch::Receiver<KernelQuestion>,
    events: mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    let mut delays = Delays::new();
    loop {
        question.wait_for(|question| question.read).await?;
        if let Err(error) = follow(&mut question, &events, &mut delays).await? {
            events.send(Event::Kernel(Err(error.to_string()))).await?;
        }
        tokio::time::sleep(delays.next()).await;
    }
}

/// The outer error: the main loop is gone. The inner one: the kernel's side.
async fn follow(
    question: &mut watch::Receiver<KernelQuestion>,
    events: &mpsc::Sender<Event>,
    delays: &mut Delays,
) -> anyhow::Result<Result<(), Error>> {
    // The notifications first, then the whole state: nothing that happens in between is missed.
    let mut changes = match Changes::subscribe() {
        Ok(changes) => changes,
        Err(error) => return Ok(Err(error)),
    };
    let mut kernel = match Kernel::open() {
        Ok(kernel) => kernel,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        let KernelQuestion { read: _, prefixes } = question.borrow_and_update().clone();
        let began = Instant::now();
        match kernel.view_for(&prefixes).await {
            Ok(view) => events.send(Event::Kernel(Ok(view))).await?,
            Err(error) => return Ok(Err(error)),
        }
        delays.reset();
        let settle = SETTLE.max(began.elapsed() * REST);
        tokio::select! {
            change = changes.next() => {
                if let Some(error) = failure(change) {
                    return Ok(Err(error));
                }
                tokio::time::sleep(settle).await;
                while let Some(more) = changes.next().now_or_never() {
                    if let Some(error) = failure(more) {
                        return Ok(Err(error));
                    }
                }
            }
            changed = question.changed() => changed?,
            () = tokio::time::sleep(REREAD) => {}
        }
    }
}

/// The stream ends only after an error, which comes first.
fn failure(change: Option<Result<Change, Error>>) -> Option<Error> {
    change?.err()
}
