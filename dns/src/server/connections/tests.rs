use std::time::Duration;

use super::*;

fn client(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn admitted(admission: Admission) -> Slot {
    match admission {
        Admission::Free(slot) | Admission::Evicting(slot) => slot,
        Admission::Refused => panic!("refused"),
    }
}

#[test]
fn rule_76_the_connection_that_is_idle_longest_makes_room() {
    let connections = Connections::new(3, None);
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let first = admitted(connections.admit(client(1), at(0)));
    let second = admitted(connections.admit(client(2), at(1)));
    let third = admitted(connections.admit(client(3), at(2)));
    first.busy();
    first.idle(at(3));
    assert!(matches!(
        connections.admit(client(4), at(4)),
        Admission::Evicting(_)
    ));
    let evicted: Vec<bool> = [&first, &second, &third]
        .map(|slot| slot.evicted.is_cancelled())
        .into();
    assert_eq!(evicted, [false, true, false]);
}

#[test]
fn rule_76_a_busy_connection_is_never_evicted() {
    let connections = Connections::new(2, None);
    let now = Instant::now();
    let slots = [1, 2].map(|last| admitted(connections.admit(client(last), now)));
    slots.iter().for_each(Slot::busy);
    assert!(matches!(
        connections.admit(client(3), now),
        Admission::Refused
    ));
    slots[1].idle(now);
    assert!(matches!(
        connections.admit(client(3), now),
        Admission::Evicting(_)
    ));
    assert!(!slots[0].evicted.is_cancelled() && slots[1].evicted.is_cancelled());
}

#[test]
fn rule_76_a_closed_connection_leaves_its_place() {
    let connections = Connections::new(1, None);
    let now = Instant::now();
    let slot = admitted(connections.admit(client(1), now));
    slot.busy();
    drop(slot);
    assert!(matches!(
        connections.admit(client(2), now),
        Admission::Free(_)
    ));
}

#[test]
fn rule_76_a_cap_per_client_takes_room_from_that_client_only() {
    let connections = Connections::new(10, Some(2));
    let now = Instant::now();
    let other = admitted(connections.admit(client(2), now));
    let own: Vec<Slot> = (0..2)
        .map(|_| admitted(connections.admit(client(1), now)))
        .collect();
    // The same client, as a dual-stack socket shows it.
    let mapped = IpAddr::from(std::net::Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped());
    assert!(matches!(
        connections.admit(mapped, now),
        Admission::Evicting(_)
    ));
    assert!(own[0].evicted.is_cancelled() && !other.evicted.is_cancelled());
}
