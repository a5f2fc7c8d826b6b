//! The gateway by hand: `deploy/manifests` applied with kubectl on a real node, with the project's
//! image and the real tailscaled; Headscale, the site's LAN and a tailnet peer outside the node.

mod config;
mod contract;
mod faults;
mod hardening;
mod readiness;
mod site;
mod watch;

pub(crate) use config::{Change, TESTS as CHANGES};
pub(crate) use contract::{AGAIN, TESTS as CONTRACT};
pub(crate) use faults::TESTS as FAULTS;
pub(crate) use readiness::TESTS as READINESS;
pub(crate) use site::{COREDNS_IMAGE, Site};
