//! What is said about a gateway: conditions, routes, and the few fields that people look for.
//!
//! Messages carry nothing that changes while nothing happens, so that a gateway at rest is not
//! written.

mod calm;
mod ready;
mod rest;
mod routes;

use std::time::Duration;

pub use calm::Memory;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::login;
use super::names::{condition, reason};
use super::plan::Rest;
use super::snapshot::{Snapshot, Spec};
use crate::crd::GatewayStatus;

/// How a pass of reconciliation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing (more) to do.
    Rest(Rest),
    /// A step failed.
    Failed(Failure),
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub of: FailureOf,
    /// Why, for people.
    pub message: String,
}

/// Who refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureOf {
    /// The API server.
    Kubernetes,
    /// Headscale did not answer.
    HeadscaleAway,
    /// Headscale refused.
    Headscale,
}

/// What a verdict is made from.
#[derive(Debug, Clone, Copy)]
pub struct Judgement<'a> {
    /// What was gathered, with the effects of the steps that were done.
    pub snapshot: &'a Snapshot,
    /// How the pass ended.
    pub outcome: &'a Outcome,
    /// Where the objects live.
    pub namespace: &'a str,
    /// The moment.
    pub now: Timestamp,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The status to write if it differs.
    pub status: GatewayStatus,
    /// Conditions whose status or reason changed: the events to tell.
    pub transitions: Vec<Condition>,
    /// When to look again at the latest, although nothing else happens.
    pub again: Option<Duration>,
    /// Something is under way, so that Headscale is worth asking more often.
    pub unsettled: bool,
}

/// A condition before it has times and generations.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    kind: &'static str,
    status: Truth,
    reason: String,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Said {
    fn new(
        kind: &'static str,
        status: Truth,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Longest message of a condition (Kubernetes API conventions).
const MAX_MESSAGE: usize = 32_768;

/// Judges. `memory` remembers since when something has been worse than it was said to be.
pub fn judge(judgement: &Judgement<'_>, memory: &mut Memory) -> Verdict {
    let Judgement {
        snapshot,
        outcome,
        namespace,
        now,
    } = *judgement;
    let before = &snapshot.subject.before;
    let generation = snapshot.subject.generation;
    let routes = routes::of(snapshot);
    let said = [
        ready::of(judgement, &routes),
        accepted(snapshot),
        rest::resolved_refs(snapshot),
        routes::in_sync(snapshot, &routes),
        rest::workload_current(judgement),
        rest::service_ready(snapshot, namespace),
        rest::dns_ready(snapshot),
        Said::new(
            condition::CLUSTER_DNS_FORWARD,
            Truth::Unknown,
            reason::EXTERNALLY_MANAGED,
            rest::forward_message(snapshot),
        ),
        stale_nodes(snapshot),
    ];
    let mut transitions = Vec::new();
    let mut conditions = Vec::with_capacity(said.len());
    let mut again: Option<Duration> = None;
    for said in said {
        let old = before.conditions.iter().find(|old| old.type_ == said.kind);
        if let Some(left) = memory.holds(&said, old, generation, now)
            && let Some(old) = old
        {
            again = Some(again.map_or(left, |soonest| soonest.min(left)));
            conditions.push(old.clone());
            continue;
        }
        let new = finished(said, old, generation, now);
        if old.is_none_or(|old| old.status != new.status || old.reason != new.reason) {
            transitions.push(new.clone());
        }
        conditions.push(new);
    }
    let ready = conditions
        .first()
        .is_some_and(|condition| condition.status == Truth::True.as_str());
    let in_sync = conditions
        .iter()
        .any(|c| c.type_ == condition::ROUTES_IN_SYNC && c.status == Truth::True.as_str());
    let wanted = snapshot.spec.wanted().len();
    let serving = routes
        .iter()
        .filter(|route| route.wanted && route.served_by.is_some())
        .count();
    let node = snapshot.node();
    let begun = snapshot.receipt.is_ours();
    let status = GatewayStatus {
        observed_generation: Some(generation),
        pinned: before.pinned,
        node_id: node
            .map(|node| node.id.to_string())
            .or_else(|| before.node_id.clone()),
        ipv4: node
            .and_then(|node| node.addresses.iter().find(|address| address.is_ipv4()))
            .map(ToString::to_string)
            .or_else(|| before.ipv4.clone()),
        service_ip: snapshot
            .service_addresses()
            .first()
            .map(ToString::to_string),
        routes_serving: begun.then(|| format!("{serving}/{wanted}")),
        routes,
        conditions,
    };
    let resting = matches!(
        outcome,
        Outcome::Rest(Rest::Settled | Rest::PodEnding | Rest::MintLimit(_))
    );
    Verdict {
        status,
        transitions,
        again,
        unsettled: resting && !(ready && in_sync),
    }
}

fn stale_nodes(snapshot: &Snapshot) -> Said {
    match login::strangers(snapshot) {
        Some(message) => Said::new(
            condition::STALE_NODES,
            Truth::True,
            reason::KEY_USED_ELSEWHERE,
            message,
        ),
        None => Said::new(
            condition::STALE_NODES,
            Truth::Unknown,
            reason::EXTERNALLY_MANAGED,
            "nodes of earlier routers are their administrator's to delete (headscale nodes list)",
        ),
    }
}

fn accepted(snapshot: &Snapshot) -> Said {
    match &snapshot.spec {
        Spec::Invalid(why) => Said::new(
            condition::ACCEPTED,
            Truth::False,
            reason::INVALID,
            why.clone(),
        ),
        Spec::Valid { warnings, .. } => {
            let message = if warnings.is_empty() {
                "the spec is valid".to_owned()
            } else {
                format!("the spec is valid. {}", warnings.join(". "))
            };
            Said::new(condition::ACCEPTED, Truth::True, reason::ACCEPTED, message)
        }
    }
}

fn finished(said: Said, old: Option<&Condition>, generation: i64, now: Timestamp) -> Condition {
    let Said {
        kind,
        status,
        reason,
        mut message,
    } = said;
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    let same = old.filter(|old| old.status == status.as_str());
    Condition {
        type_: kind.to_owned(),
        status: status.as_str().to_owned(),
        reason,
        message,
        observed_generation: Some(generation),
        last_transition_time: same
            .map_or_else(|| time(now), |old| old.last_transition_time.clone()),
    }
}

/// The API server keeps whole seconds; what is written must be what is read back.
fn time(now: Timestamp) -> Time {
    let seconds = k8s_openapi::jiff::Timestamp::from_second(now.as_second());
    Time(seconds.unwrap_or_default())
}

#[cfg(test)]
mod tests;
