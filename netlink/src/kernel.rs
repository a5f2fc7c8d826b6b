//! Reads the whole view: lists first, then one route lookup per host.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteType, RouteVia,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use tsunaro_model::kernel::checks::{TABLE_TAILSCALE, host_to_ask};
use tsunaro_model::kernel::{KernelView, Link, Path, Rule};

use crate::error::{Error, Subject};
use crate::netconf::Scope;
use crate::socket::Requests;
use crate::wire::{Reply, Request};

/// A reader of the kernel's state in one network namespace.
pub struct Kernel {
    requests: Requests,
}

impl Kernel {
    /// Opens a reader of the calling thread's network namespace, within a tokio runtime. No user
    /// id or capability is needed.
    ///
    /// # Errors
    /// When the process may not or cannot open a netlink socket.
    pub fn open() -> Result<Self, Error> {
        Ok(Self {
            requests: Requests::open()?,
        })
    }

    /// Reads everything, and asks for the route to each of these hosts. Each list is consistent in
    /// itself; between two of them the state may have changed, which [`crate::Changes`] tells.
    ///
    /// # Errors
    /// When any part could not be read. Settings of interfaces (netconf) are the exception: on a
    /// kernel without them they are None.
    pub async fn view(&mut self, hosts: &[Ipv4Addr]) -> Result<KernelView, Error> {
        let mut view = self.lists().await?;
        self.add_paths(&mut view, hosts.iter().copied()).await?;
        Ok(view)
    }

    /// As [`Kernel::view`], asking for one host in each of these prefixes: the one that
    /// [`tsunaro_model::kernel::checks::check`] will look at.
    ///
    /// # Errors
    /// As [`Kernel::view`].
    pub async fn view_for(&mut self, prefixes: &[Ipv4Net]) -> Result<KernelView, Error> {
        let mut view = self.lists().await?;
        let own = view.own_ipv4();
        let hosts = prefixes.iter().map(|prefix| host_to_ask(*prefix, &own));
        self.add_paths(&mut view, hosts).await?;
        Ok(view)
    }

    async fn lists(&mut self) -> Result<KernelView, Error> {
        let mut view = KernelView {
            links: self.links().await?,
            ..KernelView::default()
        };
        self.add_addresses(&mut view).await?;
        self.add_settings(&mut view).await?;
        view.rules = self.rules().await?;
        view.table_52 = self.table_52().await?;
        Ok(view)
    }

    async fn links(&mut self) -> Result<BTreeMap<u32, Link>, Error> {
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let request = Request::Route(RouteNetlinkMessage::GetLink(message));
        let mut links = BTreeMap::new();
        for reply in self.requests.list(Subject::Links, request).await? {
            let Reply::Link(link) = reply else { continue };
            let flags = link.flags;
            links.insert(
                link.index,
                Link {
                    name: link.name,
                    up: flags.contains(LinkFlags::Up),
                    lower_up: flags.contains(LinkFlags::LowerUp),
                    mtu: link.mtu,
                    forwarding: None,
                    rp_filter: None,
                    addresses: Vec::new(),
                },
            );
        }
        Ok(links)
    }

    async fn add_addresses(&mut self, view: &mut KernelView) -> Result<(), Error> {
        let request = Request::Route(RouteNetlinkMessage::GetAddress(AddressMessage::default()));
        for reply in self.requests.list(Subject::Addresses, request).await? {
            let Reply::Address(message) = reply else {
                continue;
            };
            let (Some(link), Some(address)) =
                (view.links.get_mut(&message.header.index), address(&message))
            else {
                continue;
            };
            link.addresses.push(address);
        }
        Ok(())
    }

