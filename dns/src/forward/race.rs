//! One question against the upstreams of its zone, as a machine without I/O or clock (rules 50,
//! 51 and 53 of the DNS contract).
//!
//! ```text
//! 0 ms        the first upstream, and probes to those that are down and due
//! 200-400 ms  the next upstream too, and so on; at once when one fails
//! 900 ms      one resend to each that is silent
//! 1.8 s       the client gets a failure; sockets stay open
//! 5 s         the end: replies until then still fill the cache
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::health::{MAX_HEDGE, Role, Verdict};

/// What the client waits for at most: cluster CoreDNS gives up after 2 s.
pub(super) const BUDGET: Duration = Duration::from_millis(1800);
/// For how long replies are listened for in all.
const LATE: Duration = Duration::from_secs(5);
/// When silent upstreams are sent the query again.
const RESEND: Duration = Duration::from_millis(900);
/// The least time between a query and its resend.
const RESEND_GAP: Duration = Duration::from_millis(400);

/// What the order of upstreams is decided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its place in the zone's list.
    pub(super) upstream: usize,
    pub(super) up: bool,
    pub(super) consecutive_failures: u32,
    /// How long to wait for it before the next one is asked too.
    pub(super) hedge_after: Duration,
    /// It is down, another one is not, and its probe is due now.
    pub(super) probe: bool,
}

/// What an attempt came to, as far as the race cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A definite answer, after this round trip if measurable.
    Definite(Option<Duration>),
    /// An answer with TC that could not be had over TCP.
    Truncated(Option<Duration>),
    /// SERVFAIL: the name's fault unless another upstream answers it.
    ServFail,
    /// Anything else.
    Failed,
    /// The query never left, for a reason of our own: no verdict on the upstream.
    NotAsked,
}

/// What the shell must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask this upstream; attempts are numbered from 0 in the order of these steps.
    Ask {
        upstream: usize,
        resend_at: Option<Instant>,
        hedged: bool,
    },
    /// Tell the upstream's health.
    Judge { upstream: usize, verdict: Verdict },
    /// The client gets this attempt's answer.
    Answer { attempt: usize },
    /// The client gets a failure: every upstream failed.
    AllFailed,
    /// The client gets a failure: the budget is spent.
    OutOfTime,
    /// This attempt's answer came too late for the client and is for the cache alone.
    Late { attempt: usize },
    /// Nothing is left to wait for.
    End,
}

/// The machine. Feed it results and the time; it says what to do and when to wake it.
#[derive(Debug)]
pub(super) struct Race {
    began: Instant,
    queue: VecDeque<Candidate>,
    attempts: Vec<Attempt>,
    hedge_at: Option<Instant>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client waits.
    Open,
    /// The client has its answer; probes are still out.
    Answered,
    /// The client has its failure; late answers are welcome.
    Overdue,
    Ended,
}

#[derive(Debug)]
struct Attempt {
    upstream: usize,
    role: Role,
    asked: Instant,
    state: AttemptState,
    judged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptState {
    Waiting,
    ServFailed,
    Done,
}

impl Race {
    /// Starts a race at `now`. Upstreams that are down come last, those with fewer failures first.
    pub(super) fn begin(mut candidates: Vec<Candidate>, now: Instant) -> (Self, Vec<Step>) {
        candidates.sort_by_key(|candidate| match candidate.up {
            true => (false, 0),
            false => (true, candidate.consecutive_failures),
        });
        let (probes, queue): (Vec<_>, VecDeque<_>) = {
            let (probes, rest): (Vec<_>, Vec<_>) = candidates
                .into_iter()
                .partition(|candidate| candidate.probe);
            (probes, rest.into())
        };
        let mut race = Self {
            began: now,
            queue,
            attempts: Vec::new(),
            hedge_at: None,
            phase: Phase::Open,
        };
        let mut steps = Vec::new();
        race.ask_next(false, now, &mut steps);
        for probe in probes {
            race.ask(probe, Role::Probe, false, now, &mut steps);
        }
        if race.attempts.is_empty() {
            race.phase = Phase::Ended;
            steps.extend([Step::AllFailed, Step::End]);
        }
        (race, steps)
    }

    /// When to call [`Race::on_time`] next; none after the end.
    pub(super) fn next_time(&self) -> Option<Instant> {
        let probes = self
            .attempts
            .iter()
            .filter(|attempt| attempt.is_open_probe())
            .map(|attempt| attempt.asked + MAX_HEDGE);
        match self.phase {
            Phase::Open => probes
                .chain(self.hedge_at)
                .chain([self.began + BUDGET])
                .min(),
            Phase::Answered => probes.min(),
            Phase::Overdue => probes.chain([self.began + LATE]).min(),
            Phase::Ended => None,
        }
    }

    /// When an attempt over TCP must have given up, so that what came before it is still of use.
    pub(super) fn tcp_until(&self) -> Instant {
        self.began + BUDGET.saturating_sub(Duration::from_millis(50))
    }

    /// The attempts that the client's failure has to speak for although nothing came of them.
    pub(super) fn waiting(&self) -> usize {
        self.attempts
            .iter()
            .filter(|attempt| attempt.state == AttemptState::Waiting)
            .count()
    }

