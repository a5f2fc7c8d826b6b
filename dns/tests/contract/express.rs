//! Questions that a serving thread asks upstreams itself come to what they come to in tasks: the
//! same server is tried with and without that means.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tsunaro_dns::forward::{ForwardConfig, ForwardCounts, Forwarder};
use tsunaro_dns::forwarding::{CachedWire, Failure, Forwarded, Question, Resolve};
use tsunaro_dns::metrics::DnsMetrics;
use tsunaro_dns::server::{Limits, Server};
use tsunaro_model::name::DnsName;

use crate::fixture::{a, cname, soa, w0};
use crate::loopback::{exchange, receive, udp_client, until};
use crate::message::rtype::A as TYPE_A;
use crate::message::{Ask, ask, decode, line, name};
use crate::mock_upstream::{Behaviour, MockUpstream, Script, Tcp, closed_port};

const FIRST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const SECOND: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 8);

/// Asks in tasks, always.
struct InTasks(Forwarder);

impl Resolve for InTasks {
    fn resolve_from_cache(&self, question: &Question) -> Option<Result<Forwarded, Failure>> {
        self.0.resolve_from_cache(question)
    }

    fn find_wire(&self, key: &[u8], question: &[u8]) -> Option<CachedWire> {
        Resolve::find_wire(&self.0, key, question)
    }

    async fn resolve(&self, zone: &DnsName, question: &Question) -> Result<Forwarded, Failure> {
        self.0.resolve(zone, question).await
    }
}