    async fn add_settings(&mut self, view: &mut KernelView) -> Result<(), Error> {
        let replies = match self
            .requests
            .list(Subject::Settings, Request::Netconf)
            .await
        {
            Ok(replies) => replies,
            Err(error @ Error::Unsupported { .. }) => {
                tracing::debug!(%error, "Forwarding and reverse path filter stay unknown");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for reply in replies {
            let Reply::Netconf(netconf) = reply else {
                continue;
            };
            match netconf.scope {
                Scope::All => {
                    view.forwarding = netconf.forwarding;
                    view.rp_filter = netconf.rp_filter;
                }
                Scope::Default => {}
                Scope::Link(index) => {
                    if let Some(link) = view.links.get_mut(&index) {
                        link.forwarding = netconf.forwarding;
                        link.rp_filter = netconf.rp_filter;
                    }
                }
            }
        }
        Ok(())
    }

    async fn rules(&mut self) -> Result<Vec<Rule>, Error> {
        let mut message = RuleMessage::default();
        message.header.family = AddressFamily::Inet;
        let request = Request::Route(RouteNetlinkMessage::GetRule(message));
        let mut rules: Vec<Rule> = self
            .requests
            .list(Subject::Rules, request)
            .await?
            .into_iter()
            .filter_map(|reply| match reply {
                Reply::Rule(message) => Some(rule(&message)),
                _ => None,
            })
            .collect();
        // The kernel lists them in this order; rules of one priority keep theirs.
        rules.sort_by_key(|rule| rule.priority);
        Ok(rules)
    }

    async fn table_52(&mut self) -> Result<Vec<Ipv4Net>, Error> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message
            .attributes
            .push(RouteAttribute::Table(TABLE_TAILSCALE));
        let request = Request::Route(RouteNetlinkMessage::GetRoute(message));
        let replies = match self.requests.list(Subject::Table52, request).await {
            Ok(replies) => replies,
            // A kernel that filters says so when there is no such table.
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let mut destinations: Vec<Ipv4Net> = replies
            .iter()
            .filter_map(|reply| match reply {
                Reply::Route(route) if table(route) == TABLE_TAILSCALE => destination(route),
                _ => None,
            })
            .collect();
        destinations.sort_unstable();
        destinations.dedup();
        Ok(destinations)
    }

    async fn add_paths(
        &mut self,
        view: &mut KernelView,
        hosts: impl Iterator<Item = Ipv4Addr>,
    ) -> Result<(), Error> {
        for host in hosts {
            if let Entry::Vacant(entry) = view.paths.entry(host) {
                entry.insert(self.path(host).await?);
            }
        }
        Ok(())
    }

    async fn path(&mut self, host: Ipv4Addr) -> Result<Path, Error> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.destination_prefix_length = 32;
        // Without this flag the kernel answers with table main, whatever the truth.
        message.header.flags = RouteFlags::LookupTable;
        message
            .attributes
            .push(RouteAttribute::Destination(RouteAddress::Inet(host)));
        let request = Request::Route(RouteNetlinkMessage::GetRoute(message));
        match self.requests.one(Subject::Path, request).await {
            Ok(Reply::Route(route)) => Ok(path(&route)),
            Ok(_) => Ok(Path::Unreachable {
                reason: "The kernel named no route".to_owned(),
            }),
            Err(error) => unreachable_because(error),
        }
    }
}

fn address(message: &AddressMessage) -> Option<IpNet> {
    let mut own = None;
    for attribute in &message.attributes {
        match attribute {
            // On point-to-point links IFA_ADDRESS is the other end, IFA_LOCAL is ours.
            AddressAttribute::Local(address) => own = Some(*address),
            AddressAttribute::Address(address) => own = own.or(Some(*address)),
            _ => {}
        }
    }
    IpNet::new(own?, message.header.prefix_len).ok()
}

fn rule(message: &RuleMessage) -> Rule {
    // The kernel leaves out a priority or mark of 0.
    let (mut priority, mut table) = (0, u32::from(message.header.table));
    let (mut mark, mut mask) = (0, None);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(value) => priority = *value,
            RuleAttribute::Table(value) => table = *value,
            RuleAttribute::FwMark(value) => mark = *value,
            RuleAttribute::FwMask(value) => mask = Some(*value),
            _ => {}
        }
    }
    Rule {
        priority,
        table: (message.header.action == RuleAction::ToTable).then_some(table),
        fwmark: mask.map(|mask| (mark, mask)),
    }
}

fn table(route: &RouteMessage) -> u32 {
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        })
        .unwrap_or(u32::from(route.header.table))
}

fn destination(route: &RouteMessage) -> Option<Ipv4Net> {
    let network = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(*address),
            _ => None,
        });
    // The default route has no destination attribute.
    let network = network.unwrap_or(Ipv4Addr::UNSPECIFIED);
    Ipv4Net::new(network, route.header.destination_prefix_length).ok()
}

fn path(route: &RouteMessage) -> Path {
    match route.header.kind {
        RouteType::Local => return Path::Local,
        RouteType::BlackHole => return unreachable("blackhole"),
        RouteType::Unreachable => return unreachable("unreachable"),
        RouteType::Prohibit => return unreachable("prohibit"),
        _ => {}
    }
    let (mut link, mut gateway, mut advmss) = (None, None, None);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Gateway(RouteAddress::Inet(address))
            | RouteAttribute::Via(RouteVia::Inet(address)) => {
                gateway = Some(IpAddr::V4(*address));
            }
            RouteAttribute::Gateway(RouteAddress::Inet6(address))
            | RouteAttribute::Via(RouteVia::Inet6(address)) => {
                gateway = Some(IpAddr::V6(*address));
            }
            RouteAttribute::Metrics(metrics) => {
                advmss = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Advmss(octets) => Some(*octets),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    match link {
        Some(link) => Path::Via {
            link,
            gateway,
            table: table(route),
            advmss,
        },
        None => unreachable("the route names no interface"),
    }
}

fn unreachable(reason: &str) -> Path {
    Path::Unreachable {
        reason: reason.to_owned(),
    }
}

/// The kernel answers a lookup that ends nowhere with the error that a sender would get
/// (`fib_props` in net/ipv4/fib_semantics.c); any other error is one of reading.
fn unreachable_because(error: Error) -> Result<Path, Error> {
    let (Error::Permission { source, .. } | Error::Io { source, .. }) = &error else {
        return Err(error);
    };
    let reason = match source.raw_os_error() {
        Some(libc::ENETUNREACH) => "no route (network is unreachable)",
        Some(libc::EHOSTUNREACH) => "an unreachable route (no route to host)",
        Some(libc::EACCES) => "a prohibit route (permission denied)",
        Some(libc::EINVAL) => "a blackhole route (invalid argument)",
        _ => return Err(error),
    };
    Ok(unreachable(reason))
}
