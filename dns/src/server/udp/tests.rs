use super::super::testing::{handler, query};
use super::packet::Local;
use super::*;

#[tokio::test]
async fn rule_77_a_datagram_from_port_0_is_dropped() {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let handler = handler();
    let udp = Udp {
        socket,
        handler: Arc::clone(&handler),
        shard: handler.metrics().add_shard(),
        tasks: Tasks::default(),
        runtime: Handle::current(),
        permits: Arc::new(Semaphore::new(1)),
        stop: Arc::new(AtomicBool::new(false)),
        anywhere: false,
    };
    let message = query(1, "x.example.internal");
    let origin = |port| Origin {
        peer: SockaddrIn::new(127, 0, 0, 1, port),
        local: Local::Bound,
    };
    let mut desk = Desk {
        replies: Replies::new(false),
        rotation: 0,
        express: None,
    };
    udp.take(&handler.zone(), &message, origin(0), &mut desk);
    let counts = handler.metrics().snapshot();
    assert_eq!(
        (
            counts.dropped_malformed,
            counts.udp_queries,
            counts.send_errors
        ),
        (1, 0, 0)
    );
    udp.take(&handler.zone(), &message, origin(5353), &mut desk);
    assert_eq!(handler.metrics().snapshot().udp_queries, 1);
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
