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

#[tokio::test]
async fn a_query_that_causes_a_panic_on_its_way_to_upstreams_is_servfail() {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
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
    let mut desk = Desk {
        replies: Replies::new(false),
        rotation: 0,
        express: None,
    };
    let origin = Origin {
        peer: SockaddrIn::new(127, 0, 0, 1, client.local_addr().unwrap().port()),
        local: Local::Bound,
    };
    let waiting = udp
        .waiting(&handler.zone(), &query(7, "1.example.com"), origin, 0)
        .unwrap();
    assert_eq!(handler.metrics().snapshot().in_flight, 1);
    udp.land(&mut vec![Landed::Broken(waiting)], &mut desk);
    udp.flush(&mut desk.replies);
    let mut reply = [0; 512];
    let length = client.recv(&mut reply).unwrap();
    assert_eq!((reply[..2].to_vec(), reply[3] & 0x0f), (vec![0, 7], 2));
    assert_eq!(length, 12);
    let counts = handler.metrics().snapshot();
    assert_eq!((counts.panics, counts.in_flight), (1, 0));
    assert_eq!(udp.permits.available_permits(), 1);
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
