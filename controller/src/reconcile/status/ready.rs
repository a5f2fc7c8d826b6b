//! `Ready`.

use super::super::login;
use super::super::names::{condition, reason};
use super::super::plan::{Rest, Unresolved};
use super::super::snapshot::{Control, Snapshot, Spec};
use super::{FailureOf, Judgement, Outcome, Said, Truth};
use crate::crd::RouteStatus;
use crate::render::Names;
use jiff::Timestamp;
use tsunaro_model::report::Tri;

pub(super) fn of(judgement: &Judgement<'_>, routes: &[RouteStatus]) -> Said {
    let mut said = verdict(judgement, routes);
    said.message += &contested(judgement.snapshot, judgement.namespace);
    said
}

fn verdict(judgement: &Judgement<'_>, routes: &[RouteStatus]) -> Said {
    let Judgement {
        snapshot,
        outcome,
        namespace,
        now,
    } = *judgement;
    let no =
        |reason: &str, message: String| Said::new(condition::READY, Truth::False, reason, message);
    match outcome {
        Outcome::Rest(Rest::PodEnding) => {
            return no(reason::DELETING, "its Pod is ending".to_owned());
        }
        Outcome::Rest(Rest::DeletionBlocked(why)) => {
            return no(reason::DELETION_BLOCKED, why.clone());
        }
        Outcome::Rest(Rest::Blocked(block)) => {
            let message = match snapshot.spec.gateway() {
                Some(gateway) => block.sentence(&Names::of(gateway), namespace),
                None => String::new(),
            };
            return no(reason::FRESH_BLOCKED, message);
        }
        Outcome::Rest(Rest::LoginHeld(_)) => {
            if let Some(words) = login::told(snapshot, now) {
                return no(words.reason, words.message);
            }
        }
        Outcome::Rest(Rest::MintLimit(at)) => {
            let message = format!(
                "three pre-auth keys were minted within an hour, and the login is gone again; the next one is minted at {at:.0}: \
                 look at the Pod's log for why its node does not log in"
            );
            return no(reason::MINT_LIMIT, message);
        }
        Outcome::Failed(failure) if snapshot.subject.deleting || !snapshot.receipt.is_ours() => {
            let reason = match failure.of {
                FailureOf::Kubernetes => reason::APPLY_FAILED,
                FailureOf::HeadscaleAway => reason::HEADSCALE_UNREACHABLE,
                FailureOf::Headscale => reason::HEADSCALE_FAILED,
            };
            return no(reason, failure.message.clone());
        }
        Outcome::Rest(
            Rest::Settled | Rest::Suspended | Rest::Invalid | Rest::Unresolved(_) | Rest::Gone,
        )
        | Outcome::Failed(_) => {}
    }
    if snapshot.subject.deleting {
        return no(reason::DELETING, "it is being deleted".to_owned());
    }
    if !snapshot.receipt.is_ours() {
        return not_begun(snapshot, outcome);
    }
    runtime(snapshot, routes, now)
}

fn not_begun(snapshot: &Snapshot, outcome: &Outcome) -> Said {
    let no =
        |reason: &str, message: String| Said::new(condition::READY, Truth::False, reason, message);
    if let Spec::Invalid(why) = &snapshot.spec {
        return no(reason::INVALID, why.clone());
    }
    match outcome {
        Outcome::Rest(Rest::Suspended) => no(
            reason::SUSPENDED,
            "suspend is true and nothing was created: set it to false to begin".to_owned(),
        ),
        Outcome::Rest(Rest::Unresolved(unresolved)) => {
            let (reason, message) = match unresolved {
                Unresolved::NoTailnet => (
                    reason::TAILNET_NOT_FOUND,
                    "its Tailnet does not exist: create it".to_owned(),
                ),
                Unresolved::BadTailnet(why) => (reason::TAILNET_INVALID, why.clone()),
                Unresolved::NoApiKey(why) => (reason::API_KEY_INVALID, why.clone()),
                Unresolved::Unreachable(why) => (reason::HEADSCALE_UNREACHABLE, why.clone()),
            };
            no(reason, message)
        }
        _ => no(reason::CREATING, "its objects are being created".to_owned()),
    }
}

/// The Pod runs, the node is online and advertises what is wanted.
fn runtime(snapshot: &Snapshot, routes: &[RouteStatus], now: Timestamp) -> Said {
    let no =
        |reason: &str, message: String| Said::new(condition::READY, Truth::False, reason, message);
    let Some(pod) = &snapshot.pod else {
        return no(
            reason::NO_POD,
            "there is no Pod: see the events of the StatefulSet".to_owned(),
        );
    };
    if !pod.ready {
        let why = pod.trouble.clone().unwrap_or_else(|| {
            if pod.going {
                "the Pod is being deleted".to_owned()
            } else {
                "the Pod is not ready".to_owned()
            }
        });
        return no(reason::POD_NOT_READY, why);
    }
    match &snapshot.control {
        Control::Listed(_) => {
            if let Some(words) = login::told(snapshot, now) {
                let agent = agents_words(snapshot).unwrap_or_default();
                return no(words.reason, words.message + &agent);
            }
            if let Some(node) = snapshot.node().filter(|node| !node.online) {
                return no(
                    reason::NODE_OFFLINE,
                    format!("node {} is not connected to Headscale", node.given_name),
                );
            }
        }
        Control::NoTailnet
        | Control::BadTailnet(_)
        | Control::NoApiKey(_)
        | Control::Unreachable(_) => {
            if let Some(report) = snapshot.report()
                && let Some(tailnet) = &report.tailnet
                && tailnet.backend_state != "Running"
            {
                return no(
                    reason::NODE_OFFLINE,
                    format!("tailscaled says {}", tailnet.backend_state),
                );
            }
        }
    }
    let missing: Vec<&str> = routes
        .iter()
        .filter(|route| route.wanted && !route.advertised)
        .map(|route| route.prefix.as_str())
        .collect();
    if !missing.is_empty() {
        return no(
            reason::NOT_ADVERTISED,
            format!("the node does not advertise {}", missing.join(", ")),
        );
    }
    Said::new(
        condition::READY,
        Truth::True,
        reason::FRESH_RUNTIME_READY,
        format!(
            "the Pod runs, its node is online and advertises what is wanted{}",
            login::remarks(snapshot)
        ),
    )
}

/// What the agent says of a login that does not come. Its message is for those who have no controller.
fn agents_words(snapshot: &Snapshot) -> Option<String> {
    let conditions = &snapshot.report()?.conditions;
    let said = conditions
        .iter()
        .find(|said| said.kind == "TailnetReady" && said.status == Tri::False)?;
    Some(format!(
        "; its agent says TailnetReady=False/{}",
        said.reason
    ))
}

/// Whatever else is the matter: whom to look for when others write what is ours.
fn contested(snapshot: &Snapshot, namespace: &str) -> String {
    let children = snapshot.children.iter();
    let contested = children.filter(|child| snapshot.contested.contains(&child.kind));
    contested
        .map(|child| {
            let (kind, name) = (child.kind.as_str(), &child.name);
            format!(
                "; somebody else changes {kind} {name} again and again, and it is put right five times a minute at \
                 most: see who (kubectl -n {namespace} get {} {name} --show-managed-fields -o yaml)",
                kind.to_ascii_lowercase(),
            )
        })
        .collect()
}
