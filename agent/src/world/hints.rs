//! What the kernel checks look at besides the kernel.

use std::net::IpAddr;

/// Facts about this host that change rarely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hints {
    /// The resolvers that it asks.
    pub(super) resolvers: Vec<IpAddr>,
    /// Addresses of the control server; None while they are not known.
    pub(super) control_server: Option<Vec<IpAddr>>,
}
