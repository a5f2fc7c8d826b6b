//! Warnings: traffic passes, but not as well, or not for as long, as it should.

use std::net::IpAddr;

use ipnet::Ipv4Net;

use super::{CheckState, Opinion, unknown, warned};

pub(super) fn control_server(addresses: Option<&[IpAddr]>, wanted: &[Ipv4Net]) -> CheckState {
    let Some(addresses) = addresses else {
        return unknown("NotResolved", "tailscale debug prefs | grep ControlURL");
    };
    let inside = addresses.iter().find_map(|address| {
        let IpAddr::V4(v4) = address else { return None };
        let prefix = wanted.iter().find(|prefix| prefix.contains(v4))?;
        Some((v4, prefix))
    });
    let Some((address, prefix)) = inside else {
        return CheckState::Ok;
    };
    warned(
        "ControlServerInside",
        format!(
            "{prefix} holds {address}, the control server: peers that take the route reach the \
             control server through this gateway only, and lose both together; advertise prefixes \
             around that address instead of {prefix}"
        ),
    )
}

pub(super) fn forwarding(opinion: &Opinion) -> CheckState {
    match opinion {
        Opinion::NotAsked => unknown("NotAsked", "sysctl net.ipv4.ip_forward"),
        Opinion::Fine => CheckState::Ok,
        // A gateway advertises IPv4 only (`CheckIPForwarding` in tailscale's net/netutil).
        Opinion::Warns(words) if words.starts_with("IPv6 ") => CheckState::Ok,
        Opinion::Warns(words) => warned(
            "TailscaledWarns",
            format!("tailscaled says: {words}; run `sysctl -w net.ipv4.ip_forward=1`"),
        ),
    }
}

pub(super) fn udp_gro(opinion: &Opinion) -> CheckState {
    match opinion {
        Opinion::NotAsked => unknown("NotAsked", "ethtool -k eth0 | grep gro"),
        Opinion::Fine => CheckState::Ok,
        Opinion::Warns(words) => warned(
            "UdpGroForwardingSlow",
            format!(
                "tailscaled says: {words}; run `ethtool -K IF rx-udp-gro-forwarding on rx-gro-list \
                 off` for the interface that the default route leaves by, in Kubernetes on the node"
            ),
        ),
    }
}