struct Running {
    address: SocketAddr,
    forwarder: Forwarder,
    metrics: Arc<DnsMetrics>,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

fn serve(upstreams: &[SocketAddr], express: bool) -> Running {
    let config = ForwardConfig {
        primary: name("Z"),
        zones: vec![(name("E"), upstreams.to_vec())],
    };
    let forwarder = Forwarder::new(&config);
    if express {
        serve_with(Arc::new(forwarder.clone()), forwarder)
    } else {
        serve_with(Arc::new(InTasks(forwarder.clone())), forwarder)
    }
}

fn serve_with<R: Resolve>(resolver: Arc<R>, forwarder: Forwarder) -> Running {
    let metrics = Arc::new(DnsMetrics::default());
    let limits = Limits {
        udp_workers: 1,
        ..Limits::default()
    };
    let server = Server::bind(
        &["127.0.0.1:0".parse().unwrap()],
        Arc::new(ArcSwap::new(w0().0)),
        resolver,
        Arc::clone(&metrics),
        limits,
    )
    .unwrap();
    let address = server.addresses()[0];
    let stop = CancellationToken::new();
    let (mut serving, stopped) = (JoinSet::new(), stop.clone());
    serving.spawn(async move { server.run(stopped).await.unwrap() });
    Running {
        address,
        forwarder,
        metrics,
        stop,
        serving,
    }
}

impl Running {
    fn counts(&self) -> ForwardCounts {
        self.forwarder.metrics().snapshot()
    }
}

/// What an upstream makes of the kind that the first label names.
fn script() -> Script {
    Arc::new(|query: &Message| {
        let question = query.queries.first()?;
        let owner = question.name().clone();
        let first = owner.iter().next()?;
        let label = String::from_utf8_lossy(first).to_ascii_lowercase();
        let kind = label.split('-').next()?.to_owned();
        let mut reply = query.clone();
        reply.metadata.message_type = MessageType::Response;
        reply.metadata.recursion_available = true;
        reply.metadata.authentic_data = kind == "secure";
        let address = |last: u8, ttl| {
            let data = RData::A(A(Ipv4Addr::new(198, 51, 100, last)));
            Record::from_rdata(owner.clone(), ttl, data)
        };
        let set = |count: u8, ttl| (0..count).map(|last| address(last, ttl)).collect();
        match kind.as_str() {
            "one" | "secure" => reply.answers = set(1, 20),
            "some" => reply.answers = set(7, 3600),
            "many" => reply.answers = set(60, 20),
            "zero" => reply.answers = set(2, 0),
            "alias" => {
                let mut link = cname("x.E", "target.E");
                link.name = owner.clone();
                reply.answers = vec![link, a("target.E", "198.51.100.9")];
            }
            "entering" => {
                let mut link = cname("x.E", "web.Z");
                link.name = owner.clone();
                reply.answers = vec![link];
            }
            "nx" => {
                reply.metadata.response_code = ResponseCode::NXDomain;
                reply.authorities = vec![soa("E")];
            }
            "nxnosoa" => reply.metadata.response_code = ResponseCode::NXDomain,
            "nodata" => reply.authorities = vec![soa("E")],
            "junk" => {
                reply.answers = vec![address(5, 20), a("evil.E", "203.0.113.66")];
                reply.authorities = vec![a("evil.E", "203.0.113.66")];
                reply.additionals = vec![a("evil.E", "203.0.113.66")];
            }
            "contradiction" => {
                reply.metadata.response_code = ResponseCode::NXDomain;
                reply.answers = set(1, 20);
            }
            "foreign" => reply.answers = vec![a("evil.E", "203.0.113.66")],
            "refused" => reply.metadata.response_code = ResponseCode::Refused,
            "servfail" => reply.metadata.response_code = ResponseCode::ServFail,
            _ => return None,
        }
        Some(reply)
    })
}

const KINDS: [&str; 15] = [
    "one",
    "secure",
    "some",
    "many",
    "zero",
    "alias",
    "entering",
    "nx",
    "nxnosoa",
    "nodata",
    "junk",
    "contradiction",
    "foreign",
    "refused",
    "servfail",
];

/// Queries for one kind: with and without EDNS, all bits, mixed case.
fn queries(kind: &str, number: usize) -> Ask {
    let text = format!("{kind}-{number}.E");
    let text = match number % 2 {
        0 => text,
        _ => format!("{}.E", text.trim_end_matches(".E").to_uppercase()),
    };
    let bits = [0x0100, 0x0000, 0x0110, 0x0120, 0x0130, 0x0020][number % 6];
    let query = ask(&text, TYPE_A)
        .id(u16::try_from(number * 31).unwrap())
        .bits(bits);
    match number % 4 {
        0 => query,
        1 => query.plain(),
        2 => query.with(|opt| opt.size = 600),
        _ => query.with(|opt| opt.flags = 0x8000),
    }
}

#[tokio::test]
async fn a_thread_passes_on_octet_by_octet_what_tasks_pass_on() {
    let upstream = MockUpstream::start([127, 0, 0, 1].into(), Behaviour::Custom(script()))
        .await
        .unwrap();
    let (express, tasks) = (
        serve(&[upstream.address()], true),
        serve(&[upstream.address()], false),
    );
    let (one, other) = (
        udp_client(express.address).await,
        udp_client(tasks.address).await,
    );
    for kind in KINDS {
        for number in 0..12 {
            let query = queries(kind, number);
            let octets = query.octets();
            let replies = [
                exchange(&one, &octets).await,
                exchange(&other, &octets).await,
            ];
            assert_eq!(
                line(&replies[0]),
                line(&replies[1]),
                "{kind} {number}: {query:?}"
            );
            assert_eq!(replies[0], replies[1], "{kind} {number}");
        }
    }
    assert_eq!(express.counts(), tasks.counts());
    assert_eq!(express.forwarder.cached(), tasks.forwarder.cached());
    assert_eq!(
        express.metrics.snapshot().replies,
        tasks.metrics.snapshot().replies
    );
    for server in [&express, &tasks] {
        until(|| server.forwarder.in_flight() == 0).await;
        let report = server.forwarder.upstreams();
        assert_eq!(report[0].queries, 12 * KINDS.len() as u64);
        assert!(report[0].smoothed_rtt.is_some());
    }
    // TC that the client saw, and what one upstream fails, is the same in both.
    let failures = |server: &Running| server.forwarder.upstreams()[0].failures;
    assert_eq!(failures(&express), failures(&tasks));
}

#[tokio::test]
async fn what_an_upstream_does_wrong_is_borne_as_in_tasks() {
    let wrong = [
        ("silent", Behaviour::Silent, SECOND),
        (
            "servfail",
            Behaviour::Rcode(ResponseCode::ServFail, None),
            SECOND,
        ),
        (
            "refused",
            Behaviour::Rcode(ResponseCode::Refused, None),
            SECOND,
        ),
        ("forged", Behaviour::ForgeriesFirst(FIRST), FIRST),
        ("flood", Behaviour::Flood(100, FIRST), FIRST),
        ("broken", Behaviour::Broken, SECOND),
        (
            "late",
            Behaviour::After(
                Duration::from_millis(300),
                Box::new(Behaviour::Answer(FIRST)),
            ),
            SECOND,
        ),
    ];
    for (what, behaviour, from) in wrong {
        let first = MockUpstream::start([127, 0, 0, 1].into(), behaviour)
            .await
            .unwrap();
        let second = MockUpstream::start([127, 0, 0, 1].into(), Behaviour::Answer(SECOND))
            .await
            .unwrap();
        for express in [true, false] {
            let server = serve(&[first.address(), second.address()], express);
            let client = udp_client(server.address).await;
            let asked = Instant::now();
            let reply = exchange(&client, &ask("host.E", TYPE_A).octets()).await;
            assert!(
                line(&reply).ends_with(&format!(" A {from}]")),
                "{what}, {express}: {}",
                line(&reply)
            );
            assert!(asked.elapsed() < Duration::from_secs(5), "{what}");
            let counts = server.counts();
            assert_eq!(
                (counts.questions, counts.asked, counts.joined),
                (1, 1, 0),
                "{what}, {express}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_too_big_for_udp_is_had_over_tcp_as_in_tasks() {
    for tcp in [Tcp::Served, Tcp::Refused] {
        let upstream =
            MockUpstream::start_with([127, 0, 0, 1].into(), tcp, Behaviour::TooBigForUdp(90))
                .await
                .unwrap();
        let mut lines = Vec::new();
        for express in [true, false] {
            let server = serve(&[upstream.address()], express);
            let client = udp_client(server.address).await;
            let reply = exchange(&client, &ask("host.E", TYPE_A).octets()).await;
            assert!(decode(&reply).metadata.truncation, "{tcp:?}, {express}");
            lines.push(line(&reply));
            assert_eq!(server.counts().tcp_queries, 1);
        }
        assert_eq!(lines[0], lines[1]);
    }
}

#[tokio::test]
async fn a_closed_port_sends_the_question_to_the_next_upstream() {
    let closed = closed_port([127, 0, 0, 1].into()).await.unwrap();
    let second = MockUpstream::start([127, 0, 0, 1].into(), Behaviour::Answer(SECOND))
        .await
        .unwrap();
    let server = serve(&[closed, second.address()], true);
    let client = udp_client(server.address).await;
    for number in 0..5 {
        let query = ask(&format!("host{number}.E"), TYPE_A);
        let reply = exchange(&client, &query.octets()).await;
        assert!(
            line(&reply).ends_with(&format!(" A {SECOND}]")),
            "{}",
            line(&reply)
        );
    }
    let report = server.forwarder.upstreams();
    assert_eq!((report[0].up, report[1].up), (false, true));
    assert_eq!(server.counts().questions, 5);
}

#[tokio::test]
async fn ids_and_ports_of_a_thread_cannot_be_foreseen() {
    let upstream = MockUpstream::start([127, 0, 0, 1].into(), Behaviour::Answer(FIRST))
        .await
        .unwrap();
    let server = serve(&[upstream.address()], true);
    let client = udp_client(server.address).await;
    for number in 0..2000 {
        let query = ask(&format!("host{number}.E"), TYPE_A).octets();
        exchange(&client, &query).await;
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), 2000);
    let ids: HashSet<u16> = seen.iter().map(|seen| seen.query.metadata.id).collect();
    let ports: Vec<u16> = seen.iter().map(|seen| seen.from.port()).collect();
    let distinct: HashSet<u16> = ports.iter().copied().collect();
    // 2000 of 65536 collide about 30 times.
    assert!(ids.len() > 1900, "{} ids", ids.len());
    // Each of the first 64 has a port of its own, and a port serves 64 questions at most.
    assert_eq!(ports[..64].iter().collect::<HashSet<_>>().len(), 64);
    assert!(distinct.len() >= 64, "{} ports", distinct.len());
    for port in distinct {
        assert!(ports.iter().filter(|other| **other == port).count() <= 64);
    }
    let repeated = ports[64..]
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .count();
    // One in 64 by chance.
    assert!(repeated < 150, "{repeated} times the same port again");
}

#[tokio::test]
async fn one_question_of_many_clients_is_asked_once() {
    let late = Behaviour::After(
        Duration::from_millis(100),
        Box::new(Behaviour::Answer(FIRST)),
    );
    let upstream = MockUpstream::start([127, 0, 0, 1].into(), late)
        .await
        .unwrap();
    let server = serve(&[upstream.address()], true);
    let client = udp_client(server.address).await;
    for id in 0..20 {
        client
            .send(&ask("host.E", TYPE_A).id(id).octets())
            .await
            .unwrap();
    }
    let mut ids = HashSet::new();
    for _ in 0..20 {
        let reply = receive(&client).await;
        ids.insert(reply[..2].to_vec());
        assert!(line(&reply).ends_with(&format!(" A {FIRST}]")));
    }
    assert_eq!((ids.len(), upstream.seen().len()), (20, 1));
    let counts = server.counts();
    assert_eq!(
        counts.questions,
        counts.asked + counts.joined + counts.cache_hits
    );
}

#[tokio::test]
async fn what_a_thread_has_in_flight_is_answered_after_a_stop() {
    let late = Behaviour::After(
        Duration::from_millis(300),
        Box::new(Behaviour::Answer(FIRST)),
    );
    let upstream = MockUpstream::start([127, 0, 0, 1].into(), late)
        .await
        .unwrap();
    let mut server = serve(&[upstream.address()], true);
    let client = udp_client(server.address).await;
    client.send(&ask("host.E", TYPE_A).octets()).await.unwrap();
    until(|| server.metrics.snapshot().in_flight == 1 && upstream.seen().len() == 1).await;
    server.stop.cancel();
    assert!(line(&receive(&client).await).ends_with(&format!(" A {FIRST}]")));
    server.serving.join_next().await.unwrap().unwrap();
    assert_eq!(server.metrics.snapshot().in_flight, 0);
    assert_eq!(upstream.seen().len(), 1, "it was not asked again");
}

#[tokio::test]
async fn local_names_are_answered_while_upstreams_are_asked() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let server = serve(&[silent.local_addr().unwrap()], true);
    let client = udp_client(server.address).await;
    for number in 0..50u16 {
        let query = ask(&format!("host{number}.E"), TYPE_A).id(number);
        client.send(&query.octets()).await.unwrap();
        let local = exchange(&client, &ask("web.Z", TYPE_A).id(1000 + number).octets()).await;
        assert_eq!(local[..2], (1000 + number).to_be_bytes());
        assert_eq!(line(&local), "NOERROR aa: [web.Z 30 A 192.0.2.10]");
    }
    for _ in 0..50 {
        assert_eq!(line(&receive(&client).await), "SERVFAIL ra: ede 22");
    }
    let counts = server.counts();
    assert_eq!((counts.asked, counts.timeouts), (50, 50));
    assert_eq!(server.metrics.snapshot().in_flight, 0);
}
