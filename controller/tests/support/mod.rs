//! The table of manifests, and a schema that checks like an API server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

pub(crate) mod schema;
pub(crate) mod table;
