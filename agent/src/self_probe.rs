//! The agent asks itself: does every listening address answer, over UDP and TCP?

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use tsunaro_dns::forward::ClientTransport;
use tsunaro_dns::probe;
use tsunaro_model::zone::Snapshot;

use crate::event::Event;

/// Between two rounds.
const PAUSE: Duration = Duration::from_secs(10);

/// Rounds in a row that an address must fail before it is told: one lost datagram is no news.
const ROUNDS_TO_TELL: u32 = 2;

/// Probes until the main loop is gone; tells it when the outcome changes.
///
/// # Errors
/// When the main loop is gone.
pub(crate) async fn run(
    addresses: Vec<SocketAddr>,
    zone: Arc<ArcSwap<Snapshot>>,
    events: mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    let targets: Vec<(SocketAddr, ClientTransport)> = addresses
        .iter()
        .flat_map(|address| {
            [
                (*address, ClientTransport::Udp),
                (*address, ClientTransport::Tcp),
            ]
        })
        .collect();
    let mut failures = vec![0_u32; targets.len()];
    let mut told: Vec<String> = Vec::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        let mut deaf = Vec::new();
        for ((address, transport), failures) in targets.iter().zip(&mut failures) {
            let apex = zone.load().apex().clone();
            match probe::ask_soa(*address, &apex, *transport).await {
                Ok(()) => *failures = 0,
                Err(error) => {
                    *failures = failures.saturating_add(1);
                    if *failures >= ROUNDS_TO_TELL {
                        deaf.push(format!("{address} over {transport:?}: {error}"));
                    }
                }
            }
        }
        if deaf != told {
            told.clone_from(&deaf);
            events.send(Event::Probed(deaf)).await?;
        }
    }
}
