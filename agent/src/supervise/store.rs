//! Finds a tailscaled that is stuck with an in-memory state store.
//!
//! tailscaled 1.102 that cannot open its store when it starts (`--state=kube:…` with the API server
//! away, no token, no permission) goes on with an empty one in memory, refuses every login, and
//! never tries again. It says so in its health from its start on.

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use tracing::debug;
use tsunaro_localapi::{Error, IpnEvent, LocalApi};
use tsunaro_model::tailnet::HealthWarning;

use crate::tasks::Delays;

/// After the end of a bus; a tailscaled that ends each one at once must not be asked in a loop.
const AFTER_END: Duration = Duration::from_secs(1);

/// Returns tailscaled's words when the daemon at this socket is stuck; never if it is not, or there
/// is no socket to ask at. Dropping the future closes the connection.
pub(super) async fn stuck(socket: Option<PathBuf>) -> String {
    let Some(socket) = socket else {
        return std::future::pending().await;
    };
    let api = LocalApi::new(socket);
    let mut delays = Delays::new();
    loop {
        match watch(&api).await {
            Ok(Some(words)) => return words,
            Ok(None) => {
                delays.reset();
                tokio::time::sleep(AFTER_END).await;
            }
            Err(error) => {
                debug!(%error, "Cannot watch tailscaled's health yet.");
                tokio::time::sleep(delays.next()).await;
            }
        }
    }
}

/// Watches until the bus ends; tailscaled's words if it is stuck.
async fn watch(api: &LocalApi) -> Result<Option<String>, Error> {
    let mut bus = std::pin::pin!(api.watch().await?);
    while let Some(event) = bus.next().await {
        if let IpnEvent::Health(warnings) = event?
            && let Some(words) = state_store(warnings)
        {
            return Ok(Some(words));
        }
    }
    Ok(None)
}

fn state_store(warnings: Vec<HealthWarning>) -> Option<String> {
    let found = warnings
        .into_iter()
        .find(|warning| warning.code == HealthWarning::STATE_STORE)?;
    Some(found.text)
}
