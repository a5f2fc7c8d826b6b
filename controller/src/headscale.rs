//! The client of Headscale's REST interface, versions 0.28 and 0.29, prepared for 0.30's errors.
//!
//! [`Headscale`] makes one call per method, each on a connection of its own that is driven inside
//! the caller's future: nothing runs in the background, and dropping a future closes its
//! connection. [`NodeCache`] shares one list of nodes among all who ask. [`Error`] is split by what
//! a caller does about it; no key ever shows in it.

mod answers;
mod cache;
mod client;
mod endpoint;
mod error;
mod expiry;
mod id;
pub(crate) mod redact;
mod refusal;
mod retry;
mod secret;
mod server;
mod tls;
mod transport;
mod wire;

pub use answers::{ListedKey, MintRequest, MintedKey, Node, NodeList, Policy, ServerVersion};
pub use cache::{ListNodes, NodeCache};
pub use client::{Headscale, Limits};
pub use error::{At, Error, Phase};
pub use expiry::Expiry;
pub use id::{InvalidId, KeyId, NodeId};
pub use secret::{ApiKey, InvalidApiKey};
pub use server::{InvalidUrl, ServerUrl};
pub use tls::{InvalidCaBundle, Trust};
