//! The DNS contract on the wire of the real agent: one test per case of
//! `integration/data/dns-cases.tsv`.
//!
//! Cases of one setup share one agent process, unless they leave traces in it
//! or take their time; all groups run side by side before the first result is
//! awaited, so that `--test-threads=1` takes no longer than many threads.

mod action;
mod asking;
mod cross_check;
mod data;
mod describe;
mod differences;
mod expect;
mod fixture;
mod gateway;
mod hosts_dir;
mod http;
mod jobs;
mod judge;
mod observation;
mod own;
mod reference;
mod runner;
mod setup;
mod text;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let mut trials = own::trials();
    let cases = match data::cases() {
        Ok(cases) => cases,
        Err(error) => {
            let text = format!("{error:#}");
            trials.push(Trial::test("the table of cases is understood", move || {
                Err(text.into())
            }));
            Vec::new()
        }
    };
    trials.extend(differences::trials(&cases));
    trials.push(Trial::test(
        "dig and kdig read the same answers",
        cross_check::run,
    ));
    let (of_cases, running) = jobs::start(&args, cases);
    trials.extend(of_cases);
    let conclusion = libtest_mimic::run(&args, trials);
    running.join();
    conclusion.exit_code()
}
