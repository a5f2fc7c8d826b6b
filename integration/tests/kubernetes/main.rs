//! A real Kubernetes node: does it run Pods, carry packets, and leave nothing behind?

mod by_hand;
mod held;
mod leftovers;
mod network;
mod objects;
mod pods;

use std::time::{Duration, Instant};

use tsunaro_integration::say;

/// How long a Pod may take to be ready on a loaded machine; it takes about 2 s.
const POD_READY: Duration = Duration::from_secs(60);

/// Says at its end how long a step or test took.
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
