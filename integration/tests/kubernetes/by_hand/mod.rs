//! The gateway by hand: `deploy/manifests` applied with kubectl on a real node, with the project's
//! image and the real tailscaled; Headscale, the site's LAN and a tailnet peer outside the node.

#![expect(
    clippy::indexing_slicing,
    reason = "serde_json's values give null for what is not there"
)]

mod config;
mod contract;
mod faults;
mod hardening;
mod readiness;
mod site;
mod watch;
