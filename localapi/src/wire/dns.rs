//! The tailnet's DNS settings.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use tsunaro_model::name::DnsName;
use tsunaro_model::tailnet::{TailnetDns, TailnetResolver};

/// `tailcfg.DNSConfig`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DnsConfigReply {
    routes: Option<BTreeMap<String, Option<Vec<ResolverReply>>>>,
    #[serde(default)]
    proxied: bool,
}

/// `dnstype.Resolver`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ResolverReply {
    #[serde(default)]
    addr: String,
}

impl From<DnsConfigReply> for TailnetDns {
    fn from(reply: DnsConfigReply) -> Self {
        let DnsConfigReply { routes, proxied } = reply;
        let mut dns = Self {
            magic_dns: proxied,
            ..Self::default()
        };
        for (zone, resolvers) in routes.unwrap_or_default() {
            let Ok(name) = DnsName::parse_query(&zone) else {
                dns.unreadable_zones.push(zone);
                continue;
            };
            let resolvers = resolvers.unwrap_or_default();
            dns.routes
                .insert(name, resolvers.into_iter().map(Into::into).collect());
        }
        dns
    }
}

impl From<ResolverReply> for TailnetResolver {
    fn from(reply: ResolverReply) -> Self {
        let ResolverReply { addr } = reply;
        if let Ok(address) = addr.parse::<IpAddr>() {
            return Self::Plain(SocketAddr::new(address, 53));
        }
        addr.parse().map_or(Self::Other(addr), Self::Plain)
    }
}