    /// Does what is due at `now`.
    pub(super) fn on_time(&mut self, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        for attempt in &mut self.attempts {
            if attempt.is_open_probe() && now >= attempt.asked + MAX_HEDGE {
                attempt.fail(&mut steps);
            }
        }
        if self.phase == Phase::Open && now >= self.began + BUDGET {
            for attempt in &mut self.attempts {
                if attempt.state == AttemptState::Waiting {
                    attempt.fail(&mut steps);
                }
            }
            self.phase = Phase::Overdue;
            steps.push(Step::OutOfTime);
        }
        if self.phase == Phase::Open && self.hedge_at.is_some_and(|at| now >= at) {
            self.ask_next(true, now, &mut steps);
        }
        let overdue = self.phase == Phase::Overdue && now >= self.began + LATE;
        self.end_if(overdue, &mut steps);
        steps
    }

    /// Takes in what an attempt came to. Each attempt has one result.
    pub(super) fn on_result(&mut self, index: usize, class: Class, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        let Some(attempt) = self.attempts.get_mut(index) else {
            return steps;
        };
        if attempt.state != AttemptState::Waiting {
            return steps;
        }
        attempt.state = AttemptState::Done;
        match class {
            Class::Definite(rtt) | Class::Truncated(rtt) => attempt.succeed(rtt, &mut steps),
            Class::ServFail if attempt.role == Role::Regular => {
                attempt.state = AttemptState::ServFailed;
            }
            Class::ServFail | Class::Failed => attempt.fail(&mut steps),
            Class::NotAsked => attempt.judged = true,
        }
        let (role, asked) = (attempt.role, attempt.asked);
        match (self.phase, class) {
            (Phase::Open, Class::Definite(_)) => {
                self.lose(asked, &mut steps);
                self.phase = Phase::Answered;
                steps.push(Step::Answer { attempt: index });
            }
            (Phase::Open, _) => {
                if role == Role::Regular {
                    self.ask_next(false, now, &mut steps);
                }
                if self.waiting() == 0 && self.queue.is_empty() {
                    self.phase = Phase::Ended;
                    steps.extend([Step::AllFailed, Step::End]);
                    return steps;
                }
            }
            (Phase::Overdue, Class::Definite(_)) => steps.push(Step::Late { attempt: index }),
            (Phase::Overdue | Phase::Answered | Phase::Ended, _) => {}
        }
        self.end_if(false, &mut steps);
        steps
    }

    /// Whoever was asked before the winner and is still silent has lost to a hedge; whoever said
    /// SERVFAIL was wrong.
    fn lose(&mut self, winner_asked: Instant, steps: &mut Vec<Step>) {
        for attempt in &mut self.attempts {
            let overtaken = attempt.state == AttemptState::Waiting
                && attempt.role == Role::Regular
                && attempt.asked < winner_asked;
            if overtaken || attempt.state == AttemptState::ServFailed {
                attempt.fail(steps);
            }
        }
    }

    fn ask_next(&mut self, hedged: bool, now: Instant, steps: &mut Vec<Step>) {
        let Some(candidate) = self.queue.pop_front() else {
            return;
        };
        self.ask(candidate, Role::Regular, hedged, now, steps);
        self.hedge_at = (!self.queue.is_empty()).then(|| now + candidate.hedge_after);
    }

    fn ask(
        &mut self,
        candidate: Candidate,
        role: Role,
        hedged: bool,
        now: Instant,
        steps: &mut Vec<Step>,
    ) {
        let upstream = candidate.upstream;
        let resend = (self.began + RESEND).max(now + RESEND_GAP);
        let resend_at = (role == Role::Regular && resend < self.began + BUDGET).then_some(resend);
        self.attempts.push(Attempt {
            upstream,
            role,
            asked: now,
            state: AttemptState::Waiting,
            judged: false,
        });
        steps.push(Step::Ask {
            upstream,
            resend_at,
            hedged,
        });
    }

    fn end_if(&mut self, time_is_up: bool, steps: &mut Vec<Step>) {
        let idle = match self.phase {
            Phase::Open => false,
            Phase::Answered => !self.attempts.iter().any(Attempt::is_open_probe),
            Phase::Overdue => time_is_up || self.waiting() == 0,
            Phase::Ended => return,
        };
        if idle {
            self.phase = Phase::Ended;
            steps.push(Step::End);
        }
    }
}

impl Attempt {
    fn is_open_probe(&self) -> bool {
        self.role == Role::Probe && self.state == AttemptState::Waiting && !self.judged
    }

    /// An upstream that was already judged to be silent does not redeem itself by a late answer:
    /// the next query would wait for it again.
    fn succeed(&mut self, rtt: Option<Duration>, steps: &mut Vec<Step>) {
        self.judge(Verdict::Answered(rtt), steps);
    }

    fn fail(&mut self, steps: &mut Vec<Step>) {
        self.judge(Verdict::Failed(self.role), steps);
    }

    fn judge(&mut self, verdict: Verdict, steps: &mut Vec<Step>) {
        if !std::mem::replace(&mut self.judged, true) {
            steps.push(Step::Judge {
                upstream: self.upstream,
                verdict,
            });
        }
    }
}

#[cfg(test)]
mod tests;
