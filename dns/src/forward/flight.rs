//! One question in flight: runs the race with real exchanges, fills the cache, wakes the clients.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant as TokioInstant;

use super::answer::Failure;
use super::attempt::{Exchange, Fault, Order, Outcome, attempt, sum_up};
use super::generation::{Generation, Landing, Upstream, candidates};
use super::question::{FlightKey, Question};
use super::race::{Race, Step};
use super::reply::Reply;
use super::transport::Transport;
use super::{Core, lock, now};

/// What a question in flight came to.
#[derive(Debug, Clone)]
pub(super) enum Settled {
    /// A definite answer.
    Answer(Arc<Reply>),
    /// Upstreams had more than UDP carries, and TCP failed for this reason.
    Truncated(Arc<Reply>, Failure),
    /// No answer.
    Failed(Failure),
}

/// A question and those who wait for it.
pub(super) struct Flight {
    pub(super) question: Arc<Question>,
    pub(super) upstreams: Arc<[Arc<Upstream>]>,
    pub(super) landing: Landing,
    pub(super) permit: OwnedSemaphorePermit,
}

/// How far a flight is already.
pub(super) struct Progress<C> {
    pub(super) race: Race,
    /// What the race wants to be done next.
    pub(super) steps: Vec<Step>,
    /// The only attempt so far.
    pub(super) begun: Option<(Order, Exchange<C>)>,
}

/// Runs a flight to its end, five seconds at most. Safe to drop at any point: clients then get
/// [`Failure::GivenUp`].
pub(super) async fn run<T: Transport>(
    core: Arc<Core<T>>,
    generation: Arc<Generation>,
    flight: Flight,
    progress: Option<Progress<T::Channel>>,
) {
    let Flight {
        question,
        upstreams,
        landing,
        permit,
    } = flight;
    let key = landing.key().clone();
    let mut landing = Some(landing);
    let mut permit = Some(permit);
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    let mut attempts = FuturesUnordered::new();
    let Progress {
        mut race,
        mut steps,
        begun,
    } = progress.unwrap_or_else(|| {
        let (race, steps) = Race::begin(candidates(&upstreams, now()), now());
        let begun = None;
        Progress { race, steps, begun }
    });
    if let Some((order, exchange)) = begun {
        outcomes.push(None);
        attempts.push(ask(Arc::clone(&core), 0, order, Some(exchange)));
    }
    loop {
        for step in std::mem::take(&mut steps) {
            match step {
                Step::Ask {
                    upstream,
                    resend_at,
                    hedged,
                } => {
                    let Some(upstream) = upstreams.get(upstream) else {
                        continue;
                    };
                    upstream.count_query();
                    if hedged {
                        core.metrics.hedges.add();
                    }
                    let index = outcomes.len();
                    outcomes.push(None);
                    let order = Order {
                        question: Arc::clone(&question),
                        primary: generation.config().primary.clone(),
                        upstream: upstream.address,
                        resend_at,
                        tcp_until: race.tcp_until(),
                    };
                    attempts.push(ask(Arc::clone(&core), index, order, None));
                }
                Step::Judge { upstream, verdict } => {
                    if let Some(upstream) = upstreams.get(upstream) {
                        upstream.judge(verdict, now());
                    }
                }
                Step::Answer { attempt } => {
                    let Some(Some(Outcome::Answer(reply))) = outcomes.get(attempt) else {
                        continue;
                    };
                    keep(&generation, &key, Ok(reply));
                    if let Some(landing) = landing.take() {
                        landing.land(Settled::Answer(Arc::clone(reply)));
                    }
                    permit = None;
                }
                Step::Late { attempt } => {
                    let Some(Some(Outcome::Answer(reply))) = outcomes.get(attempt) else {
                        continue;
                    };
                    core.metrics.late_answers.add();
                    keep(&generation, &key, Ok(reply));
                }
                Step::AllFailed | Step::OutOfTime => {
                    let settled = failure(&outcomes, race.waiting());
                    if let Settled::Failed(failure) = &settled {
                        keep(&generation, &key, Err(failure));
                    }
                    if let Some(landing) = landing.take() {
                        landing.land(settled);
                    }
                    let Ok(place) = Arc::clone(&core.overdue).try_acquire_owned() else {
                        return;
                    };
                    drop(permit.replace(place));
                }
                Step::End => return,
            }
        }
        let Some(wake) = race.next_time() else { return };
        steps = tokio::select! {
            biased;
            Some((index, outcome, rtt)) = attempts.next() => {
                let class = outcome.class(rtt);
                if let Some(slot) = outcomes.get_mut(index) {
                    *slot = Some(outcome);
                }
                race.on_result(index, class, now())
            }
            () = tokio::time::sleep_until(TokioInstant::from_std(wake)) => race.on_time(now()),
        };
    }
}

async fn ask<T: Transport>(
    core: Arc<Core<T>>,
    index: usize,
    order: Order,
    begun: Option<Exchange<T::Channel>>,
) -> (usize, Outcome, Option<Duration>) {
    let (outcome, rtt) = attempt(&core.transport, &core.metrics, &order, begun).await;
    (index, outcome, rtt)
}

/// Puts a result into the cache of the generation that asked, which nobody reads any more when
/// the configuration has changed since. Answers to questions without RD are not for others.
pub(super) fn keep(
    generation: &Generation,
    key: &FlightKey,
    result: Result<&Arc<Reply>, &Failure>,
) {
    if !key.recursion_desired {
        return;
    }
    let mut cache = lock(&generation.cache);
    match result {
        Ok(reply) => cache.insert(key.cache.clone(), Arc::clone(reply), now()),
        Err(failure) => cache.insert_failure(key.cache.clone(), failure.clone(), now()),
    }
}

/// What attempts without a definite answer come to; `silent` of them have no outcome.
fn failure(outcomes: &[Option<Outcome>], silent: usize) -> Settled {
    let mut faults = vec![Fault::Timeout; silent];
    let mut part = None;
    for outcome in outcomes.iter().flatten() {
        match outcome {
            Outcome::Answer(_) => {}
            Outcome::Truncated(reply, fault) => {
                part = part
                    .or_else(|| reply.clone())
                    .or_else(|| Some(Arc::new(Reply::empty())));
                faults.push(fault.clone());
            }
            Outcome::Failed(fault) => faults.push(fault.clone()),
        }
    }
    let failure = sum_up(faults.iter());
    match part {
        Some(reply) => Settled::Truncated(reply, failure),
        None => Settled::Failed(failure),
    }
}
