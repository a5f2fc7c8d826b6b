//! Checks of where packets go, and of what would drop them.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

use super::{
    CheckState, INTERFACE, TABLE_TAILSCALE, TAILNET_RANGE, daemon, failed, host_to_ask, unknown,
};
use crate::kernel::{KernelView, Link, Path};

/// tailscaled's own resolver.
const MAGIC_DNS: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 100);

/// Values of rp_filter (Documentation/networking/ip-sysctl.rst); the loose one is 2.
const STRICT: u32 = 1;
const LOOSE: u32 = 2;

/// The setting of the interface that a packet comes in by counts; the one for all only sets those.
pub(super) fn forwarding(view: &KernelView, wanted: &[Ipv4Net]) -> CheckState {
    let used = used_links(view, wanted);
    let off: Vec<&str> = used
        .iter()
        .filter(|link| link.forwarding == Some(false))
        .map(|link| link.name.as_str())
        .collect();
    let everywhere = "run `sysctl -w net.ipv4.ip_forward=1`, in Kubernetes on the node, and then \
                      delete the gateway's Pod, which takes the setting over when it starts";
    if !off.is_empty() && view.forwarding != Some(true)
        || used.is_empty() && view.forwarding == Some(false)
    {
        return failed(
            "ForwardingOff",
            format!("IPv4 forwarding is off; {everywhere}"),
        );
    }
    if !off.is_empty() {
        let commands: Vec<String> = off
            .iter()
            .map(|name| format!("`sysctl -w net.ipv4.conf.{name}.forwarding=1`"))
            .collect();
        return failed(
            "ForwardingOffOnInterface",
            format!(
                "IPv4 forwarding is on in general but off on {}; run {}",
                off.join(", "),
                commands.join(" and ")
            ),
        );
    }
    let told = if used.is_empty() {
        view.forwarding.is_some()
    } else {
        used.iter().all(|link| link.forwarding.is_some())
    };
    if told {
        CheckState::Ok
    } else {
        unknown("ForwardingNotReadable", "sysctl net.ipv4.ip_forward")
    }
}

pub(super) fn path_out(view: &KernelView, prefix: Ipv4Net, host: Ipv4Addr) -> CheckState {
    match view.paths.get(&host) {
        None => unknown("NotAsked", format!("ip route get {host}")),
        Some(Path::Local) => CheckState::Ok,
        Some(Path::Unreachable { reason }) => failed(
            "PathUnreachable",
            format!(
                "packets to {prefix} go nowhere: for {host} the kernel has {reason} (see `ip route \
                 get {host}`); run `ip route add {prefix} via GATEWAY`, in Kubernetes on the node"
            ),
        ),
        Some(Path::Via { link, table, .. }) if is_tailscale(view, *link) => {
            if *table == TABLE_TAILSCALE {
                failed(
                    "PathIntoTailnet",
                    format!(
                        "packets to {prefix} go back into the tailnet: {host} leaves by {INTERFACE} \
                         through table {TABLE_TAILSCALE}; run `tailscale set --accept-routes=false`"
                    ),
                )
            } else {
                failed(
                    "PathIntoTailnet",
                    format!(
                        "packets to {prefix} go back into the tailnet: {host} leaves by {INTERFACE} \
                         through table {table}; run `ip route del {prefix} dev {INTERFACE} table \
                         {table}`"
                    ),
                )
            }
        }
        Some(Path::Via { .. }) => CheckState::Ok,
    }
}

pub(super) fn tailnet_range_clash(view: &KernelView, resolvers: &[IpAddr]) -> CheckState {
    let addresses: Vec<String> = view
        .links
        .values()
        .filter(|link| link.name != INTERFACE)
        .flat_map(|link| link.addresses.iter().map(move |address| (link, address)))
        .filter(|(_, address)| in_tailnet_range(address.addr()))
        .map(|(link, address)| format!("{address} on {}", link.name))
        .collect();
    if !addresses.is_empty() {
        return failed(
            "AddressInTailnetRange",
            format!(
                "this host's own address {} lies in {TAILNET_RANGE}, whose packets tailscaled drops \
                 unless they come from the tailnet; move it out of that range (in Kubernetes the \
                 range of Pods; `ip address show` lists them)",
                addresses.join(", ")
            ),
        );
    }
    let resolvers: Vec<IpAddr> = resolvers
        .iter()
        .copied()
        .filter(|address| in_tailnet_range(*address))
        .collect();
    if resolvers.contains(&IpAddr::V4(MAGIC_DNS)) {
        return failed(
            "ResolverIsTailnet",
            format!(
                "resolv.conf names {MAGIC_DNS}, tailscaled's own resolver, so that this host's names \
                 depend on the tailnet; run `tailscale set --accept-dns=false`"
            ),
        );
    }
    if !resolvers.is_empty() {
        let named: Vec<String> = resolvers.iter().map(IpAddr::to_string).collect();
        return failed(
            "ResolverInTailnetRange",
            format!(
                "resolv.conf names {}, which lies in {TAILNET_RANGE}, whose packets tailscaled drops \
                 unless they come from the tailnet; name a resolver outside that range (in \
                 Kubernetes move the range of Services; `cat /etc/resolv.conf` lists them)",
                named.join(", ")
            ),
        );
    }
    CheckState::Ok
}

