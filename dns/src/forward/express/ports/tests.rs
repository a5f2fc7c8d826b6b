use std::collections::HashSet;

use super::*;

struct Upstream {
    socket: UdpSocket,
    address: SocketAddr,
}

fn upstream() -> Upstream {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    Upstream { socket, address }
}

fn local(ports: &mut Ports<()>, index: usize) -> SocketAddr {
    ports.get(index).unwrap().socket.local_addr().unwrap()
}

fn found(ports: &mut Ports<()>) -> Readable {
    let mut found = Readable::default();
    ports.wait(Duration::from_secs(5), &mut found).unwrap();
    found
}

#[test]
fn every_question_has_a_new_port_until_there_are_enough_to_choose_from() {
    let (upstream, now) = (upstream(), Instant::now());
    let mut ports = Ports::<()>::new().unwrap();
    let mut seen = HashSet::new();
    for _ in 0..POOL {
        let index = ports.take(upstream.address, now).unwrap();
        assert!(seen.insert(local(&mut ports, index)));
        ports.release(index);
    }
    let mut chosen = HashSet::new();
    for _ in 0..100 {
        let index = ports.take(upstream.address, now).unwrap();
        assert!(!seen.insert(local(&mut ports, index)), "one of those kept");
        chosen.insert(index);
        ports.release(index);
    }
    assert!(chosen.len() > 30, "{} of {POOL} chosen", chosen.len());
}

#[test]
fn a_port_is_closed_after_so_many_questions() {
    let (upstream, now) = (upstream(), Instant::now());
    let mut ports = Ports::<()>::new().unwrap();
    let index = ports.take(upstream.address, now).unwrap();
    for _ in 0..MAX_USES - 1 {
        ports.release(index);
        ports.pools.get_mut(&upstream.address).unwrap().idle.clear();
        assert!(ports.get(index).is_some());
    }
    ports.release(index);
    assert!(ports.get(index).is_none());
    assert_eq!(ports.pools[&upstream.address].open, 0);
}

#[test]
fn old_ports_are_closed_when_somebody_asks_next() {
    let (upstream, other, now) = (upstream(), upstream(), Instant::now());
    let mut ports = Ports::<()>::new().unwrap();
    for _ in 0..10 {
        let index = ports.take(upstream.address, now).unwrap();
        ports.release(index);
    }
    let later = now + MAX_AGE;
    ports.take(other.address, later).unwrap();
    assert!(!ports.pools.contains_key(&upstream.address));
    assert_eq!(ports.ports.iter().flatten().count(), 1);
}

#[test]
fn a_port_that_is_gone_is_no_longer_watched() {
    let (upstream, now) = (upstream(), Instant::now());
    let mut ports = Ports::<()>::new().unwrap();
    let index = ports.take(upstream.address, now).unwrap();
    let at = local(&mut ports, index);
    upstream.socket.send_to(b"x", at).unwrap();
    assert_eq!(found(&mut ports).ports, [index]);
    let kept = ports.remove(index).unwrap();
    let again = ports.take(upstream.address, now).unwrap();
    assert_eq!(again, index, "its place is taken again");
    upstream.socket.send_to(b"y", at).unwrap();
    let beside = local(&mut ports, again);
    upstream.socket.send_to(b"z", beside).unwrap();
    assert_eq!(found(&mut ports).ports, [again]);
    let mut buffer = [0; 8];
    assert_eq!(kept.socket.recv(&mut buffer).unwrap(), 1);
}

#[test]
fn clients_are_waited_for_as_long_as_they_are_watched() {
    let clients = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut ports = Ports::<()>::new().unwrap();
    ports.watch_clients(&clients).unwrap();
    let sender = upstream();
    sender
        .socket
        .send_to(b"x", clients.local_addr().unwrap())
        .unwrap();
    assert!(found(&mut ports).clients);
    ports.forget_clients(&clients).unwrap();
    let mut found = Readable::default();
    ports.wait(Duration::ZERO, &mut found).unwrap();
    assert_eq!(found, Readable::default());
}
