//! A real tailnet on one machine, for tests.
//!
//! [`lab::Lab`] lays network namespaces for a control server, two gateways, a
//! peer, a LAN host and upstream resolvers, and runs the pinned Headscale,
//! tailscaled and NSD in them. [`peers::Peers`] builds those binaries once.

pub mod lab;
pub mod packages;
pub mod peers;
mod say;
mod wait;

pub use say::{Step, say};
pub use wait::{Wait, wait_until};
