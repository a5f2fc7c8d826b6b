//! A read-only view of the kernel's links, addresses, rules and routes.
//!
//! [`Kernel`] reads by requests on one netlink socket, [`Changes`] hears by multicast that
//! something changed. Both belong to the network namespace of the thread that made them, neither
//! writes anything, and neither needs a user id or a capability. There are no tasks in here: the
//! caller's own polls drive both sockets.

mod changes;
mod error;
mod kernel;
mod netconf;
mod socket;
mod wire;

pub use changes::{Change, Changes};
pub use error::{Error, Subject};
pub use kernel::Kernel;
