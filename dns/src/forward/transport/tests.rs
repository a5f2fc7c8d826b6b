use std::collections::HashSet;

use super::*;

async fn upstream() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn port(lease: &Lease) -> u16 {
    lease.socket().unwrap().local_addr().unwrap().port()
}

// Holds rule 47.
#[tokio::test]
async fn rule_47_ports_are_new_until_there_are_64_to_choose_from_and_old_ones_go() {
    let (_upstream, address) = upstream().await;
    let sockets = Sockets::default();
    let mut ports = HashSet::new();
    for _ in 0..POOL {
        let lease = sockets.open(address).await.unwrap();
        ports.insert(port(&lease));
        lease.release();
    }
    assert_eq!(ports.len(), POOL);
    let mut again = HashSet::new();
    for _ in 0..40 {
        let lease = sockets.open(address).await.unwrap();
        assert!(ports.contains(&port(&lease)));
        again.insert(port(&lease));
        lease.release();
    }
    assert!(again.len() > 15, "{} ports of {POOL}", again.len());
    assert!(sockets.take(address, Instant::now() + MAX_AGE).is_none());
    assert!(
        lock(&sockets.pools).is_empty(),
        "nothing is left of old sockets"
    );
}

#[tokio::test]
async fn a_socket_serves_64_queries_and_no_more() {
    let (_upstream, address) = upstream().await;
    let sockets = Sockets::default();
    for _ in 0..POOL {
        sockets.open(address).await.unwrap().release();
    }
    let opened = |sockets: &Sockets| lock(&sockets.pools)[&address].open;
    let mut ports = HashSet::new();
    // As many as all of them have left, and one more.
    for _ in 0..=POOL * (usize::try_from(MAX_USES).unwrap() - 1) {
        let lease = sockets.open(address).await.unwrap();
        ports.insert(port(&lease));
        lease.release();
        assert!(opened(&sockets) <= POOL);
    }
    assert!(ports.len() > POOL, "{} ports", ports.len());
}

#[tokio::test]
async fn an_exchange_without_a_reply_takes_its_socket_with_it() {
    let (_upstream, address) = upstream().await;
    let sockets = Sockets::default();
    drop(sockets.open(address).await.unwrap());
    assert_eq!(lock(&sockets.pools)[&address].open, 0);
    let lease = sockets.open(address).await.unwrap();
    assert_eq!(lock(&sockets.pools)[&address].open, 1);
    lease.release();
    assert_eq!(lock(&sockets.pools)[&address].idle.len(), 1);
}
