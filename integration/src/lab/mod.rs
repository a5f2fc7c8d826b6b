//! The lab: namespaces, a control server, gateways, a peer, a LAN host, upstream resolvers.

mod ask;
pub(crate) mod certs;
pub(crate) mod cgroups;
mod command;
mod dns_monitor;
mod headscale;
pub(crate) mod launch;
mod localapi;
mod node;
mod ping;
mod process;
mod rest;
pub(crate) mod run;
pub(crate) mod spawner;
pub(crate) mod start;
mod tailnet_node;
mod traces;
mod upstream;
pub(crate) mod wires;

pub use certs::CONTROL_NAME;
pub use command::{Cmd, UNPRIVILEGED_UID};
pub use dns_monitor::{Asking, DnsMonitor, DnsReport};
pub use headscale::{CONTROL_URL, DEFAULT_POLICY, Headscale};
pub use nix::sys::signal::Signal;
pub use node::Node;
pub use ping::{PingMonitor, PingReport};
pub use process::{Output, Process};
pub use rest::{HsNode, KeyOptions, Rest};
pub use run::remove_leftovers;
pub use start::{ControlVersion, GATEWAY_HOSTNAMES, Lab, LabOptions, PEER_HOSTNAME, Start};
pub use tailnet_node::TailnetNode;
pub use traces::traces;
pub use upstream::{Upstream, Zone};
pub use wires::{
    CONTROL, EGRESS_RANGE, EGRESS_TARGET, GATEWAYS_INTERNET, GATEWAYS_LAN, LAN, LAN_HOST,
    LB_ADDRESS, LB_RANGE, PEER_INTERNET, UPSTREAM_LAN, UPSTREAMS,
};
