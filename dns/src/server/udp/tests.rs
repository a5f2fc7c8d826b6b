use super::super::testing::{handler, query};
use super::packet::Local;
use super::*;

#[tokio::test]
async fn rule_77_a_datagram_from_port_0_is_dropped() {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let handler = handler();
    let permits = Arc::new(Semaphore::new(1));
    let udp = Udp {
        socket,
        handler: Arc::clone(&handler),
        tasks: Tasks::default(),
        permits,
    };
    let message = query(1, "x.example.internal");
    let peer = SocketAddr::from(([127, 0, 0, 1], 0));
    udp.handle(
        &message,
        Received {
            len: message.len(),
            peer,
            local: Local::Bound,
        },
    )
    .await;
    let counts = handler.metrics().snapshot();
    assert_eq!(
        (
            counts.dropped_malformed,
            counts.udp_queries,
            counts.send_errors
        ),
        (1, 0, 0)
    );
}

#[test]
fn errors_that_mean_a_useless_socket_are_told_from_those_that_pass() {
    for errno in [
        Errno::ECONNREFUSED,
        Errno::ENOBUFS,
        Errno::ENOMEM,
        Errno::ENETDOWN,
        Errno::EINTR,
    ] {
        assert!(!is_fatal(&errno.into()), "{errno}");
    }
    for errno in [Errno::EBADF, Errno::ENOTSOCK] {
        assert!(is_fatal(&errno.into()), "{errno}");
    }
}
