//! Deadlines and rules on a paused clock; real sockets are in the crate's `tests/`.

mod caching;
mod net;
mod sharing;
mod timing;

use hickory_proto::rr::{RData, Record, RecordType};

use super::fixtures::{a, dns_name, primary, question};
use super::*;
use net::{Net, Play, Reply, Seen};

fn u1() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 53))
}

fn u2() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 53))
}

fn zone() -> DnsName {
    dns_name("corp.example")
}

fn config(upstreams: &[SocketAddr]) -> ForwardConfig {
    ForwardConfig {
        primary: primary(),
        zones: vec![(zone(), upstreams.to_vec())],
    }
}

fn forwarder(net: &Net, upstreams: &[SocketAddr]) -> Forwarder<Net> {
    Forwarder::with_transport(&config(upstreams), net.clone())
}

/// An answer with one address, for whatever name is asked, after `milliseconds`.
fn answer(milliseconds: u64, last: u8) -> Play {
    Play::After(milliseconds, Reply::Address(last))
}

fn address(ttl: u32, last: u8) -> Record {
    a("www.corp.example.", ttl, [198, 51, 100, last])
}

fn www() -> Question {
    question("www.corp.example.", RecordType::A)
}

/// The last octets of the addresses in an answer.
fn addresses(forwarded: &Forwarded) -> Vec<u8> {
    let octet = |record: &Record| match &record.data {
        RData::A(address) => Some(address.0.octets()[3]),
        _ => None,
    };
    forwarded.answer.iter().filter_map(octet).collect()
}

fn udp(at: u64, upstream: SocketAddr) -> Seen {
    Seen {
        at,
        upstream,
        tcp: false,
    }
}

async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Resolves [`www`] and tells how many milliseconds that took.
async fn timed(
    forwarder: &Forwarder<Net>,
    question: &Question,
) -> (Result<Forwarded, Failure>, u128) {
    let started = tokio::time::Instant::now();
    let result = forwarder.resolve(&zone(), question).await;
    (result, started.elapsed().as_millis())
}
