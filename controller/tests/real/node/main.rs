//! The controller: as a process beside a real API server and a real Headscale, and installed on a real
//! node as a user does, with Pods that log in.

#![allow(
    clippy::indexing_slicing,
    reason = "indexing a JSON value by a name yields null, it does not panic"
)]

mod beside;
mod blocked;
mod chaos;
mod downgraded;
mod installed;
mod made;
mod many;
#[path = "../../../../integration/tests/kubernetes/by_hand/site.rs"]
#[allow(dead_code, reason = "shared with the tests of the gateway by hand")]
mod site;
mod stress;
mod tap;

use std::time::Duration;

use site::NAMESPACE;

/// What takes a second or two, on a loaded machine.
const SOON: Duration = Duration::from_secs(30);
/// How long a Pod may take to be ready on a loaded machine; it takes about 2 s.
const POD_READY: Duration = Duration::from_secs(60);
