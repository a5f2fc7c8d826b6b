//! The rules of the DNS contract, each held by a test that names it.

mod aliases;
mod existence;
mod extra;
mod fixture;
mod format;
mod loopback;
mod message;
mod properties;
mod reference;
mod routing;
mod stop;
mod tcp;
mod udp;
mod wildcard;
