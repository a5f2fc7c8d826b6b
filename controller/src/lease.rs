//! Who of several controllers works: the holder of a Lease (`coordination.k8s.io/v1`).
//!
//! A holder that cannot renew in time stops working and goes on trying; it does not exit. Whether
//! another's lease is over is told by this process's own clock, from when it saw the lease change last,
//! so that clocks of machines need not agree.

mod keep;
mod machine;

pub(crate) use keep::give_back;
pub use keep::{Keeper, Term};
pub use machine::{Do, Limits, Machine, Seen};
