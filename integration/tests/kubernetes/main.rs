//! A real Kubernetes node: does it run Pods, carry packets, and leave nothing behind? And the
//! gateway on it, by hand.
//!
//! All tests share one node on one lab, which starts with the first test that needs it. Each puts
//! back what it changes, and each runs alone too, by its name. Their order lets some use the minute
//! that kubelet takes for what it is not asked for.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json's values give null for what is not there; a panic fails the test"
)]

mod by_hand;
mod held;
mod leftovers;
mod network;
mod objects;
mod pods;
mod shared;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tsunaro_integration::{run_sharing, say};

use shared::Shared;

type Named = tsunaro_integration::Named<Shared>;

/// How long a Pod may take to be ready on a loaded machine; it takes about 2 s.
const POD_READY: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if leftovers::is_victim() {
        return leftovers::be_the_victim();
    }
    let all = [
        pods::TESTS,
        objects::TESTS,
        network::TESTS,
        by_hand::CONTRACT,
        // On nodes of their own.
        leftovers::TESTS,
        held::TESTS,
        by_hand::CHANGES,
        by_hand::READINESS,
        by_hand::FAULTS,
        by_hand::AGAIN,
    ];
    run_sharing("the shared node", || Ok(Shared::default()), all.concat())
}

/// Says at its end how long a step took.
struct Timed(&'static str, Instant);

fn timed(what: &'static str) -> Timed {
    Timed(what, Instant::now())
}

impl Drop for Timed {
    fn drop(&mut self) {
        say(&format!(
            "{}: {:.2} s",
            self.0,
            self.1.elapsed().as_secs_f64()
        ));
    }
}
