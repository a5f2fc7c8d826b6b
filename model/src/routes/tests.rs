use proptest::prelude::*;

use super::*;

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

#[test]
fn prefixes_that_no_gateway_may_advertise_are_refused_with_the_reason() {
    for (prefix, reason) in [
        ("0.0.0.0/0", Unroutable::Default),
        ("100.64.0.0/10", Unroutable::Tailnet),
        ("100.100.100.100/32", Unroutable::Tailnet),
        ("96.0.0.0/4", Unroutable::Tailnet),
        ("127.0.0.0/8", Unroutable::Loopback),
        ("127.0.0.1/32", Unroutable::Loopback),
        ("224.0.0.0/24", Unroutable::Multicast),
        ("169.254.0.0/16", Unroutable::LinkLocal),
        ("0.0.0.0/8", Unroutable::ThisNetwork),
        ("255.255.255.255/32", Unroutable::Broadcast),
    ] {
        assert_eq!(check_routable(net(prefix)), Err(reason), "{prefix}");
    }
    for prefix in [
        "192.0.2.0/24",
        "10.0.0.0/8",
        "100.128.0.0/16",
        "198.51.100.17/32",
    ] {
        assert_eq!(check_routable(net(prefix)), Ok(()), "{prefix}");
    }
}

#[test]
fn the_worked_example_wants_lan_range_and_target() {
    let config = RoutesConfig {
        lan: vec![net("192.0.2.0/24")],
        tailnet_lb_cidr: Some(net("198.51.100.0/24")),
        egress_targets: vec![Ipv4Addr::new(10, 0, 10, 20)],
        aggregate: true,
        snat: true,
        refused: vec![],
    };
    assert_eq!(
        wanted(&config),
        [
            net("10.0.10.20/32"),
            net("192.0.2.0/24"),
            net("198.51.100.0/24")
        ]
    );
}

#[test]
fn covered_prefixes_are_left_out_only_when_aggregating() {
    let mut config = RoutesConfig {
        lan: vec![
            net("192.0.2.128/25"),
            net("192.0.2.0/24"),
            net("192.0.2.0/25"),
        ],
        tailnet_lb_cidr: None,
        egress_targets: vec![Ipv4Addr::new(192, 0, 2, 7)],
        aggregate: true,
        snat: true,
        refused: vec![],
    };
    assert_eq!(wanted(&config), [net("192.0.2.0/24")]);
    config.aggregate = false;
    assert_eq!(wanted(&config).len(), 4);
}

proptest! {
    #[test]
    fn aggregation_keeps_every_address_and_no_covered_prefix(
        seeds in prop::collection::vec((any::<u32>(), 8u8..=32), 0..40)
    ) {
        let lan: Vec<Ipv4Net> = seeds.iter().map(|(a, l)| Ipv4Net::new_assert(Ipv4Addr::from(*a), *l)).collect();
        let config = RoutesConfig { lan: lan.clone(), tailnet_lb_cidr: None, egress_targets: vec![], aggregate: true, snat: true, refused: vec![] };
        let set = wanted(&config);
        for prefix in lan {
            prop_assert!(set.iter().any(|kept| kept.contains(&prefix.trunc())));
        }
        for (i, a) in set.iter().enumerate() {
            for (j, b) in set.iter().enumerate() {
                prop_assert!(i == j || !a.contains(b));
            }
        }
    }
}
