//! Which cases share an agent, and when each group runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::data::Case;
use crate::expect::Expectation;
use crate::gateway::{Engine, Gateway};
use crate::runner;

/// Agents that run at the same time; most of them only wait.
const WORKERS: usize = 12;

/// Cases that run one after the other on one agent.
struct Job {
    cases: Vec<(Case, SyncSender<Result<(), String>>)>,
}

/// When a job runs: what measures short times before what makes them long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Timed,
    Usual,
    Load,
}

impl Phase {
    fn of(case: &Case) -> Self {
        let measures = |each: &Expectation| {
            use Expectation::{Ahead, Median, Within};
            matches!(each, Within(..) | Median(_) | Ahead(..))
        };
        if case.steps.iter().any(|step| step.action.is_load()) {
            Self::Load
        } else if case
            .steps
            .iter()
            .any(|step| step.expect.iter().any(measures))
        {
            Self::Timed
        } else {
            Self::Usual
        }
    }
}

/// The groups that run; to be joined, so that nothing of them outlives the results.
pub(crate) struct Running(Option<JoinHandle<()>>);

impl Running {
    pub(crate) fn join(self) {
        if let Some(thread) = self.0 {
            // A panic there has failed the cases that it hit.
            let _ = thread.join();
        }
    }
}

/// Starts what the arguments select, and gives a test for each case.
pub(crate) fn start(args: &Arguments, cases: Vec<Case>) -> (Vec<Trial>, Running) {
    let mut trials = Vec::new();
    let mut jobs: BTreeMap<(Phase, String), Job> = BTreeMap::new();
    for case in cases {
        let (sender, receiver) = sync_channel(1);
        let trial = Trial::test(case.title(), move || result(&receiver));
        let selected = !args.is_filtered_out(&trial) && !args.list && !args.ignored;
        trials.push(trial);
        if selected {
            let own = if case.is_alone() {
                case.id.as_str()
            } else {
                ""
            };
            let key = (Phase::of(&case), format!("{own} {}", case.setup_text));
            jobs.entry(key)
                .or_insert_with(|| Job { cases: Vec::new() })
                .cases
                .push((case, sender));
        }
    }
    let thread = (!jobs.is_empty()).then(|| std::thread::spawn(move || run_phases(jobs)));
    (trials, Running(thread))
}

fn result(receiver: &Receiver<Result<(), String>>) -> Result<(), Failed> {
    match receiver.recv() {
        Ok(result) => result.map_err(Failed::from),
        Err(_) => Err("the group of this case has panicked".into()),
    }
}

fn run_phases(jobs: BTreeMap<(Phase, String), Job>) {
    let mut phases: BTreeMap<Phase, VecDeque<Job>> = BTreeMap::new();
    for ((phase, _), job) in jobs {
        phases.entry(phase).or_default().push_back(job);
    }
    for (phase, jobs) in phases {
        let queue = Mutex::new(jobs);
        let workers = if phase == Phase::Usual { WORKERS } else { 2 };
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(job) = next(&queue) {
                        run(job);
                    }
                });
            }
        });
    }
}

fn next(queue: &Mutex<VecDeque<Job>>) -> Option<Job> {
    queue
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop_front()
}

fn run(job: Job) {
    let needs_agent = job.cases.iter().any(|(case, _)| !case.only_checks());
    let setup = job.cases.first().map(|(case, _)| case.setup.clone());
    let started = match setup {
        Some(setup) if needs_agent => Gateway::start(&setup, Engine::Agent).map(Some),
        _ => Ok(None),
    };
    match started {
        Ok(mut gateway) => {
            for (case, sender) in job.cases {
                // Fails where the test was not awaited; then nobody wants to know.
                let _ = sender.send(runner::run(&case, gateway.as_mut()));
            }
        }
        Err(error) => {
            for (case, sender) in job.cases {
                let _ = sender.send(Err(format!(
                    "{}: the agent did not start: {error:#}",
                    case.id
                )));
            }
        }
    }
}
