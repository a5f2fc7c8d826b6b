//! Hysteresis: what was true stays true for a moment, so that a reconnect is no outage.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::super::names::reason;
use super::{Said, Truth};

/// Since when each condition has been worse than it was said to be. Lost at a restart, which only
/// begins the wait again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    worse_since: BTreeMap<&'static str, Timestamp>,
}

impl Memory {
    /// How long the old condition still stands although `said` is worse; None if it does not.
    pub(super) fn holds(
        &mut self,
        said: &Said,
        old: Option<&Condition>,
        generation: i64,
        now: Timestamp,
    ) -> Option<Duration> {
        let was_true = old.is_some_and(|old| old.status == Truth::True.as_str());
        // After a change of the spec, what was true is about something else.
        let same_spec = old.and_then(|old| old.observed_generation) == Some(generation);
        let grace = grace(&said.reason);
        if said.status == Truth::True || !was_true || !same_spec || grace.is_zero() {
            self.worse_since.remove(said.kind);
            return None;
        }
        let since = *self.worse_since.entry(said.kind).or_insert(now);
        let left = grace - now.duration_since(since);
        if left.is_positive() {
            return Duration::try_from(left).ok();
        }
        None
    }
}

/// How long a reason has to last before it is told. What a person did, and what the API server
/// says, is told at once.
fn grace(reason: &str) -> SignedDuration {
    SignedDuration::from_secs(match reason {
        // A node that loses its connection has it back within seconds; Headscale calls it offline
        // at once.
        reason::NODE_OFFLINE => 30,
        // Agent and controller reconnect within 5 s.
        reason::AGENT_UNREACHABLE => 30,
        // A restart of Headscale.
        reason::HEADSCALE_UNREACHABLE => 60,
        // A failover takes 6 to 15 s.
        reason::NOT_SERVING => 30,
        // A change of routes is live within 3 s, and lists are up to 15 s old.
        reason::NOT_ADVERTISED | reason::UNWANTED_ADVERTISED | reason::PENDING_APPROVAL => 20,
        _ => 0,
    })
}
