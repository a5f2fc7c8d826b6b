//! Checks of what tailscaled puts into the kernel.

use std::net::IpAddr;

use super::{CheckState, INTERFACE, TABLE_TAILSCALE, failed, unknown};
use crate::kernel::{KernelView, Rule};

/// Makes tailscaled set up its interface, rules and table anew.
const RESTART: &str =
    "restart tailscaled: `systemctl restart tailscaled`, in Kubernetes delete the gateway's Pod";

/// Tables `main` and `default` (linux/rtnetlink.h).
const TABLE_MAIN: u32 = 254;
const TABLE_DEFAULT: u32 = 253;

/// The mark of tailscaled's own packets and its mask (`TailscaleBypassMark` in its tsconst).
const BYPASS_MARK: (u32, u32) = (0x8_0000, 0xff_0000);

/// tailscaled's rules; the one without a table ends the marked lookup as
/// unreachable (`baseIPRules` in its router).
const RULES: [Rule; 4] = [
    Rule {
        priority: 5210,
        table: Some(TABLE_MAIN),
        fwmark: Some(BYPASS_MARK),
    },
    Rule {
        priority: 5230,
        table: Some(TABLE_DEFAULT),
        fwmark: Some(BYPASS_MARK),
    },
    Rule {
        priority: 5250,
        table: None,
        fwmark: Some(BYPASS_MARK),
    },
    Rule {
        priority: 5270,
        table: Some(TABLE_TAILSCALE),
        fwmark: None,
    },
];

pub(super) fn interface(view: &KernelView) -> CheckState {
    let Some((_, link)) = view.link_named(INTERFACE) else {
        return failed(
            "InterfaceMissing",
            format!(
                "there is no interface {INTERFACE}; see that /dev/net/tun exists and that \
                 tailscaled runs without --tun=userspace-networking, then {RESTART}"
            ),
        );
    };
    if !link.up {
        return failed(
            "InterfaceDown",
            format!("{INTERFACE} is down; run `ip link set {INTERFACE} up`"),
        );
    }
    if !link.lower_up {
        return failed(
            "InterfaceWithoutDaemon",
            format!("{INTERFACE} is up, but no tailscaled serves it; {RESTART}"),
        );
    }
    CheckState::Ok
}

pub(super) fn address(view: &KernelView, tailnet_addresses: &[IpAddr]) -> CheckState {
    let Some((_, link)) = view.link_named(INTERFACE) else {
        return unknown(
            "InterfaceMissing",
            format!("ip address show dev {INTERFACE}"),
        );
    };
    if tailnet_addresses.is_empty() {
        return unknown("NotLoggedIn", "tailscale status");
    }
    // A kernel without IPv6 cannot hold the IPv6 address, and the gateway does not need it.
    let only_ipv6 = tailnet_addresses.iter().all(IpAddr::is_ipv6);
    let missing: Vec<String> = tailnet_addresses
        .iter()
        .filter(|address| address.is_ipv4() || only_ipv6)
        .filter(|address| !link.addresses.iter().any(|own| own.addr() == **address))
        .map(IpAddr::to_string)
        .collect();
    if missing.is_empty() {
        return CheckState::Ok;
    }
    failed(
        "AddressMissing",
        format!(
            "{INTERFACE} lacks the tailnet address {}; {RESTART}",
            missing.join(", ")
        ),
    )
}

pub(super) fn policy_rules(view: &KernelView) -> CheckState {
    let missing: Vec<String> = RULES
        .iter()
        .filter(|rule| !view.rules.contains(rule))
        .map(|rule| rule.priority.to_string())
        .collect();
    if missing.is_empty() {
        return CheckState::Ok;
    }
    failed(
        "PolicyRulesMissing",
        format!(
            "tailscaled's policy rules {} are missing or altered (see `ip rule show`); {RESTART}",
            missing.join(", ")
        ),
    )
}

pub(super) fn table_52(view: &KernelView) -> CheckState {
    if !looked_up(view) {
        return failed(
            "Table52NotLookedUp",
            format!(
                "no policy rule looks up table {TABLE_TAILSCALE}, so that replies to the tailnet go \
                 astray (see `ip rule show`); {RESTART}"
            ),
        );
    }
    if view.table_52.is_empty() {
        return failed(
            "Table52Empty",
            format!(
                "table {TABLE_TAILSCALE} has no routes (see `ip route show table {TABLE_TAILSCALE}`), \
                 so that no tailnet peer can be reached; see that `tailscale status` says logged \
                 in, else {RESTART}"
            ),
        );
    }
    CheckState::Ok
}

/// Whether any rule looks up tailscaled's table.
pub(super) fn looked_up(view: &KernelView) -> bool {
    view.rules
        .iter()
        .any(|rule| rule.table == Some(TABLE_TAILSCALE))
}
