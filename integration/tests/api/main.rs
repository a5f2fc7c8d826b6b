//! The custom resources as a real API server has them: its schemas and rules against our own
//! validation, the rendered objects, and what `kubectl` shows people.
//!
//! All tests share one etcd and one kube-apiserver, which start with the first of them.

mod applied;
mod cluster;
mod manifests;
mod reading;
mod rendered;
mod transitions;

#[path = "../../../controller/tests/support/table.rs"]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    dead_code,
    reason = "the controller's own tests of the table have it too"
)]
mod table;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use tsunaro_integration::say;

use crate::cluster::Cluster;

/// The API server of all tests, or why it did not start.
type Shared = Arc<OnceLock<Result<Cluster, String>>>;

/// A test's name, a sentence, and its body.
type Named = (&'static str, fn(&Cluster) -> Result<()>);

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let shared = Shared::default();
    let all = [
        manifests::TESTS,
        transitions::TESTS,
        rendered::TESTS,
        reading::TESTS,
    ];
    let trials = all
        .concat()
        .into_iter()
        .map(|(name, body)| {
            let shared = shared.clone();
            Trial::test(name, move || run(name, body, &shared))
        })
        .collect();
    let conclusion = libtest_mimic::run(&args, trials);
    // The server ends before the process does, which would leave it to the next run.
    drop(shared);
    conclusion.exit_code()
}

fn run(name: &str, body: fn(&Cluster) -> Result<()>, shared: &Shared) -> Result<(), Failed> {
    let cluster = shared
        .get_or_init(|| Cluster::start().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|text| format!("the API server did not start: {text}"))?;
    let started = Instant::now();
    let result = body(cluster);
    say(&format!(
        "test: {name}: {:.2} s",
        started.elapsed().as_secs_f64()
    ));
    result.map_err(|error| format!("{error:#}").into())
}
