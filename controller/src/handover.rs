//! Moves a router's prefixes to an approved standby before the router leaves, so that peers lose
//! nothing: its approvals are taken away while it still forwards, and given back as soon as the
//! standby carries the traffic, which then stays there.
//!
//! [`machine`](next) is pure. What it is about is written down in a ConfigMap before the first
//! approval is taken, so that a controller that dies on the way leaves a record by which the next one
//! ends it. The record lies beside the gateways and not in an annotation of one: a router that is no
//! gateway of ours can be handed over too, and a gateway's object may be gone before its handover is.

mod drive;
mod machine;
mod notice;
mod record;
mod request;

pub use drive::{Handovers, Order, drive};
pub use machine::{Move, Outcome, Record, Subject, begin, next};
pub use notice::notice;
pub(crate) use record::{LABEL, busy};
pub use request::{Answer, Request, ask};
