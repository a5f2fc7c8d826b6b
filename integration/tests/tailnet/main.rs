//! The agent beside a real tailscaled on a real tailnet, as uid 65534 without capabilities.

mod bus;
mod example;
mod failover;
mod failures;
mod flapping;
mod gateway;
mod kernel;
mod kernel_cost;
mod latency;
mod leaving;
mod login;
mod losses;
mod refusals;
mod routes;
mod supervise;

use std::time::Instant;

use tsunaro_integration::say;

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
