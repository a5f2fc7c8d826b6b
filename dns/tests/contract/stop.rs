//! Rule 80 as far as sockets go: a stop reads no more, finishes what is in flight, and returns.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tsunaro_dns::server::Limits;

use crate::loopback::{exchange, read_frame, receive, serve, tcp_exchange, udp_client};
use crate::message::rtype::A;
use crate::message::{ask, line};

#[tokio::test]
async fn rule_80_queries_in_flight_are_answered_after_the_stop() {
    let mut server = serve(
        "127.0.0.1:0",
        Limits {
            drain: Duration::from_secs(15),
            ..Limits::default()
        },
    );
    let socket = udp_client(server.address).await;
    socket.send(&ask("slow.E", A).id(1).octets()).await.unwrap();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(&ask("slow.E", A).id(2).framed())
        .await
        .unwrap();
    server.until_waiting(2).await;
    server.stop.cancel();
    server.upstream.gate.add_permits(2);
    let expected = "NOERROR ra: [slow.E 20 A 198.51.100.7]";
    assert_eq!(line(&receive(&socket).await), expected);
    assert_eq!(line(&read_frame(&mut stream).await.unwrap()), expected);
    assert_eq!(read_frame(&mut stream).await, None);
    server.ended().await.unwrap();
}

#[tokio::test]
async fn rule_80_what_the_kernel_took_in_before_the_stop_is_answered() {
    let mut server = serve("127.0.0.1:0", Limits::default());
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    // The server runs on this thread too: it sees the queries and the stop at the same time.
    for id in 0..100 {
        socket.send(&ask("web.Z", A).id(id).octets()).unwrap();
    }
    server.stop.cancel();
    server.ended().await.unwrap();
    socket.set_nonblocking(true).unwrap();
    for id in 0..100u16 {
        let mut reply = [0; 512];
        socket.recv(&mut reply).unwrap();
        assert_eq!(reply[..2], id.to_be_bytes());
    }
}

#[tokio::test]
async fn rule_80_a_stop_does_not_wait_beyond_its_deadline() {
    let mut server = serve(
        "127.0.0.1:0",
        Limits {
            drain: Duration::from_millis(100),
            ..Limits::default()
        },
    );
    let socket = udp_client(server.address).await;
    socket.send(&ask("slow.E", A).octets()).await.unwrap();
    server.until_waiting(1).await;
    let start = Instant::now();
    server.stop.cancel();
    server.ended().await.unwrap();
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(100) && took < Duration::from_millis(1500),
        "{took:?}"
    );
    server.until_waiting(0).await;
}

#[tokio::test]
async fn rule_80_idle_connections_are_closed_at_once_and_the_port_is_free_again() {
    let mut server = serve("127.0.0.1:0", Limits::default());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    tcp_exchange(&mut stream, &ask("web.Z", A).framed()).await;
    let start = Instant::now();
    server.stop.cancel();
    assert_eq!(read_frame(&mut stream).await, None);
    server.ended().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(2));
    let again = serve(&server.address.to_string(), Limits::default());
    let socket = udp_client(again.address).await;
    assert!(line(&exchange(&socket, &ask("web.Z", A).octets()).await).starts_with("NOERROR aa:"));
}
