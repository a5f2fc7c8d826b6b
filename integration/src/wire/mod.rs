//! DNS on the wire, octet by octet: what a library would not send, and what it
//! would not show. The decoder is our own, so that a fault of the library that
//! the agent uses cannot hide itself; every reply must be readable by that
//! library as well.

mod client;
mod load;
mod name;
mod query;
mod reply;
mod rtype;
mod upstream;

pub use client::{Connection, Datagram, Frame, free_port, udp};
pub use load::{Load, LoadReport};
pub use query::{AD, CD, Edns, Query, RD, Shape};
pub use reply::{Opt, Record, Reply};
pub use rtype::{type_name, type_number};
pub use upstream::{Behaviour, Seen, Upstream};
