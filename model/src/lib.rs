//! The pure core of the gateway: names, prefixes, the config file, hosts files, the zone, plans,
//! verdicts and the status report.
//!
//! Nothing here does I/O, reads a clock or is async: time and file contents come in as arguments,
//! so everything can be tested by tables and properties.

mod address;
pub mod config;
mod document;
pub mod finding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gateway;
pub mod hosts;
pub mod kernel;
pub mod name;
pub mod plan;
pub mod report;
pub mod routes;
pub mod split_dns;
pub mod tailnet;
pub mod verdict;
pub mod zone;
