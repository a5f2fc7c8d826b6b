//! Watches tailscaled: connects, reads it whole, and again after each message of its bus.

use std::time::Duration;

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tsunaro_localapi::{Error, IpnEvent, LocalApi};
use tsunaro_model::kernel::checks::{Opinion, Opinions};

use crate::event::{Event, TailnetSeen};
use crate::tasks::Delays;

/// The bus does not tell of everything (being online, health of the moment); read again this often.
const REREAD: Duration = Duration::from_secs(15);

/// Messages of one change come in a burst.
const SETTLE: Duration = Duration::from_millis(20);

/// A bus that never pauses is no reason not to read.
const BURST: Duration = Duration::from_millis(200);

/// The last words of a bus whose reader was too slow (`watchIPNBusFellBehindMessage` in
/// ipn/ipnlocal); its end follows.
const FELL_BEHIND: &str = "IPN bus consumer fell behind";

/// A connection that lived this long was a good one: the next attempt starts with short pauses.
const STEADY: Duration = Duration::from_secs(10);

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
    let connected = Instant::now();
    loop {
        if let Err(stop) = read(api, events).await {
            return stop;
        }
        if connected.elapsed() >= STEADY {
            delays.reset();
        }
        let first = tokio::select! {
            message = bus.next() => message,
            () = tokio::time::sleep(REREAD) => continue,
        };
        let burst_end = Instant::now() + BURST;
        let mut message = Some(first);
        while let Some(now) = message {
            if let Err(stop) = hear(now, events).await {
                return stop;
            }
            if Instant::now() >= burst_end {
                break;
            }
            let pause = SETTLE.min(burst_end.saturating_duration_since(Instant::now()));
            message = tokio::time::timeout(pause, bus.next()).await.ok();
        }
    }
}

/// One message of the bus. All but refusals are hints: the state is read whole.
async fn hear(
    message: Option<Result<IpnEvent, Error>>,
    events: &mpsc::Sender<Event>,
) -> Result<(), Stop> {
    match message {
        None => Err(Stop::Daemon(
            "tailscaled ended the connection; it is awaited".to_owned(),
        )),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(IpnEvent::ErrorMessage(why))) if why.starts_with(FELL_BEHIND) => {
            tracing::info!(
                "Tailscaled dropped us as a slow reader of its bus; its state is read anew"
            );
            Ok(())
        }
        Some(Ok(IpnEvent::ErrorMessage(why))) => {
            let refused = Event::Tailnet(TailnetSeen::LoginRefused(why));
            events.send(refused).await.map_err(|_| Stop::MainLoopGone)
        }
        Some(Ok(_)) => Ok(()),
    }
}

fn opinion(answer: Result<Option<String>, Error>) -> Opinion {
    match answer {
        Ok(None) => Opinion::Fine,
        Ok(Some(words)) => Opinion::Warns(words),
        Err(error) => {
            tracing::debug!(%error, "A check of tailscaled's own gave no answer");
            Opinion::NotAsked
        }
    }
}

async fn read(api: &LocalApi, events: &mpsc::Sender<Event>) -> Result<(), Stop> {
    let status = Box::new(api.status().await?);
    let prefs = Box::new(api.prefs().await?);
    let dns = api.dns_config().await?;
    // A second opinion: without an answer it is Unknown, and nothing else suffers.
    let opinions = Opinions {
        forwarding: opinion(api.check_ip_forwarding().await),
        udp_gro: opinion(api.check_udp_gro_forwarding().await),
    };
    let read = TailnetSeen::Read {
        status,
        prefs,
        dns,
        opinions,
    };
    events
        .send(Event::Tailnet(read))
        .await
        .map_err(|_| Stop::MainLoopGone)
}
