//! Runs the steps of a case on an agent.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tsunaro_integration::wire::Connection;

use crate::action::{Action, Pace};
use crate::asking::{self, Awaits, wait};
use crate::data::{Case, Step};
use crate::expect::Expectation;
use crate::gateway::{self, Gateway};
use crate::judge::judge;
use crate::observation::{Memory, Observation};
use crate::setup::Setup;

/// Between two looks at something that should change.
const AGAIN: Duration = Duration::from_millis(25);

/// A case on its way through its steps.
struct Run<'a> {
    gateway: Option<&'a mut Gateway>,
    setup: &'a Setup,
    memory: Memory,
    /// When the case last changed something.
    changed: Instant,
    /// Connections that stay open until the case ends.
    open: Vec<Connection>,
}

/// Runs a case; the error says which step did not hold, and why.
pub(crate) fn run(case: &Case, gateway: Option<&mut Gateway>) -> Result<(), String> {
    let mut run = Run {
        gateway,
        setup: &case.setup,
        memory: Memory::default(),
        changed: Instant::now(),
        open: Vec::new(),
    };
    for step in &case.steps {
        let faults = match run.step(step) {
            Ok(faults) => faults,
            Err(error) => vec![format!("{error:#}")],
        };
        if !faults.is_empty() {
            let log = run
                .gateway
                .as_ref()
                .map_or_else(String::new, |gateway| gateway.log_tail());
            return Err(format!(
                "{} (rule {}, line {}): {}\n  {}\n{log}",
                case.id,
                case.rules,
                step.line,
                step.text,
                faults.join("\n  "),
            ));
        }
    }
    Ok(())
}

impl Run<'_> {
    fn gateway(&mut self) -> Result<&mut Gateway> {
        self.gateway.as_deref_mut().context("no agent runs")
    }

    fn step(&mut self, step: &Step) -> Result<Vec<String>> {
        match &step.action {
            Action::Ask(ask) => {
                let pace = ask.pace;
                let awaits = if step.expect.contains(&Expectation::Silence) {
                    Awaits::Silence
                } else {
                    Awaits::Reply
                };
                let ready = step.expect.contains(&Expectation::Ready);
                self.at_pace(pace, &step.expect, |run| {
                    let gateway = run.gateway()?;
                    let mut seen = asking::ask(gateway, ask, awaits)?;
                    if ready {
                        seen.readyz.push(gateway.get("/readyz")?);
                    }
                    Ok(seen)
                })
            }
            Action::Get { path, pace } => self.at_pace(*pace, &step.expect, |run| {
                let http = Some(run.gateway()?.get(path)?);
                Ok(Observation {
                    http,
                    ..Observation::default()
                })
            }),
            Action::Metric { name, pace } => self.at_pace(*pace, &step.expect, |run| {
                let metric = Some(run.gateway()?.metric(name)?);
                Ok(Observation {
                    metric,
                    ..Observation::default()
                })
            }),
            Action::Exit { pace } => self.at_pace(*pace, &step.expect, |run| {
                let exit = run.gateway()?.exit_code()?;
                Ok(Observation {
                    exit,
                    ..Observation::default()
                })
            }),
            Action::Check => {
                let check = Some(gateway::check(step.setup.as_ref().unwrap_or(self.setup))?);
                let seen = Observation {
                    check,
                    ..Observation::default()
                };
                Ok(judge(&step.expect, &seen, &mut self.memory))
            }
            Action::Swap { .. }
            | Action::Wait(_)
            | Action::SilenceUpstreams
            | Action::Connect(_)
            | Action::Terminate => {
                self.change(&step.action)?;
                Ok(Vec::new())
            }
        }
    }

    fn change(&mut self, action: &Action) -> Result<()> {
        match action {
            Action::Swap { edit, stamp } => self.gateway()?.swap(edit, *stamp)?,
            Action::Wait(time) => wait(*time),
            Action::SilenceUpstreams => self.gateway()?.silence_upstreams(),
            Action::Connect(count) => {
                let server = self.gateway()?.dns();
                for number in 0..*count {
                    let connection =
                        Connection::open(server).with_context(|| format!("connection {number}"))?;
                    self.open.push(connection);
                }
            }
            Action::Terminate => self.gateway()?.terminate()?,
            other => bail!("{other:?} changes nothing"),
        }
        self.changed = Instant::now();
        Ok(())
    }

    fn at_pace(
        &mut self,
        pace: Pace,
        expect: &[Expectation],
        mut look: impl FnMut(&mut Self) -> Result<Observation>,
    ) -> Result<Vec<String>> {
        match pace {
            Pace::Once => {
                let seen = look(self)?;
                Ok(judge(expect, &seen, &mut self.memory))
            }
            Pace::Hold(time) => {
                let started = Instant::now();
                while started.elapsed() < time {
                    let seen = look(self)?;
                    let faults = judge(expect, &seen, &mut self.memory);
                    if !faults.is_empty() {
                        let mut faults = faults;
                        faults.push(format!("after {:.2} s", started.elapsed().as_secs_f64()));
                        return Ok(faults);
                    }
                    wait(AGAIN);
                }
                Ok(Vec::new())
            }
            Pace::Until(time) => self.until(time, expect, look),
        }
    }

    fn until(
        &mut self,
        time: Duration,
        expect: &[Expectation],
        mut look: impl FnMut(&mut Self) -> Result<Observation>,
    ) -> Result<Vec<String>> {
        let (past, now): (Vec<_>, Vec<_>) = expect
            .iter()
            .cloned()
            .partition(|each| matches!(each, Expectation::Earlier(_)));
        let mut earlier = Vec::new();
        loop {
            let mut seen = look(self)?;
            let mut faults = judge(&now, &seen, &mut self.memory);
            let elapsed = self.changed.elapsed();
            if faults.is_empty() && elapsed <= time {
                seen.earlier = earlier;
                return Ok(judge(&past, &seen, &mut self.memory));
            }
            if elapsed > time {
                faults.push(format!(
                    "{:.2} s after the change; at most {time:?} were expected",
                    elapsed.as_secs_f64()
                ));
                return Ok(faults);
            }
            earlier.extend(seen.got.into_iter().map(|got| got.reply));
            wait(AGAIN);
        }
    }
}
