//! The agent's config file, as domain types: what has been parsed is valid.

mod loops;
pub(crate) mod meaning;
mod parse;
mod render;
pub(crate) mod structure;
pub(crate) mod wire;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::Ipv4Net;
pub use loops::loops;
pub use parse::{Parsed, parse};
pub use render::render;

use crate::name::DnsName;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where to listen, as far as the file says; flags and environment variables win over it.
    pub listen: Listen,
    /// The hosts file's path as written, relative to the config file. None: no dynamic names.
    pub hosts: Option<String>,
    /// What to answer.
    pub dns: DnsConfig,
    /// How to log tailscaled in. None: nobody logs it in.
    pub tailnet: TailnetConfig,
    /// What to advertise. None: DNS only, tailscaled's routes are left alone.
    pub routes: Option<RoutesConfig>,
}

/// Listening addresses of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listen {
    /// DNS over UDP and TCP. Empty: not given.
    pub dns: Vec<SocketAddr>,
    /// Probes, status and metrics.
    pub http: Option<SocketAddr>,
}

/// The zone and the extra zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsConfig {
    /// The authoritative zone.
    pub zone: DnsName,
    /// What tailnet clients should be told to ask; for the split-DNS check only.
    pub addresses: Vec<IpAddr>,
    /// Records an administrator wrote, one entry per name: they win over dynamic names.
    pub static_records: Vec<StaticRecord>,
    /// The address of every name that does not exist (RFC 4592).
    pub wildcard_address: Option<Ipv4Addr>,
    /// Zones whose names are forwarded unless the hosts file overrides them.
    pub extra_zones: Vec<ExtraZoneConfig>,
    /// TTL of positive answers in seconds, 1 to 3600.
    pub ttl: u32,
    /// TTL of negative answers in seconds, 1 to 3600.
    pub negative_ttl: u32,
}

/// All static data of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticRecord {
    /// The absolute owner name, inside the zone.
    pub name: DnsName,
    /// What it holds.
    pub data: StaticData,
}

/// A name is an alias or has addresses, never both (RFC 1034 §3.6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaticData {
    /// A CNAME to this absolute name.
    Alias(DnsName),
    /// One RRset per family, in the file's order, without repetition; at least one address.
    Addresses(Vec<IpAddr>),
}

/// One extra zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraZoneConfig {
    /// The apex.
    pub zone: DnsName,
    /// Servers in order of preference, at least one; port 53 unless given.
    pub upstreams: Vec<SocketAddr>,
}

/// How to log tailscaled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TailnetConfig {
    /// Path of the pre-auth key, as written, relative to the config file.
    pub auth_key_file: Option<String>,
}

/// What to advertise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutesConfig {
    /// The site's LAN prefixes, at most 128.
    pub lan: Vec<Ipv4Net>,
    /// The range of the tailnet-facing load balancer addresses.
    pub tailnet_lb_cidr: Option<Ipv4Net>,
    /// Single hosts to be reached, advertised as /32.
    pub egress_targets: Vec<Ipv4Addr>,
    /// Leave out prefixes that another one covers. Default true.
    pub aggregate: bool,
    /// Hosts of the site see the gateway's address instead of the peer's (masquerading), so that
    /// they need no route to the tailnet. Default true.
    pub snat: bool,
    /// Entries that cannot be advertised, and so are left out.
    pub refused: Vec<RefusedRoute>,
}

/// An entry of the routes that cannot be advertised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRoute {
    /// The entry as written, fit to be printed.
    pub text: String,
    /// Why, and what to write instead.
    pub why: String,
}

#[cfg(test)]
mod tests;
