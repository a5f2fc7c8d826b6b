//! The resolvers and stub clients of real life ask the real agent: dig, kdig, glibc, musl, a
//! CoreDNS in front, systemd-resolved, and MagicDNS of a peer in the tailnet.
//!
//! All tests share one lab, which starts with the first of them. docs/clients.md says what they
//! show.

mod asked;
mod coredns;
mod glibc;
mod magicdns;
mod musl;
mod resolved;
mod site;
mod stub;
mod tools;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use tsunaro_integration::say;

use crate::site::Site;

/// The lab of all tests, or why it did not start.
type Shared = Arc<OnceLock<Result<Site, String>>>;

/// A test's name, a sentence, and its body.
type Named = (&'static str, fn(&Site) -> Result<()>);

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let shared = Shared::default();
    let all = [
        tools::TESTS,
        glibc::TESTS,
        musl::TESTS,
        coredns::TESTS,
        resolved::TESTS,
        magicdns::TESTS,
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
    // The lab ends before the process does, which would leave it to the next run.
    drop(shared);
    conclusion.exit_code()
}

fn run(name: &str, body: fn(&Site) -> Result<()>, shared: &Shared) -> Result<(), Failed> {
    let site = shared
        .get_or_init(|| Site::start().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|text| format!("the lab did not start: {text}"))?;
    let started = Instant::now();
    let result = body(site);
    say(&format!(
        "test: {name}: {:.2} s",
        started.elapsed().as_secs_f64()
    ));
    // With the whole chain of causes.
    result.map_err(|error| format!("{error:?}").into())
}
