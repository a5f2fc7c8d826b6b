//! A client of tailscaled's LocalAPI over its unix socket.
//!
//! The LocalAPI is HTTP/1.1 under `/localapi/v0/`. tailscaled decides who may write by the peer's
//! uid: 0, or the user that its prefs name as `OperatorUser`; anyone who can open the socket may
//! read. What is here was checked against tailscaled 1.102.4.
//!
//! [`LocalApi`] asks and changes, one connection per request. [`IpnBus`] is the stream of
//! tailscaled's changes. Nothing runs in the background: dropping a future or a stream closes its
//! connection.

mod bus;
mod client;
mod endpoint;
mod error;
mod lines;
mod redact;
mod transport;
mod wire;

pub use bus::{IpnBus, IpnEvent};
pub use client::LocalApi;
pub use error::Error;
