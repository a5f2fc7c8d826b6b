//! When a call is made again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use super::endpoint::Endpoint;
use super::error::{Error, Phase};

/// First pause; jitter adds up to the same again, later pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// The pauses between `attempts` tries, jittered so that many callers do not come back at once.
pub(super) fn pauses(attempts: usize) -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .with_max_times(attempts.saturating_sub(1))
        .with_jitter()
        .build()
}

/// How long to wait before the next try; None to give up. `left` is what remains of the call's
/// time; a try that could not even begin before its end is not worth a pause.
pub(super) fn next_pause(
    endpoint: Endpoint,
    error: &Error,
    pause: Option<Duration>,
    left: Duration,
) -> Option<Duration> {
    if !may_repeat(endpoint, error) {
        return None;
    }
    let pause = pause?.max(error.retry_after().unwrap_or_default());
    (pause < left).then_some(pause)
}

fn may_repeat(endpoint: Endpoint, error: &Error) -> bool {
    match error {
        Error::Unavailable { phase, .. } | Error::Timeout { phase, .. } => match phase {
            Phase::Connecting => true,
            Phase::Answering => endpoint.is_idempotent(),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests;
