//! The table of manifests, and a schema that checks like an API server.

pub(crate) mod schema;
pub(crate) mod table;
