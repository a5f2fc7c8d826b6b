//! Upstreams that turn out to be this gateway itself, by the addresses that the host has now.

use std::net::{IpAddr, SocketAddr};

use super::{Config, DnsConfig, ExtraZoneConfig};

/// One remark for each upstream that is an own address of this host, reached by a listener on all
/// addresses: each query would come back to us (rule 4 of the DNS contract). What is certain
/// without the host's addresses, [`super::Parsed::check_upstreams_against`] finds.
pub fn loops(config: &Config, listeners: &[SocketAddr], own: &[IpAddr]) -> Vec<String> {
    let DnsConfig { extra_zones, .. } = &config.dns;
    let mut remarks = Vec::new();
    for (index, ExtraZoneConfig { zone, upstreams }) in extra_zones.iter().enumerate() {
        for upstream in upstreams {
            let asked = upstream.ip().to_canonical();
            let listener = listeners
                .iter()
                .find(|listener| listener.port() == upstream.port() && takes(listener.ip(), asked));
            if let Some(listener) = listener.filter(|_| own.contains(&asked)) {
                remarks.push(format!(
                    "dns.extraZones[{index}].upstreams: {upstream} for {zone} is an address of this \
                     host, where this gateway listens on {listener}, so that its queries come back \
                     to it; name the DNS server that knows this zone"
                ));
            }
        }
    }
    remarks
}

/// A socket on all addresses of the family, or of both.
fn takes(listening: IpAddr, asked: IpAddr) -> bool {
    match listening {
        IpAddr::V4(v4) => v4.is_unspecified() && asked.is_ipv4(),
        IpAddr::V6(v6) => v6.is_unspecified(),
    }
}
