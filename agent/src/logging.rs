//! Logs to stderr: text for people or JSON; levels by `RUST_LOG`, `info` by default.

use std::io::IsTerminal;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// Lines that wait to be written; more are lost. The room for them is touched at the start, and the
/// library's own choice, 128,000, takes four megabytes.
const LINES: usize = 4096;

/// Starts logging; what is not written yet is flushed when the guard is dropped.
///
/// A thread of its own writes: when stderr blocks or fails, lines are lost and the agent goes on.
pub(crate) fn init(format: LogFormat) -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES)
        .finish(std::io::stderr());
    // netlink-proto and hyper log at their own levels; only warnings of theirs are for people.
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,netlink_proto=warn,hyper=warn,hyper_util=warn"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .log_internal_errors(false)
        .with_target(false);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).with_ansi(false).init(),
    }
    guard
}
