//! UDP on real sockets, and binding.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tsunaro_dns::answer::ZoneKind;
use tsunaro_dns::forwarding::ClientTransport;
use tsunaro_dns::metrics::DnsMetrics;
use tsunaro_dns::server::{BindError, BindErrors, Limits, Server};
use tsunaro_dns::wire::Rcode;
use tsunaro_model::hosts::{HostEntry, Hosts};

use crate::fixture::{config, hosts, w1, world};
use crate::loopback::{Running, Script, exchange, receive, serve, udp_client, until};
use crate::message::rtype::{A, TXT};
use crate::message::{ask, assert_mirrors, line};

const WEB: &str = "NOERROR aa: [web.Z 30 A 192.0.2.10]";

#[tokio::test]
async fn rule_71_replies_leave_from_the_address_that_was_asked() {
    // Connected sockets take a reply from that very address only.
    for (listener, clients) in [
        ("0.0.0.0:0", vec!["127.0.0.1", "127.0.0.2", "127.8.9.10"]),
        ("[::]:0", vec!["::1", "127.0.0.2", "127.0.0.3"]),
        ("127.0.0.2:0", vec!["127.0.0.2"]),
        ("[::1]:0", vec!["::1"]),
    ] {
        let server = serve(listener, Limits::default());
        for client in clients {
            let socket = udp_client(server.at(client)).await;
            for (query, expected) in [
                (ask("web.Z", A), WEB),
                (ask("fwd.E", A), "NOERROR ra: [fwd.E 20 A 198.51.100.7]"),
            ] {
                let reply = exchange(&socket, &query.octets()).await;
                assert_mirrors(&query, &reply);
                assert_eq!(line(&reply), expected, "{listener} asked at {client}");
            }
        }
    }
}

#[tokio::test]
async fn rule_5_a_swapped_snapshot_answers_the_next_query_and_no_socket_closes() {
    let server = serve("127.0.0.1:0", Limits::default());
    let socket = udp_client(server.address).await;
    assert_eq!(
        line(&exchange(&socket, &ask("web.Z", A).octets()).await),
        WEB
    );
    let mut entries: Vec<HostEntry> = hosts().entries.iter().collect();
    entries[0].address = "192.0.2.99".parse().unwrap();
    let hosts = Hosts {
        entries: entries.into_iter().collect(),
        ..Hosts::default()
    };
    server.zone.store(world(&config(true), &hosts).0);
    let reply = exchange(&socket, &ask("web.Z", A).octets()).await;
    assert_eq!(line(&reply), "NOERROR aa: [web.Z 30 A 192.0.2.99]");
}

#[tokio::test]
async fn rule_36_successive_replies_start_with_different_records() {
    let server = serve("127.0.0.1:0", Limits::default());
    let socket = udp_client(server.address).await;
    let mut firsts = BTreeSet::new();
    for _ in 0..3 {
        let reply = exchange(&socket, &ask("multi.Z", A).octets()).await;
        firsts.insert(line(&reply));
    }
    assert_eq!(firsts.len(), 3);
}

#[tokio::test]
async fn rule_59_local_answers_do_not_wait_for_dead_upstreams() {
    let server = serve("127.0.0.1:0", Limits::default());
    let socket = udp_client(server.address).await;
    for id in 0..50 {
        socket
            .send(&ask("slow.E", TXT).id(id).octets())
            .await
            .unwrap();
    }
    server.until_waiting(50).await;
    let start = Instant::now();
    for id in 100..200 {
        let reply = exchange(&socket, &ask("web.Z", A).id(id).octets()).await;
        assert_eq!(reply[..2], id.to_be_bytes());
    }
    // The contract says 10 ms each; the machine may be busy.
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?} for 100 queries",
        start.elapsed()
    );
}

#[tokio::test]
async fn rule_76_queries_beyond_the_limit_are_dropped_and_counted() {
    let server = serve(
        "127.0.0.1:0",
        Limits {
            udp_waiting: 3,
            ..Limits::default()
        },
    );
    let socket = udp_client(server.address).await;
    for id in 0..10 {
        socket
            .send(&ask("slow.E", A).id(id).octets())
            .await
            .unwrap();
    }
    until(|| server.metrics.snapshot().dropped_overload == 7).await;
    assert_eq!(
        line(&exchange(&socket, &ask("web.Z", A).id(77).octets()).await),
        WEB
    );
    server.upstream.gate.add_permits(3);
    let mut ids: Vec<u16> = vec![];
    for _ in 0..3 {
        let reply = receive(&socket).await;
        ids.push(u16::from_be_bytes([reply[0], reply[1]]));
    }
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2]);
    server.until_waiting(0).await;
    let reply = exchange(&socket, &ask("fwd.E", A).octets()).await;
    assert!(line(&reply).starts_with("NOERROR ra:"), "room again");
}

#[tokio::test]
async fn rule_78_a_panic_is_a_servfail_and_the_process_lives() {
    let server = serve("127.0.0.1:0", Limits::default());
    let socket = udp_client(server.address).await;
    let query = ask("panic.E", A);
    let reply = exchange(&socket, &query.octets()).await;
    assert_mirrors(&query, &reply);
    assert!(line(&reply).starts_with("SERVFAIL"));
    assert_eq!(server.metrics.snapshot().panics, 1);
    assert_eq!(
        line(&exchange(&socket, &ask("web.Z", A).octets()).await),
        WEB
    );
}

