//! What unit tests of the listeners share: a small zone and upstreams that wait.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tsunaro_model::config::{DnsConfig, ExtraZoneConfig};
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::{HostsInput, Snapshot};

use super::handler::Handler;
use crate::forwarding::{Failure, Forwarded, Question, Resolve};
use crate::metrics::DnsMetrics;

/// Fails after as many seconds as the first label says; a label that is no number panics.
pub(super) struct Sleepy;

impl Resolve for Sleepy {
    fn resolve_from_cache(&self, _: &Question) -> Option<Result<Forwarded, Failure>> {
        None
    }

    fn resolve(
        &self,
        _: &DnsName,
        question: &Question,
    ) -> impl Future<Output = Result<Forwarded, Failure>> + Send {
        let label = question
            .name
            .iter()
            .next()
            .map(|label| String::from_utf8_lossy(label).into_owned());
        async move {
            let seconds: f64 = label.unwrap().parse().expect("a number of seconds");
            tokio::time::sleep(Duration::from_secs_f64(seconds / 1000.0)).await;
            Err(Failure::Network)
        }
    }
}

/// Zone `example.internal`, extra zone `example.com` behind [`Sleepy`], in milliseconds.
pub(super) fn handler() -> Arc<Handler<Sleepy>> {
    let name = |text| DnsName::parse_host(text).unwrap();
    let config = DnsConfig {
        zone: name("example.internal"),
        addresses: vec![],
        static_records: vec![],
        wildcard_address: Some("192.0.2.200".parse().unwrap()),
        extra_zones: vec![ExtraZoneConfig {
            zone: name("example.com"),
            upstreams: vec!["198.51.100.53:53".parse().unwrap()],
        }],
        ttl: 30,
        negative_ttl: 5,
    };
    let (snapshot, _) = Snapshot::build(&config, HostsInput::NotConfigured, 1, 1);
    let zone = Arc::new(ArcSwap::from_pointee(snapshot));
    Arc::new(Handler::new(
        zone,
        Arc::new(Sleepy),
        Arc::new(DnsMetrics::default()),
    ))
}

/// A query for A.
pub(super) fn query(id: u16, text: &str) -> Vec<u8> {
    let mut octets: Vec<u8> = [id, 0x0100, 1, 0, 0, 0]
        .into_iter()
        .flat_map(u16::to_be_bytes)
        .collect();
    octets.extend(DnsName::parse_host(text).unwrap().as_wire());
    octets.extend([0, 1, 0, 1]);
    octets
}
