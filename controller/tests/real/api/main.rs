//! The custom resources as a real API server has them: its schemas and rules against our own
//! validation, the rendered objects, and what `kubectl` shows people.
//!
//! All tests share one etcd and one kube-apiserver, which start with the first of them.

mod applied;
mod cluster;
mod manifests;
mod reading;
mod rendered;
mod transitions;

#[path = "../../support/table.rs"]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    dead_code,
    reason = "the controller's own tests of the table have it too"
)]
mod table;

use std::process::ExitCode;

use tsunaro_integration::run_sharing;

use crate::cluster::Cluster;

type Named = tsunaro_integration::Named<Cluster>;

fn main() -> ExitCode {
    let all = [
        manifests::TESTS,
        transitions::TESTS,
        rendered::TESTS,
        reading::TESTS,
    ];
    run_sharing("the API server", Cluster::start, all.concat())
}
