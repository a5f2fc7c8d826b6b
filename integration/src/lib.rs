//! A real tailnet on one machine, for tests.
//!
//! [`lab::Lab`] lays network namespaces for a control server, two gateways, a
//! peer, a LAN host and upstream resolvers, and runs the pinned Headscale,
//! tailscaled and NSD in them. [`peers::Peers`] builds those binaries once.
//!
//! ```no_run
//! use std::time::Duration;
//! use tsunaro_integration::lab::{Cmd, LAN_HOST, Lab, LabOptions, PingMonitor};
//!
//! # fn main() -> anyhow::Result<()> {
//! let lab = Lab::start(LabOptions::default())?;
//! let gateway = lab.gateway(1)?;
//! let agent = gateway.spawn(Cmd::new("/path/to/agent").arg("run").unprivileged())?;
//! lab.wait_until("a ping through the gateway", Duration::from_secs(20), || {
//!     lab.peer().ping_once(LAN_HOST).map(Some)
//! })?;
//! let ping = PingMonitor::start(lab.peer(), LAN_HOST)?;
//! agent.terminate(Duration::from_secs(10))?;
//! println!("{:?}", ping.stop()?);
//! # Ok(())
//! # }
//! ```

mod image;
pub mod kube;
pub mod lab;
mod local;
pub mod mount;
pub mod oci;
pub mod packages;
pub mod peers;
mod programs;
mod say;
mod shared;
mod wait;
pub mod wire;

pub use image::{OWN_IMAGE, own_image};
pub use local::spawn_local;
pub use programs::{agent_binary, controller_binary, controller_of};
pub use say::{Step, say};
pub use shared::{Named, run_sharing};
pub use wait::{Wait, wait_until};
