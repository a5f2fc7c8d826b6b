//! Tests that share one costly part: a lab, an API server.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};

use crate::say;

/// A test's name, a sentence, and its body.
pub type Named<S> = (&'static str, fn(&S) -> Result<()>);

/// Runs the tests that the command line asks for; the first of them starts what they share, called
/// `what` in messages.
pub fn run_sharing<S: Send + Sync + 'static>(
    what: &'static str,
    start: fn() -> Result<S>,
    tests: Vec<Named<S>>,
) -> ExitCode {
    let shared: Arc<OnceLock<Result<S, String>>> = Arc::default();
    let trials = tests
        .into_iter()
        .map(|(name, body)| {
            let shared = Arc::clone(&shared);
            Trial::test(name, move || {
                let part = shared
                    .get_or_init(|| start().map_err(|error| format!("{error:#}")))
                    .as_ref()
                    .map_err(|text| format!("{what} did not start: {text}"))?;
                let started = Instant::now();
                let result = body(part);
                let seconds = started.elapsed().as_secs_f64();
                say(&format!("test: {name}: {seconds:.2} s"));
                // With the whole chain of causes.
                result.map_err(|error| format!("{error:?}").into())
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    // What is shared ends before the process does, which would leave it to the next run.
    drop(shared);
    conclusion.exit_code()
}
