//! The conditions that follow from one thing each.

use tsunaro_model::report::Tri;

use super::super::names::{condition, reason};
use super::super::plan::Kind;
use super::super::snapshot::{Agent, Control, Snapshot, workload};
use super::{Failure, FailureOf, Judgement, Outcome, Said, Truth};

pub(super) fn resolved_refs(snapshot: &Snapshot) -> Said {
    let no = |reason: &str, message: String| {
        Said::new(condition::RESOLVED_REFS, Truth::False, reason, message)
    };
    match &snapshot.control {
        Control::NoTailnet => no(
            reason::TAILNET_NOT_FOUND,
            "the Tailnet of tailnetRef does not exist: create it".to_owned(),
        ),
        Control::BadTailnet(why) => no(reason::TAILNET_INVALID, why.clone()),
        Control::NoApiKey(why) => no(reason::API_KEY_INVALID, why.clone()),
        Control::Unreachable(_) | Control::Listed(_) => Said::new(
            condition::RESOLVED_REFS,
            Truth::True,
            reason::RESOLVED,
            "its Tailnet and that one's API key are there",
        ),
    }
}

pub(super) fn workload_current(judgement: &Judgement<'_>) -> Said {
    let Judgement {
        snapshot,
        outcome,
        namespace,
        now: _,
    } = *judgement;
    let say = |status, reason: &str, message: String| {
        Said::new(condition::WORKLOAD_CURRENT, status, reason, message)
    };
    if let Outcome::Failed(Failure {
        of: FailureOf::Kubernetes,
        message,
    }) = outcome
        && snapshot.receipt.is_ours()
    {
        return say(Truth::False, reason::APPLY_FAILED, message.clone());
    }
    let set = snapshot
        .children
        .iter()
        .find(|child| child.kind == Kind::StatefulSet);
    let wanted = set
        .and_then(|child| child.live.as_ref())
        .and_then(|live| workload(live).revision);
    let Some(pod) = &snapshot.pod else {
        return say(Truth::Unknown, reason::NO_POD, "there is no Pod".to_owned());
    };
    if snapshot.spec.gateway().is_none() {
        let message = "the spec is not valid: the Pod runs on as it was".to_owned();
        return say(Truth::Unknown, reason::INVALID, message);
    }
    match (&pod.revision, wanted) {
        (Some(has), Some(wanted)) if *has == wanted => say(
            Truth::True,
            reason::POD_CURRENT,
            "the Pod is as the template says".to_owned(),
        ),
        (Some(_), Some(_)) => say(
            Truth::False,
            reason::POD_TEMPLATE_STALE,
            format!(
                "the template has changed since the Pod was made; to apply it (the tailnet loses the gateway \
                 for seconds): kubectl -n {namespace} delete pod {}-0",
                snapshot.subject.name
            ),
        ),
        _ => say(
            Truth::Unknown,
            reason::CREATING,
            "the StatefulSet's controller has not looked at the template yet".to_owned(),
        ),
    }
}

pub(super) fn service_ready(snapshot: &Snapshot, namespace: &str) -> Said {
    let say = |status, reason: &str, message: String| {
        Said::new(condition::SERVICE_READY, status, reason, message)
    };
    let addresses = snapshot.service_addresses();
    let Some(gateway) = snapshot.spec.gateway() else {
        return say(
            Truth::Unknown,
            reason::INVALID,
            "the spec is not valid".to_owned(),
        );
    };
    let wanted = gateway.service.load_balancer_ip;
    if addresses.contains(&wanted) {
        return say(
            Truth::True,
            reason::LOAD_BALANCER_ASSIGNED,
            format!("the Service has the address {wanted}"),
        );
    }
    match addresses.first() {
        None => say(
            Truth::False,
            reason::LB_PENDING,
            format!(
                "no load balancer gave the Service its address {wanted}: see kubectl -n {namespace} describe service {}; on a \
                 cluster with a cloud's own load balancer set service.loadBalancerClass",
                gateway.name
            ),
        ),
        Some(other) => say(
            Truth::False,
            reason::OTHER_ADDRESS,
            format!(
                "the load balancer gave {other} instead of {wanted}: look at its pool and at service.poolLabels"
            ),
        ),
    }
}

/// What the agent says of itself.
pub(super) fn dns_ready(snapshot: &Snapshot) -> Said {
    let say = |status, reason: &str, message: String| {
        Said::new(condition::DNS_READY, status, reason, message)
    };
    match &snapshot.agent {
        Agent::Absent => say(
            Truth::Unknown,
            reason::NO_POD,
            "there is no Pod with an address".to_owned(),
        ),
        Agent::Connecting => {
            let before = snapshot.subject.before.conditions.iter();
            let old = before.clone().find(|old| old.type_ == condition::DNS_READY);
            match old {
                // Nothing new is known yet.
                Some(old) => {
                    let status = match old.status.as_str() {
                        "True" => Truth::True,
                        "False" => Truth::False,
                        _ => Truth::Unknown,
                    };
                    say(status, &old.reason, old.message.clone())
                }
                None => say(
                    Truth::Unknown,
                    reason::CREATING,
                    "the agent has not been asked yet".to_owned(),
                ),
            }
        }
        Agent::Unreachable(why) => say(
            Truth::Unknown,
            reason::AGENT_UNREACHABLE,
            format!("the agent does not answer the controller: {why}"),
        ),
        Agent::Reported(report) => {
            let found = report
                .conditions
                .iter()
                .find(|condition| condition.kind == condition::DNS_READY);
            match found {
                Some(condition) => {
                    let status = match condition.status {
                        Tri::True => Truth::True,
                        Tri::False => Truth::False,
                        Tri::Unknown => Truth::Unknown,
                    };
                    say(status, &condition.reason, condition.message.clone())
                }
                None => say(
                    Truth::Unknown,
                    reason::AGENT_UNREACHABLE,
                    "the agent reports nothing about DNS: is it of another version?".to_owned(),
                ),
            }
        }
    }
}

pub(super) fn forward_message(snapshot: &Snapshot) -> String {
    match snapshot.spec.gateway() {
        Some(gateway) => {
            let mut zone = gateway.dns.config.zone.to_string();
            if zone.ends_with('.') {
                zone.pop();
            }
            format!(
                "let the cluster's resolver forward {zone} to {}",
                gateway.dns.service_cluster_ip
            )
        }
        None => "let the cluster's resolver forward the zone to dns.serviceClusterIP".to_owned(),
    }
}
