//! The functions that every query, and every new hosts file, goes through:
//! `cargo bench -p tsunaro-dns [FILTER]`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench that cannot be set up has nothing to measure"
)]

use std::hint::black_box;
use std::sync::{Arc, LazyLock};

use divan::Bencher;
use divan::counter::ItemsCount;
use hickory_proto::op::{Message, MessageType};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;
use tsunaro_dns::answer::{ZoneKind, answer};
use tsunaro_dns::fast;
use tsunaro_dns::forward::{ClientTransport, ForwardConfig, Forwarder, Question};
use tsunaro_dns::metrics::DnsMetrics;
use tsunaro_dns::query::{Incoming, parse};
use tsunaro_dns::wire::Rcode;
use tsunaro_model::config::{self, DnsConfig};
use tsunaro_model::hosts::Hosts;
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::{HostsInput, Snapshot};

const NAMES: usize = 10_000;
const CACHED: &str = "www.corp.example";

/// Kinds of questions: their names, and what is asked.
const KINDS: [(&str, &str, u8); 6] = [
    ("hit", "host0000007.bench.example", 1),
    ("missing", "x.host0000007.bench.example", 1),
    ("nodata", "host0000007.bench.example", 28),
    ("wildcard", "free.bench.example", 1),
    ("refused", "host0000007.example.org", 1),
    ("cached", CACHED, 1),
];

static ZONE: LazyLock<Arc<Snapshot>> = LazyLock::new(|| {
    let hosts = Hosts::parse(hosts_file(NAMES).as_bytes()).unwrap();
    let (zone, _) = Snapshot::build(&dns_config(), HostsInput::Read(&hosts), 1, 1);
    Arc::new(zone)
});

/// Keeps an answer to [`CACHED`] for half a minute, which is longer than any bench here takes.
static UPSTREAMS: LazyLock<Forwarder> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let upstream = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let apex = DnsName::parse_host("corp.example").unwrap();
        let forwarder = Forwarder::new(&ForwardConfig {
            primary: DnsName::parse_host("bench.example").unwrap(),
            zones: vec![(apex.clone(), vec![upstream.local_addr().unwrap()])],
        });
        let question = Question {
            name: Name::from_ascii(format!("{CACHED}.")).unwrap(),
            qtype: RecordType::A,
            dnssec_ok: false,
            checking_disabled: false,
            recursion_desired: true,
            authentic_data: false,
            transport: ClientTransport::Udp,
        };
        let (answered, ()) =
            tokio::join!(forwarder.resolve(&apex, &question), answer_one(&upstream));
        answered.unwrap();
        forwarder
    })
});

async fn answer_one(upstream: &UdpSocket) {
    let mut buffer = [0; 512];
    let (length, client) = upstream.recv_from(&mut buffer).await.unwrap();
    let mut message = Message::from_vec(&buffer[..length]).unwrap();
    message.metadata.message_type = MessageType::Response;
    let owner = message.queries[0].name().clone();
    let address = RData::A(A([192, 0, 2, 7].into()));
    message.add_answer(Record::from_rdata(owner, 3600, address));
    let octets = message.to_vec().unwrap();
    upstream.send_to(&octets, client).await.unwrap();
}

fn dns_config() -> DnsConfig {
    const CONFIG: &str = "{apiVersion: agent.tsunaro.io/v1alpha1, kind: GatewayConfig, \
        dns: {zone: bench.example, wildcardAddress: 192.0.2.200, \
        staticRecords: [{name: alias, target: host0000007}], \
        extraZones: [{zone: corp.example, upstreams: [\"192.0.2.53\"]}]}}";
    config::parse(CONFIG).config.unwrap().dns
}

fn hosts_file(names: usize) -> String {
    (0..names)
        .map(|number| format!("192.0.2.{} host{number:07}.bench.example\n", number % 256))
        .collect()
}

fn message(name: &str, qtype: u8) -> Vec<u8> {
    let mut octets = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    octets.extend(DnsName::parse_host(name).unwrap().as_wire());
    octets.extend([0, qtype, 0, 1]);
    octets
}

fn main() {
    divan::main();
}

/// From octets to octets, as a serving thread does it.
#[divan::bench(args = KINDS.map(|(kind, ..)| kind))]
fn answer_fast(bencher: Bencher<'_, '_>, kind: &str) {
    let (_, name, qtype) = KINDS.into_iter().find(|known| known.0 == kind).unwrap();
    let message = message(name, qtype);
    let (zone, upstreams) = (&*ZONE, &*UPSTREAMS);
    let mut out = [0; 1232];
    bencher.bench_local(|| {
        let fast = fast::answer(zone, upstreams, black_box(&message), 1, &mut out);
        fast.unwrap().length
    });
}

/// The same by way of the general path, which is the only one for aliases.
#[divan::bench(args = ["host0000007.bench.example", "alias.bench.example"])]
fn answer_general(bencher: Bencher<'_, '_>, name: &str) {
    let message = message(name, 1);
    bencher.bench_local(|| {
        let Incoming::Query(query) = parse(black_box(&message), ClientTransport::Udp) else {
            return None;
        };
        Some(answer(&ZONE, query, 1))
    });
}

/// A query's octets to its parts.
#[divan::bench]
fn parse_query(bencher: Bencher<'_, '_>) {
    let message = message("host0000007.bench.example", 1);
    bencher.bench_local(|| parse(black_box(&message), ClientTransport::Udp));
}

/// A name in the zone's table.
#[divan::bench(args = ["host0000007.bench.example", "x.host0000007.bench.example"])]
fn look_up(bencher: Bencher<'_, '_>, name: &str) {
    let name = DnsName::parse_host(name).unwrap();
    let zone = &*ZONE;
    bencher.bench_local(|| {
        zone.resolve_wire(black_box(name.as_wire()), 1)
            .chain
            .is_empty()
    });
}

/// What the server counts for one answer.
#[divan::bench]
fn count(bencher: Bencher<'_, '_>) {
    let metrics = DnsMetrics::default();
    let shard = metrics.add_shard();
    bencher.bench_local(|| {
        shard.query(black_box(ClientTransport::Udp));
        shard.replied(black_box(ZoneKind::Primary), black_box(Rcode::NoError));
    });
}

/// A hosts file's text to its entries.
#[divan::bench(args = [1000, 100_000], max_time = 1)]
fn parse_hosts(bencher: Bencher<'_, '_>, names: usize) {
    let text = hosts_file(names);
    bencher
        .counter(ItemsCount::new(names))
        .bench_local(|| Hosts::parse(black_box(text.as_bytes())));
}

/// Entries to a zone.
#[divan::bench(args = [1000, 100_000], max_time = 1)]
fn build_zone(bencher: Bencher<'_, '_>, names: usize) {
    let (config, hosts) = (
        dns_config(),
        Hosts::parse(hosts_file(names).as_bytes()).unwrap(),
    );
    bencher
        .counter(ItemsCount::new(names))
        .bench_local(|| Snapshot::build(&config, HostsInput::Read(black_box(&hosts)), 1, 1).0);
}
