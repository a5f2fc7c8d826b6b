//! TCP on real sockets. Deadlines are held by unit tests on a paused clock.

use std::collections::BTreeSet;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tsunaro_dns::server::Limits;

use crate::loopback::{exchange, read_frame, serve, tcp_exchange, udp_client, until};
use crate::message::rtype::A;
use crate::message::{ask, assert_mirrors, decode, line};

const WEB: &str = "NOERROR aa: [web.Z 30 A 192.0.2.10]";

#[tokio::test]
async fn rule_74_pipelined_queries_of_one_segment_are_all_answered() {
    let server = serve("127.0.0.1:0", Limits::default());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let batch: Vec<u8> = (0..20)
        .flat_map(|id| ask("web.Z", A).id(id).framed())
        .collect();
    stream.write_all(&batch).await.unwrap();
    let mut ids = BTreeSet::new();
    for _ in 0..20 {
        let reply = read_frame(&mut stream).await.unwrap();
        assert_eq!(line(&reply), WEB);
        ids.insert(u16::from_be_bytes([reply[0], reply[1]]));
    }
    assert_eq!(ids, (0..20).collect());
}

#[tokio::test]
async fn rule_74_a_slow_lookup_does_not_delay_a_local_one() {
    let server = serve("[::1]:0", Limits::default());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(&ask("slow.E", A).id(1).framed())
        .await
        .unwrap();
    server.until_waiting(1).await;
    assert_eq!(
        tcp_exchange(&mut stream, &ask("web.Z", A).id(2).framed()).await[..2],
        [0, 2]
    );
    server.upstream.gate.add_permits(1);
    let reply = read_frame(&mut stream).await.unwrap();
    assert_eq!(reply[..2], [0, 1]);
    assert_eq!(line(&reply), "NOERROR ra: [slow.E 20 A 198.51.100.7]");
}

#[tokio::test]
async fn rule_74_a_query_in_many_segments_is_answered() {
    let server = serve("127.0.0.1:0", Limits::default());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let query = ask("web.Z", A);
    for octet in query.framed() {
        stream.write_all(&[octet]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let reply = read_frame(&mut stream).await.unwrap();
    assert_mirrors(&query, &reply);
    assert_eq!(line(&reply), WEB);
}

#[tokio::test]
async fn rule_62_a_large_answer_comes_whole() {
    let server = serve("127.0.0.1:0", Limits::default());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let reply = tcp_exchange(&mut stream, &ask("many.Z", A).plain().framed()).await;
    let message = decode(&reply);
    assert_eq!(
        (message.answers.len(), message.metadata.truncation),
        (200, false)
    );
}

#[tokio::test]
async fn rule_75_half_closed_connections_get_their_replies_and_are_closed() {
    let server = serve("127.0.0.1:0", Limits::default());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let both = [
        ask("slow.E", A).id(1).framed(),
        ask("web.Z", A).id(2).framed(),
    ]
    .concat();
    stream.write_all(&both).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(read_frame(&mut stream).await.unwrap()[..2], [0, 2]);
    server.upstream.gate.add_permits(1);
    assert_eq!(read_frame(&mut stream).await.unwrap()[..2], [0, 1]);
    assert_eq!(read_frame(&mut stream).await, None);
    until(|| server.metrics.snapshot().tcp_connections == 0).await;
}

#[tokio::test]
async fn rule_75_malformed_frames_close_the_connection() {
    let server = serve("127.0.0.1:0", Limits::default());
    for bad in [[0, 0].as_slice(), &[0, 5, 1, 2, 3, 4, 5]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bad).await.unwrap();
        assert_eq!(read_frame(&mut stream).await, None);
    }
}

#[tokio::test]
async fn rule_1_a_response_over_tcp_is_dropped_and_the_connection_stays() {
    let server = serve("127.0.0.1:0", Limits::default());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(&ask("web.Z", A).id(1).bits(0x8100).framed())
        .await
        .unwrap();
    assert_eq!(
        tcp_exchange(&mut stream, &ask("web.Z", A).id(2).framed()).await[..2],
        [0, 2]
    );
}

#[tokio::test]
async fn rule_76_the_oldest_idle_connection_makes_room_for_a_new_one() {
    let server = serve(
        "127.0.0.1:0",
        Limits {
            tcp_connections: 4,
            ..Limits::default()
        },
    );
    let mut open = vec![];
    for id in 0..4 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        tcp_exchange(&mut stream, &ask("web.Z", A).id(id).framed()).await;
        open.push(stream);
    }
    // The first one is used again, so the second one is idle longest.
    tcp_exchange(&mut open[0], &ask("web.Z", A).framed()).await;
    let mut fresh = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(
        line(&tcp_exchange(&mut fresh, &ask("web.Z", A).framed()).await),
        WEB
    );
    assert_eq!(read_frame(&mut open[1]).await, None);
    for index in [0, 2, 3] {
        assert_eq!(
            line(&tcp_exchange(&mut open[index], &ask("web.Z", A).framed()).await),
            WEB
        );
    }
    assert_eq!(server.metrics.snapshot().tcp_evicted, 1);
    until(|| server.metrics.snapshot().tcp_connections == 4).await;
}

#[tokio::test]
async fn rule_76_six_hundred_idle_connections_keep_nobody_out() {
    let server = serve("127.0.0.1:0", Limits::default());
    let mut idle = vec![];
    for _ in 0..600 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    let socket = udp_client(server.address).await;
    assert_eq!(
        line(&exchange(&socket, &ask("web.Z", A).octets()).await),
        WEB
    );
    let mut fresh = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(
        line(&tcp_exchange(&mut fresh, &ask("web.Z", A).framed()).await),
        WEB
    );
    assert!(
        server.metrics.snapshot().tcp_connections <= 513,
        "the evicted one may still be closing"
    );
}

#[tokio::test]
async fn rule_76_a_cap_per_client_is_off_by_default_and_works_when_set() {
    assert_eq!(Limits::default().tcp_per_client, None);
    assert_eq!(Limits::default().tcp_connections, 512);
    let server = serve(
        "127.0.0.1:0",
        Limits {
            tcp_per_client: Some(1),
            ..Limits::default()
        },
    );
    let mut first = TcpStream::connect(server.address).await.unwrap();
    tcp_exchange(&mut first, &ask("web.Z", A).framed()).await;
    let mut second = TcpStream::connect(server.address).await.unwrap();
    tcp_exchange(&mut second, &ask("web.Z", A).framed()).await;
    assert_eq!(
        read_frame(&mut first).await,
        None,
        "the client's own older one goes"
    );
}

#[tokio::test]
async fn rule_78_a_panic_over_tcp_leaves_the_connection_alone() {
    let server = serve("127.0.0.1:0", Limits::default());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let reply = tcp_exchange(&mut stream, &ask("panic.E", A).framed()).await;
    assert!(line(&reply).starts_with("SERVFAIL"));
    assert_eq!(
        line(&tcp_exchange(&mut stream, &ask("web.Z", A).framed()).await),
        WEB
    );
}