/// A strict filter drops a packet whose way back does not leave by the interface it came in by.
pub(super) fn reverse_path_filter(view: &KernelView, wanted: &[Ipv4Net]) -> CheckState {
    let own = view.own_ipv4();
    let mut victims: Vec<(&Link, String)> = Vec::new();
    for (index, link) in &view.links {
        if link.name == INTERFACE {
            if !daemon::looked_up(view) || view.table_52.is_empty() {
                victims.push((link, "the tailnet".to_owned()));
            }
            continue;
        }
        for prefix in wanted {
            if is_attached(link, *prefix) && leaves_elsewhere(view, *index, *prefix, &own) {
                victims.push((link, prefix.to_string()));
            }
        }
    }
    let mut not_told = false;
    for (link, from) in victims {
        match effective(view.rp_filter, link.rp_filter) {
            Some(STRICT) => {
                return failed(
                    "StrictReversePathFilter",
                    format!(
                        "packets from {from} that come in by {name} are dropped, since their way \
                         back leaves by another interface and rp_filter is strict; run `sysctl -w \
                         net.ipv4.conf.{name}.rp_filter={LOOSE}`",
                        name = link.name
                    ),
                );
            }
            Some(_) => {}
            None => not_told = true,
        }
    }
    if not_told {
        return unknown("ReversePathFilterNotReadable", "sysctl -ar '\\.rp_filter$'");
    }
    CheckState::Ok
}

/// tailscale0 and the interfaces that packets to wanted prefixes leave by.
fn used_links<'a>(view: &'a KernelView, wanted: &[Ipv4Net]) -> Vec<&'a Link> {
    let own = view.own_ipv4();
    let mut indexes: Vec<u32> = view
        .link_named(INTERFACE)
        .map(|(index, _)| index)
        .into_iter()
        .collect();
    indexes.extend(wanted.iter().filter_map(|prefix| {
        match view.paths.get(&host_to_ask(*prefix, &own)) {
            Some(Path::Via { link, .. }) => Some(*link),
            Some(Path::Local | Path::Unreachable { .. }) | None => None,
        }
    }));
    indexes.sort_unstable();
    indexes.dedup();
    indexes
        .iter()
        .filter_map(|index| view.links.get(index))
        .collect()
}

fn is_tailscale(view: &KernelView, index: u32) -> bool {
    view.links
        .get(&index)
        .is_some_and(|link| link.name == INTERFACE)
}

fn in_tailnet_range(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => TAILNET_RANGE.contains(&address),
        IpAddr::V6(_) => false,
    }
}

/// The interface has an address within the prefix, so that its packets come in there.
fn is_attached(link: &Link, prefix: Ipv4Net) -> bool {
    link.addresses.iter().any(|address| match address {
        IpNet::V4(address) => prefix.contains(&address.addr()),
        IpNet::V6(_) => false,
    })
}

/// Packets to the prefix leave by another interface, which is not attached to it as well.
fn leaves_elsewhere(view: &KernelView, index: u32, prefix: Ipv4Net, own: &[Ipv4Addr]) -> bool {
    match view.paths.get(&host_to_ask(prefix, own)) {
        Some(Path::Via { link, .. }) if *link != index => !view
            .links
            .get(link)
            .is_some_and(|other| is_attached(other, prefix)),
        _ => false,
    }
}

/// The greater of both settings counts (ip-sysctl.rst).
fn effective(all: Option<u32>, own: Option<u32>) -> Option<u32> {
    match (all, own) {
        (Some(all), Some(own)) => Some(all.max(own)),
        (Some(LOOSE), None) | (None, Some(LOOSE)) => Some(LOOSE),
        _ => None,
    }
}
