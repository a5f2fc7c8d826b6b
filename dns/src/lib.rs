//! Answers, caches, forwards and serves DNS.
//!
//! [`query::parse`] turns octets into a query, [`answer::answer`] a query and a
//! [`Snapshot`](tsunaro_model::zone::Snapshot) into a reply or a job for upstreams,
//! [`answer::finish`] completes the job; all three are pure. [`server`] is the shell of sockets
//! and tasks around them, [`forwarding`] the seam to whatever asks upstreams.

pub mod answer;
pub mod explain;
pub mod fast;
pub mod forward;
pub mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod metrics;
pub mod probe;
pub mod query;
mod reply;
pub mod server;
mod tasks;
pub mod wire;

pub use reply::{TCP_IDLE_SECONDS, Written};
