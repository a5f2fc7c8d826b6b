//! Which prefixes a gateway may advertise, and the set it wants to.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use thiserror::Error;

use crate::config::RoutesConfig;

/// LAN prefixes at most, as in the custom resource.
pub const MAX_LAN_PREFIXES: usize = 128;

/// Egress targets at most. More were never measured end to end: each is a prefix that the control
/// server approves and that every peer takes into its kernel.
pub const MAX_EGRESS_TARGETS: usize = 4096;

/// Why a prefix must not be advertised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unroutable {
    /// An exit route; a gateway is no exit node.
    #[error("it is the default route, and a gateway is no exit node")]
    Default,
    /// The tailnet's own range, 100.64.0.0/10, or a part of it.
    #[error("it overlaps 100.64.0.0/10, which belongs to the tailnet itself")]
    Tailnet,
    /// 127.0.0.0/8.
    #[error("it overlaps the loopback range 127.0.0.0/8")]
    Loopback,
    /// 224.0.0.0/4.
    #[error("it overlaps the multicast range 224.0.0.0/4, which subnet routers do not carry")]
    Multicast,
    /// 169.254.0.0/16.
    #[error("it overlaps the link-local range 169.254.0.0/16, which routers do not forward")]
    LinkLocal,
    /// 0.0.0.0/8 apart from the default route.
    #[error("it overlaps 0.0.0.0/8, which is no destination")]
    ThisNetwork,
    /// 255.255.255.255, the limited broadcast address (RFC 919).
    #[error("it covers 255.255.255.255, the broadcast address, which routers do not forward")]
    Broadcast,
}

const RESERVED: [(Ipv4Addr, u8, Unroutable); 6] = [
    (Ipv4Addr::new(100, 64, 0, 0), 10, Unroutable::Tailnet),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Unroutable::Loopback),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Unroutable::Multicast),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Unroutable::LinkLocal),
    (Ipv4Addr::new(0, 0, 0, 0), 8, Unroutable::ThisNetwork),
    (Ipv4Addr::BROADCAST, 32, Unroutable::Broadcast),
];

/// Tells whether a gateway may advertise this prefix.
///
/// # Errors
/// The reason why not. A prefix that only covers a reserved range, such as 96.0.0.0/4 over
/// 100.64.0.0/10, is refused like the range itself.
pub fn check_routable(prefix: Ipv4Net) -> Result<(), Unroutable> {
    if prefix.prefix_len() == 0 {
        return Err(Unroutable::Default);
    }
    for (network, length, reason) in RESERVED {
        let reserved = Ipv4Net::new_assert(network, length);
        if reserved.contains(&prefix) || prefix.contains(&reserved) {
            return Err(reason);
        }
    }
    Ok(())
}

/// The set to advertise: LAN ∪ load balancer range ∪ egress targets as /32, canonical and sorted.
/// With `aggregate`, prefixes that another one covers are left out; neighbours are never merged,
/// since approval is per prefix.
pub fn wanted(config: &RoutesConfig) -> Vec<Ipv4Net> {
    let RoutesConfig {
        lan,
        tailnet_lb_cidr,
        egress_targets,
        aggregate,
        snat: _,
        refused: _,
    } = config;
    let mut all: Vec<Ipv4Net> = lan
        .iter()
        .copied()
        .chain(*tailnet_lb_cidr)
        .chain(egress_targets.iter().copied().map(Ipv4Net::from))
        .map(|prefix| prefix.trunc())
        .collect();
    all.sort_unstable();
    all.dedup();
    if *aggregate {
        // Sorted by network, then length: whoever covers a prefix stands before it.
        let mut kept: Vec<Ipv4Net> = Vec::with_capacity(all.len());
        for prefix in all {
            if !kept.last().is_some_and(|last| last.contains(&prefix)) {
                kept.push(prefix);
            }
        }
        return kept;
    }
    all
}

#[cfg(test)]
mod tests;
