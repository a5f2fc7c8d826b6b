//! One pass over a gateway: gather, plan and carry out until there is nothing to do, say how it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, Patch};
use kube::runtime::controller::Action;
use serde_json::json;

use super::failure::Stopped;
use super::{Context, apply, contest, events, gather};
use crate::crd::{GatewayStatus, TailnetGateway};
use crate::handover;
use crate::metrics;
use crate::reconcile::{Judgement, Outcome, Plan, Rest, judge, plan};

/// Steps of one pass at most; a creation has fifteen.
const MAX_STEPS: usize = 64;
/// While the tailnet was not asked yet.
const SOON: Duration = Duration::from_secs(1);
/// Between two looks while something is under way: no less than this, and no more than a quarter of
/// the time for which nothing has changed.
const UNSETTLED: Duration = Duration::from_secs(2);
/// The same while a person has to do something that no watch tells of.
const WAITING: Duration = Duration::from_secs(60);
/// For so long after the last change Headscale is asked more often than usual.
const HURRY: Duration = Duration::from_secs(60);

/// One pass.
///
/// # Errors
/// A step that failed, after the status tells of it.
pub async fn pass(object: Arc<TailnetGateway>, context: Arc<Context>) -> Result<Action, Stopped> {
    let started = Instant::now();
    let result = one(&object, &context).await;
    context
        .metrics
        .duration
        .observe(started.elapsed().as_secs_f64());
    let outcome = match &result {
        Ok(_) => "rested",
        Err(Stopped::Changed(_)) => "changed",
        Err(Stopped::Failed(_)) => "failed",
    };
    context
        .metrics
        .passes
        .get_or_create(&metrics::Outcome { outcome })
        .inc();
    if result.is_ok() {
        let uid = object.uid().unwrap_or_default();
        if let Some(known) = context.known().get_mut(&uid) {
            known.failures = 0;
        }
    }
    result
}

/// When a pass that failed is tried again.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the signature that kube's applier calls"
)]
pub fn on_error(object: Arc<TailnetGateway>, error: &Stopped, context: Arc<Context>) -> Action {
    let uid = object.uid().unwrap_or_default();
    let failures = {
        let mut known = context.known();
        let known = known.entry(uid).or_default();
        known.failures = known.failures.saturating_add(1);
        known.failures
    };
    let name = object.name_any();
    match error {
        Stopped::Changed(_) => tracing::debug!(gateway = %name, %error, "Looking again"),
        Stopped::Failed(_) => {
            tracing::warn!(gateway = %name, %error, failures, "A step failed; this is tried again");
        }
    }
    let pauses = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(Duration::from_secs(60))
        .without_max_times()
        .with_jitter()
        .build();
    let longest = Duration::from_secs(60);
    let pause = pauses.into_iter().nth(failures.min(12)).unwrap_or(longest);
    Action::requeue(pause)
}

async fn one(object: &TailnetGateway, context: &Context) -> Result<Action, Stopped> {
    // First: a Pod that is ending leaves a few seconds.
    handover::notice(context, object);
    let Some(mut gathered) = gather::gather(context, object).await? else {
        return Ok(Action::requeue(SOON));
    };
    let mut stopped = None;
    let mut steps = 0;
    let outcome = loop {
        let step = match plan(&gathered.snapshot, Timestamp::now()) {
            Plan::Rest(rest) => break Outcome::Rest(rest),
            Plan::Do(step) => step,
        };
        if step.needs_fresh_list() && !gathered.fresh {
            gather::refresh(context, &mut gathered).await;
            continue;
        }
        context.go_on()?;
        steps += 1;
        if steps > MAX_STEPS {
            return Err(Stopped::Changed(format!("what {} needs", step.name())));
        }
        let name = gathered.snapshot.subject.name.clone();
        let about = apply::object(&gathered, &step);
        tracing::debug!(gateway = %name, ?step, "Next step");
        if let Err(error) = apply::carry_out(context, &mut gathered, &step).await {
            match error {
                Stopped::Changed(_) => return Err(error),
                Stopped::Failed(ref failure) => {
                    let outcome = Outcome::Failed(failure.clone());
                    stopped = Some(error);
                    break outcome;
                }
            }
        }
        tracing::info!(gateway = %name, step = step.name(), object = %about, "Done");
        context
            .metrics
            .steps
            .get_or_create(&metrics::StepLabel { step: step.name() })
            .inc();
    };
    if outcome == Outcome::Rest(Rest::Gone) {
        let subject = &gathered.snapshot.subject;
        context.agents.forget(&subject.name);
        context
            .metrics
            .say(&subject.name, &subject.before.conditions, &[]);
        context.known().remove(&gathered.snapshot.subject.uid);
        return Ok(Action::await_change());
    }
    context.go_on()?;
    let mut again = say(object, context, &gathered, &outcome, steps > 0).await?;
    if !gathered.snapshot.contested.is_empty() {
        again = again.min(contest::LOOK);
    }
    stopped.map_or(Ok(Action::requeue(again)), Err)
}

/// Writes the status if it differs, tells events, and says when to look again.
async fn say(
    object: &TailnetGateway,
    context: &Context,
    gathered: &gather::Gathered,
    outcome: &Outcome,
    did: bool,
) -> Result<Duration, Stopped> {
    let snapshot = &gathered.snapshot;
    let uid = &snapshot.subject.uid;
    let mut memory = context
        .known()
        .entry(uid.clone())
        .or_default()
        .memory
        .clone();
    let verdict = judge(
        &Judgement {
            snapshot,
            outcome,
            namespace: &context.settings.namespace,
            now: Timestamp::now(),
        },
        &mut memory,
    );
    let news = verdict.status != snapshot.subject.before;
    if news {
        write(context, &snapshot.subject.name, &verdict.status).await?;
        context.metrics.status_writes.inc();
        let before = &snapshot.subject.before.conditions;
        events::tell(context, object, before, &verdict.transitions).await;
    }
    context.metrics.say(
        &snapshot.subject.name,
        &snapshot.subject.before.conditions,
        &verdict.status.conditions,
    );
    let unchanged = {
        let mut known = context.known();
        let known = known.entry(uid.clone()).or_default();
        known.memory = memory;
        known.written = Some((object.resource_version(), verdict.status));
        if news || did {
            known.changed = Some(Instant::now());
        }
        known.changed.get_or_insert_with(Instant::now).elapsed()
    };
    if verdict.unsettled && unchanged < HURRY {
        context.hub.hurry(&object.spec.tailnet_ref.name);
    }
    let waiting = matches!(
        outcome,
        Outcome::Rest(Rest::Blocked(_) | Rest::DeletionBlocked(_) | Rest::Unresolved(_))
    );
    let resync = context.settings.resync;
    let soon = UNSETTLED.max(unchanged / 4);
    let usual = if verdict.unsettled {
        soon.min(resync)
    } else if waiting {
        soon.min(WAITING).min(resync)
    } else {
        resync
    };
    Ok(verdict.again.map_or(usual, |again| again.min(usual)))
}

async fn write(context: &Context, name: &str, status: &GatewayStatus) -> Result<(), Stopped> {
    let api: Api<TailnetGateway> = Api::all(context.client.clone());
    let patch = json!({
        "apiVersion": "tsunaro.io/v1alpha1",
        "kind": "TailnetGateway",
        "status": status,
    });
    match api
        .patch_status(name, &apply::force(), &Patch::Apply(patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Stopped::kubernetes(&format!("status of {name}"), &error)),
    }
}
