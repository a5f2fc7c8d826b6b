//! The cases, read from their table.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

use crate::action::Action;
use crate::expect::{self, Expectation};
use crate::setup::Setup;

const CASES: &str = include_str!("../../data/dns-cases.tsv");
const IDS: &str = include_str!("../../data/dns-case-ids.txt");

/// A case: its setup, and its steps in order.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) id: String,
    /// Numbers of the rules that it holds, separated by commas.
    pub(crate) rules: String,
    /// The setup as written.
    pub(crate) setup_text: String,
    pub(crate) setup: Setup,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The line of the table.
    pub(crate) line: usize,
    /// What is asked and how, as written.
    pub(crate) text: String,
    /// What is expected, as written.
    pub(crate) expect_text: String,
    /// Another setup than the case's, for configs that are only checked.
    pub(crate) setup: Option<Setup>,
    pub(crate) action: Action,
    pub(crate) expect: Vec<Expectation>,
}

impl Case {
    /// The name of its test.
    pub(crate) fn title(&self) -> String {
        let first = self.steps.first().map_or("", |step| step.text.as_str());
        format!("{} ({}): {first}", self.id, self.setup_text)
    }

    /// Whether it needs an agent that no other case uses.
    pub(crate) fn is_alone(&self) -> bool {
        !self.setup.can_be_shared()
            || self
                .steps
                .iter()
                .any(|step| step.action.leaves_traces() || step.action.is_slow())
    }

    /// Whether no agent is needed that serves.
    pub(crate) fn only_checks(&self) -> bool {
        self.steps
            .iter()
            .all(|step| matches!(step.action, Action::Check))
    }
}

/// All cases; an error names the line that cannot be understood.
pub(crate) fn cases() -> Result<Vec<Case>> {
    parse(CASES)
}

/// The ids that must be among the cases.
pub(crate) fn required_ids() -> BTreeSet<&'static str> {
    let lines = IDS.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
}

/// Reads a table of cases.
pub(crate) fn parse(table: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in table.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        row(&mut cases, index + 1, line).with_context(|| format!("line {}: {line}", index + 1))?;
    }
    let mut seen = BTreeSet::new();
    for case in &cases {
        ensure!(seen.insert(case.id.as_str()), "{} is there twice", case.id);
    }
    Ok(cases)
}

fn row(cases: &mut Vec<Case>, line: usize, text: &str) -> Result<()> {
    let columns: Vec<&str> = text.split('\t').collect();
    let [id, rules, setup, ask, how, expect] = columns.as_slice() else {
        bail!("{} columns, not 6", columns.len());
    };
    let action = Action::parse(ask, how)?;
    let mut step = Step {
        line,
        text: [*ask, *how].join(" ").trim_end_matches(" -").to_owned(),
        expect_text: (*expect).to_owned(),
        setup: None,
        expect: expect::parse(expect, &action)?,
        action,
    };
    if *id == "." {
        ensure!(*rules == ".", "a further step with rules of its own");
        if *setup != "." {
            ensure!(
                matches!(step.action, Action::Check),
                "only checks may change the setup"
            );
            step.setup = Some(Setup::parse(setup)?);
        }
        cases
            .last_mut()
            .context("a further step of no case")?
            .steps
            .push(step);
        return Ok(());
    }
    ensure!(
        rules.split(',').all(|rule| rule
            .parse::<u8>()
            .is_ok_and(|rule| (1..=84).contains(&rule))),
        "\"{rules}\" are no numbers of rules"
    );
    cases.push(Case {
        id: (*id).to_owned(),
        rules: (*rules).to_owned(),
        setup_text: (*setup).to_owned(),
        setup: Setup::parse(setup)?,
        steps: vec![step],
    });
    Ok(())
}
