//! One long step at a time: said before it starts, timed when it ends, its test counts summed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Counts of tests, summed over every test binary of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// Runs a command with its output shown, and says how long it took.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<()> {
    let started = begin(what);
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", program(command)))?;
    end(what, started);
    if !status.success() {
        bail!("{what} failed: {} ended with {status}", program(command));
    }
    Ok(())
}

/// Runs a test command with its output shown, and adds up the counts that libtest prints. A
/// failing test is counted, not an error: the caller goes on and fails at its end. Gives the
/// number of tests that ran.
pub(crate) fn run_tests(what: &str, command: &mut Command, total: &mut Counts) -> Result<u64> {
    let started = begin(what);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program(command)))?;
    let stdout = child
        .stdout
        .take()
        .context("the test command has no stdout")?;
    let mut counts = Counts::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("reading the test command's output")?;
        writeln!(std::io::stdout(), "{line}").context("writing to stdout")?;
        counts.add_line(&line);
    }
    let status = child
        .wait()
        .with_context(|| format!("waiting for {}", program(command)))?;
    end(what, started);
    if !status.success() && counts.failed == 0 {
        bail!(
            "{what} failed without a failed test (it did not build, or died): {} ended with {status}",
            program(command)
        );
    }
    total.passed += counts.passed;
    total.failed += counts.failed;
    Ok(counts.passed + counts.failed)
}

impl Counts {
    /// Adds a libtest line such as `test result: ok. 3 passed; 0 failed; …`.
    fn add_line(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else {
            return;
        };
        let number_before = |word: &str| -> u64 {
            let mut last = 0;
            for token in rest.split([' ', ';', '.']) {
                if token == word {
                    return last;
                }
                last = token.parse().unwrap_or(last);
            }
            0
        };
        self.passed += number_before("passed");
        self.failed += number_before("failed");
    }
}

fn begin(what: &str) -> Instant {
    eprintln!("==> {what}");
    Instant::now()
}

fn end(what: &str, started: Instant) {
    eprintln!("<== {what}: {:.1} s", started.elapsed().as_secs_f64());
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_result_lines_are_summed_and_other_lines_ignored() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.03s",
            "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
            "12 passed by",
        ] {
            counts.add_line(line);
        }
        assert_eq!(
            counts,
            Counts {
                passed: 13,
                failed: 2
            }
        );
    }
}
