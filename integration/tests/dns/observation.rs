//! What a step has shown.

use std::net::SocketAddr;
use std::time::Duration;

use tsunaro_integration::wire::{Query, Reply, Seen};

use crate::http::HttpSeen;

/// A reply, and the query that it is for.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) query: Query,
    pub(crate) reply: Reply,
    pub(crate) after: Duration,
    pub(crate) server: SocketAddr,
    pub(crate) from: SocketAddr,
}

/// Everything that a step has shown; what it cannot show is absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observation {
    /// The replies to queries.
    pub(crate) got: Vec<Got>,
    /// How many queries got none.
    pub(crate) missing: usize,
    /// What the upstreams saw of the names asked, during the step.
    pub(crate) upstream: Vec<Seen>,
    /// The replies before the one that was as expected.
    pub(crate) earlier: Vec<Reply>,
    /// How long after the last reply the server closed the connection.
    pub(crate) closed_after: Option<Duration>,
    /// What `/readyz` said while the queries ran.
    pub(crate) readyz: Vec<HttpSeen>,
    /// What a GET came to.
    pub(crate) http: Option<HttpSeen>,
    /// The value of a metric.
    pub(crate) metric: Option<f64>,
    /// What became of a config.
    pub(crate) check: Option<CheckSeen>,
    /// The exit code of the agent.
    pub(crate) exit: Option<i32>,
}

/// What the agent made of a config.
#[derive(Debug, Clone)]
pub(crate) struct CheckSeen {
    /// The exit code of `check`.
    pub(crate) check_code: Option<i32>,
    /// What `check` wrote.
    pub(crate) text: String,
    /// The exit code of `run`; none if it did run.
    pub(crate) run_code: Option<i32>,
}

/// What a case keeps between its steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) serial: Option<u32>,
    pub(crate) metric: Option<f64>,
}
