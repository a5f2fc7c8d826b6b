//! The rules of the DNS contract, each held by a test that names it.

#[cfg(test)]
mod aliases;
#[cfg(test)]
mod existence;
#[cfg(test)]
mod express;
#[cfg(test)]
mod extra;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod format;
#[cfg(test)]
mod joint;
#[cfg(test)]
mod loopback;
#[cfg(test)]
mod message;
#[cfg(test)]
#[path = "../support/mock_upstream.rs"]
mod mock_upstream;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod routing;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod tcp;
#[cfg(test)]
mod udp;
#[cfg(test)]
mod wildcard;
