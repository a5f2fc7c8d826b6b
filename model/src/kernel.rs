//! What the kernel says of links, addresses, rules and routes, as one immutable view.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

pub mod checks;

/// One consistent reading of the kernel's IPv4 routing state (links, addresses of both families).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelView {
    /// Links of the network namespace by interface index.
    pub links: BTreeMap<u32, Link>,
    /// Whether IPv4 forwarding is on for all interfaces; None when the kernel did not say.
    pub forwarding: Option<bool>,
    /// Reverse path filter for all interfaces, as in [`Link::rp_filter`]. The greater of this and
    /// an interface's own counts.
    pub rp_filter: Option<u32>,
    /// Policy rules of IPv4, in order of priority.
    pub rules: Vec<Rule>,
    /// Destinations of the IPv4 routes in tailscaled's table 52.
    pub table_52: Vec<Ipv4Net>,
    /// For each host that was asked about, where a packet to it would go.
    pub paths: BTreeMap<Ipv4Addr, Path>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name, such as `tailscale0`.
    pub name: String,
    /// Administratively up (IFF_UP).
    pub up: bool,
    /// The carrier is there (IFF_LOWER_UP).
    pub lower_up: bool,
    /// MTU in octets.
    pub mtu: u32,
    /// Whether IPv4 forwarding is on for it; None when the kernel did not say.
    pub forwarding: Option<bool>,
    /// Reverse path filter: 0 off, 1 strict, 2 loose; None when the kernel did not say.
    pub rp_filter: Option<u32>,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<IpNet>,
}

/// An IPv4 policy rule, as far as the checks look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its priority, also called preference.
    pub priority: u32,
    /// The table it looks up; None for rules that do something else.
    pub table: Option<u32>,
    /// The firewall mark it matches, with its mask.
    pub fwmark: Option<(u32, u32)>,
}

/// Where the kernel would send a packet to one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// Out of an interface.
    Via {
        /// Index of the interface it leaves by.
        link: u32,
        /// The next hop; None when the host is on the link.
        gateway: Option<IpAddr>,
        /// The table the route was found in.
        table: u32,
        /// The advertised MSS of the route in octets, if set.
        advmss: Option<u32>,
    },
    /// To the host itself: the address is local.
    Local,
    /// Nowhere: unreachable, prohibited, blackholed or no route at all.
    Unreachable {
        /// The kernel's reason, such as `Network is unreachable`.
        reason: String,
    },
}

impl KernelView {
    /// The index and data of the link with this name.
    pub fn link_named(&self, name: &str) -> Option<(u32, &Link)> {
        self.links
            .iter()
            .find(|(_, link)| link.name == name)
            .map(|(index, link)| (*index, link))
    }

    /// Every address of this host, of both families.
    pub fn own_addresses(&self) -> Vec<IpAddr> {
        self.links
            .values()
            .flat_map(|link| &link.addresses)
            .map(IpNet::addr)
            .collect()
    }

    /// Every IPv4 address of this host.
    pub fn own_ipv4(&self) -> Vec<Ipv4Addr> {
        self.links
            .values()
            .flat_map(|link| &link.addresses)
            .filter_map(|address| match address {
                IpNet::V4(address) => Some(address.addr()),
                IpNet::V6(_) => None,
            })
            .collect()
    }
}
