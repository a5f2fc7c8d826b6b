//! Watches tailscaled: connects, reads it whole, and again after each message of its bus.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tsunaro_localapi::{Error, LocalApi};

use crate::event::{Event, TailnetSeen};
use crate::tasks::Delays;

/// The bus does not tell of everything (being online, health of the moment); read again this often.
const REREAD: Duration = Duration::from_secs(15);

/// Messages of one change come in a burst.
const SETTLE: Duration = Duration::from_millis(20);

/// Reports tailscaled until the main loop is gone; reconnects for ever.
///
/// # Errors
/// When the main loop is gone.
pub(crate) async fn watch(api: LocalApi, events: mpsc::Sender<Event>) -> anyhow::Result<()> {
    let mut delays = Delays::new();
    loop {
        let error = follow(&api, &events, &mut delays).await;
        match error {
            Stop::MainLoopGone => anyhow::bail!("the main loop is gone"),
            Stop::Daemon(why) => events.send(Event::Tailnet(TailnetSeen::Lost(why))).await?,
        }
        tokio::time::sleep(delays.next()).await;
    }
}

enum Stop {
    MainLoopGone,
    Daemon(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Daemon(error.to_string())
    }
}

async fn follow(api: &LocalApi, events: &mpsc::Sender<Event>, delays: &mut Delays) -> Stop {
    // The bus first, then the whole state: nothing that happens in between is missed.
    let bus = match api.watch().await {
        Ok(bus) => bus,
        Err(error) => return error.into(),
    };
    let mut bus = std::pin::pin!(bus);
    loop {
        if let Err(stop) = read(api, events).await {
            return stop;
        }
        delays.reset();
        tokio::select! {
            message = bus.next() => match message {
                None => return Stop::Daemon("tailscaled ended the connection; it is awaited".to_owned()),
                Some(Err(error)) => return error.into(),
                Some(Ok(_)) => {
                    tokio::time::sleep(SETTLE).await;
                    while let Some(more) = bus.next().now_or_never() {
                        match more {
                            None => return Stop::Daemon("tailscaled ended the connection; it is awaited".to_owned()),
                            Some(Err(error)) => return error.into(),
                            Some(Ok(_)) => {}
                        }
                    }
                }
            },
            () = tokio::time::sleep(REREAD) => {}
        }
    }
}

async fn read(api: &LocalApi, events: &mpsc::Sender<Event>) -> Result<(), Stop> {
    let status = Box::new(api.status().await?);
    let prefs = Box::new(api.prefs().await?);
    events.send(Event::Tailnet(TailnetSeen::Read { status, prefs })).await.map_err(|_| Stop::MainLoopGone)
}