#[tokio::test]
async fn rule_1_responses_and_scraps_get_no_reply_at_all() {
    let server = serve("127.0.0.1:0", Limits::default());
    let socket = udp_client(server.address).await;
    socket
        .send(&ask("web.Z", A).id(1).bits(0x8100).octets())
        .await
        .unwrap();
    socket.send(&[0; 11]).await.unwrap();
    socket.send(&[]).await.unwrap();
    // Datagrams on loopback keep their order: the first reply is to the fourth.
    let reply = exchange(&socket, &ask("web.Z", A).id(4).octets()).await;
    assert_eq!(reply[..2], [0, 4]);
    assert_eq!(server.metrics.snapshot().dropped_malformed, 3);
}

#[tokio::test]
async fn rule_62_a_datagram_larger_than_any_query_is_formerr() {
    let server = serve("127.0.0.1:0", Limits::default());
    let socket = udp_client(server.address).await;
    let padded = ask("web.Z", A).with(|opt| opt.options = crate::message::option(12, &[0; 20_000]));
    assert_eq!(line(&exchange(&socket, &padded.octets()).await), "FORMERR:");
}

#[tokio::test]
async fn answers_from_the_forwarders_cache_need_no_task() {
    let server = serve(
        "127.0.0.1:0",
        Limits {
            udp_waiting: 0,
            ..Limits::default()
        },
    );
    let socket = udp_client(server.address).await;
    let reply = exchange(&socket, &ask("cached.E", A).octets()).await;
    assert_eq!(line(&reply), "NOERROR ra: [cached.E 20 A 198.51.100.8]");
    assert_eq!(server.upstream.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn rule_82_counters_tell_zones_and_codes_and_no_names() {
    let server = serve("127.0.0.1:0", Limits::default());
    let socket = udp_client(server.address).await;
    for (text, times) in [
        ("web.Z", 3),
        ("x.web.Z", 2),
        ("fwd.E", 2),
        ("example.org", 1),
        ("many.Z", 1),
    ] {
        for _ in 0..times {
            exchange(&socket, &ask(text, A).octets()).await;
        }
    }
    let counts = server.metrics.snapshot();
    let expected = [
        (ZoneKind::Primary, Rcode::NoError, 4),
        (ZoneKind::Primary, Rcode::NxDomain, 2),
        (ZoneKind::Extra, Rcode::NoError, 2),
        (ZoneKind::None, Rcode::Refused, 1),
    ];
    assert_eq!(counts.replies, expected);
    assert_eq!(
        (
            counts.udp_queries,
            counts.tcp_queries,
            counts.truncated,
            counts.in_flight
        ),
        (9, 0, 1, 0)
    );
}

fn bind(listeners: &[SocketAddr]) -> Result<Server<Script>, BindErrors> {
    let upstream = Script {
        gate: tokio::sync::Semaphore::new(0),
        asked: 0.into(),
    };
    let zone = Arc::new(ArcSwap::new(w1().0));
    Server::bind(
        listeners,
        zone,
        Arc::new(upstream),
        Arc::new(DnsMetrics::default()),
        Limits::default(),
    )
}

#[tokio::test]
async fn every_address_that_cannot_be_bound_is_named_with_the_fix() {
    let taken: Running = serve("127.0.0.1:0", Limits::default());
    let foreign: SocketAddr = "192.0.2.1:53535".parse().unwrap();
    let errors = bind(&[taken.address, "127.0.0.1:0".parse().unwrap(), foreign]).unwrap_err();
    let failed: Vec<_> = errors
        .0
        .iter()
        .map(|error| (error.address, error.transport, error.source.kind()))
        .collect();
    let in_use = io::ErrorKind::AddrInUse;
    let not_here = io::ErrorKind::AddrNotAvailable;
    assert_eq!(
        failed,
        [
            (taken.address, ClientTransport::Udp, in_use),
            (taken.address, ClientTransport::Tcp, in_use),
            (foreign, ClientTransport::Udp, not_here),
            (foreign, ClientTransport::Tcp, not_here),
        ]
    );
    let text = errors.to_string();
    assert_eq!(text.lines().count(), 4);
    assert!(
        text.contains("another process listens there")
            && text.contains("no interface has this address")
    );
}

#[test]
fn a_forbidden_port_names_the_sysctl() {
    let error = BindError {
        address: "0.0.0.0:53".parse().unwrap(),
        transport: ClientTransport::Udp,
        source: io::ErrorKind::PermissionDenied.into(),
    };
    assert!(
        error
            .to_string()
            .contains("net.ipv4.ip_unprivileged_port_start=0"),
        "{error}"
    );
    let source = io::Error::from_raw_os_error(nix::libc::EAFNOSUPPORT);
    let error = BindError {
        address: "[::]:53".parse().unwrap(),
        source,
        ..error
    };
    assert!(error.to_string().contains("no IPv6"), "{error}");
}

#[tokio::test]
async fn both_wildcard_addresses_may_be_listed_with_one_port() {
    // A port that was free a moment ago may be taken by another test: try some.
    for _ in 0..20 {
        let port = bind(&["0.0.0.0:0".parse().unwrap()]).unwrap().addresses()[0].port();
        let both = [
            SocketAddr::from(([0; 4], port)),
            SocketAddr::from(([0u16; 8], port)),
        ];
        if let Ok(server) = bind(&both) {
            assert_eq!(server.addresses(), both);
            return;
        }
    }
    panic!("0.0.0.0 and [::] could never be bound together");
}
