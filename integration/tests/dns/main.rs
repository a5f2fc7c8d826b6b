//! The DNS contract on the wire of the real agent: one test per case of
//! `integration/data/dns-cases.tsv`.
//!
//! Cases of one setup share one agent process, unless they leave traces in it
//! or take their time; all groups run side by side before the first result is
//! awaited, so that `--test-threads=1` takes no longer than many threads.

mod action;
mod asking;
mod data;
mod expect;
mod fixture;
mod gateway;
mod hosts_dir;
mod http;
mod judge;
mod jobs;
mod observation;
mod runner;
mod setup;
mod text;
mod own;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let mut trials = own::trials();
    match data::cases() {
        Ok(cases) => trials.extend(jobs::start(&args, cases)),
        Err(error) => {
            let text = format!("{error:#}");
            trials.push(Trial::test("the table of cases is understood", move || Err(text.into())));
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}
