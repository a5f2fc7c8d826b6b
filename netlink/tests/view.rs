//! The view against a real kernel, in network namespaces of the tests' own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod lab;

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use lab::{GATEWAY, in_namespace, ip, ips, set};
use tsunaro_model::kernel::checks::{CheckState, Duty, KernelInputs, Opinion, Opinions, check};
use tsunaro_model::kernel::{KernelView, Path, Rule};
use tsunaro_netlink::Kernel;

fn host(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

fn index(view: &KernelView, name: &str) -> u32 {
    view.link_named(name)
        .unwrap_or_else(|| panic!("{name} in {view:?}"))
        .0
}

/// Names of the checks that do not pass, apart from those that need NET_ADMIN.
fn complaints(view: &KernelView, wanted: &[&str]) -> Vec<(String, &'static str)> {
    let inputs = KernelInputs {
        duty: Duty::Router,
        wanted: wanted.iter().copied().map(net).collect(),
        tailnet_addresses: vec!["100.64.0.7".parse().unwrap()],
        resolvers: vec![],
        control_server: Some(vec![]),
        opinions: Opinions {
            forwarding: Opinion::Fine,
            udp_gro: Opinion::Fine,
        },
    };
    check(view, &inputs)
        .into_iter()
        .filter_map(|check| match check.state {
            CheckState::Ok
            | CheckState::Unknown {
                reason: "NeedsNetAdmin",
                ..
            } => None,
            CheckState::Failed { reason, .. }
            | CheckState::Warned { reason, .. }
            | CheckState::Unknown { reason, .. } => Some((check.name.to_string(), reason)),
        })
        .collect()
}

#[test]
fn an_empty_namespace_has_lo_and_the_three_standard_rules() {
    in_namespace(async || {
        let view = Kernel::open()
            .unwrap()
            .view(&[host("192.0.2.1")])
            .await
            .unwrap();
        let names: Vec<_> = view.links.values().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["lo"]);
        let rule = |priority, table| Rule {
            priority,
            table: Some(table),
            fwmark: None,
        };
        assert_eq!(
            view.rules,
            [rule(0, 255), rule(32766, 254), rule(32767, 253)]
        );
        assert_eq!(view.table_52, []);
        let Path::Unreachable { reason } = &view.paths[&host("192.0.2.1")] else {
            panic!("{:?}", view.paths);
        };
        assert!(reason.contains("network is unreachable"), "{reason}");
    });
}

#[test]
fn links_tell_their_flags_mtu_and_addresses_of_both_families() {
    in_namespace(async || {
        ips(GATEWAY);
        ip("link add down0 type veth");
        ip("address add 203.0.113.1 peer 203.0.113.2 dev down0");
        let view = Kernel::open().unwrap().view(&[]).await.unwrap();
        let (_, eth0) = view.link_named("eth0").unwrap();
        assert!(eth0.up && eth0.lower_up);
        assert_eq!(eth0.mtu, 9000);
        for address in ["192.0.2.5/24", "2001:db8::5/64"] {
            assert!(
                eth0.addresses.contains(&address.parse().unwrap()),
                "{eth0:?}"
            );
        }
        let (_, tailscale0) = view.link_named("tailscale0").unwrap();
        assert_eq!((tailscale0.up, tailscale0.mtu), (true, 1280));
        let (_, down0) = view.link_named("down0").unwrap();
        assert!(!down0.up && !down0.lower_up);
        assert_eq!(
            down0.addresses,
            ["203.0.113.1/32".parse().unwrap()],
            "ours, not the peer's"
        );

        ip("link set lan0 down");
        let view = Kernel::open().unwrap().view(&[]).await.unwrap();
        let (_, eth0) = view.link_named("eth0").unwrap();
        assert!(
            eth0.up && !eth0.lower_up,
            "no carrier without the other end: {eth0:?}"
        );
    });
}

#[test]
fn rules_and_table_52_are_read_as_tailscaled_sets_them() {
    in_namespace(async || {
        ips(GATEWAY);
        ip("rule add priority 100 fwmark 0/0x200 table 1000");
        ip("rule add priority 101 type blackhole from 203.0.113.0/24");
        ip("route add 198.51.100.0/24 dev eth0 table 53");
        let view = Kernel::open().unwrap().view(&[]).await.unwrap();
        let ours: Vec<Rule> = view
            .rules
            .iter()
            .filter(|rule| (1..30000).contains(&rule.priority))
            .cloned()
            .collect();
        let bypass = Some((0x80000, 0xff0000));
        let rule = |priority, fwmark, table| Rule {
            priority,
            table,
            fwmark,
        };
        assert_eq!(
            ours,
            [
                rule(100, Some((0, 0x200)), Some(1000)),
                rule(101, None, None),
                rule(5210, bypass, Some(254)),
                rule(5230, bypass, Some(253)),
                rule(5250, bypass, None),
                rule(5270, None, Some(52)),
            ]
        );
        assert_eq!(
            view.table_52,
            [net("100.64.0.1/32"), net("100.100.100.100/32")]
        );
    });
}

#[test]
fn a_default_route_in_table_52_is_listed_too() {
    in_namespace(async || {
        ips(GATEWAY);
        ip("route add default dev tailscale0 table 52");
        let view = Kernel::open().unwrap().view(&[]).await.unwrap();
        assert!(
            view.table_52.contains(&net("0.0.0.0/0")),
            "{:?}",
            view.table_52
        );
    });
}

#[test]
fn forwarding_and_reverse_path_filter_are_read_live_for_all_and_each() {
    in_namespace(async || {
        ips(GATEWAY);
        let mut kernel = Kernel::open().unwrap();
        for (all, eth0) in [("1", "0"), ("0", "1"), ("1", "1")] {
            set("ip_forward", all);
            set("conf/eth0/forwarding", eth0);
            let view = kernel.view(&[]).await.unwrap();
            let (_, link) = view.link_named("eth0").unwrap();
            assert_eq!(
                (view.forwarding, link.forwarding),
                (Some(all == "1"), Some(eth0 == "1"))
            );
        }
        for (all, eth0) in [("0", "1"), ("2", "0"), ("1", "2")] {
            set("conf/all/rp_filter", all);
            set("conf/eth0/rp_filter", eth0);
            let view = kernel.view(&[]).await.unwrap();
            let (_, link) = view.link_named("eth0").unwrap();
            assert_eq!(
                (view.rp_filter, link.rp_filter),
                (all.parse().ok(), eth0.parse().ok())
            );
        }
    });
}

#[test]
fn paths_tell_interface_gateway_table_and_advmss() {
    in_namespace(async || {
        ips(GATEWAY);
        ip("route add 198.51.100.0/24 via 192.0.2.9 advmss 1200");
        ip("route add 203.0.113.0/24 via inet6 2001:db8::1 dev eth0");
        let hosts = [
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "100.64.0.1",
            "192.0.2.5",
            "10.0.0.1",
        ];
        let hosts: Vec<Ipv4Addr> = hosts.into_iter().map(host).collect();
        let view = Kernel::open().unwrap().view(&hosts).await.unwrap();
        let eth0 = index(&view, "eth0");
        let via = |link, gateway: Option<&str>, table, advmss| Path::Via {
            link,
            gateway: gateway.map(|text| text.parse::<IpAddr>().unwrap()),
            table,
            advmss,
        };
        let expected = [
            via(eth0, None, 254, None),
            via(eth0, Some("192.0.2.9"), 254, Some(1200)),
            via(eth0, Some("2001:db8::1"), 254, None),
            via(index(&view, "tailscale0"), None, 52, None),
            Path::Local,
            via(eth0, Some("192.0.2.1"), 254, None),
        ];
        for (host, expected) in hosts.iter().zip(expected) {
            assert_eq!(view.paths[host], expected, "{host}");
        }
    });
}

#[test]
fn each_kind_of_dead_end_is_unreachable_and_says_which() {
    in_namespace(async || {
        ips(GATEWAY);
        for kind in ["blackhole", "unreachable", "prohibit"] {
            ip(&format!("route add {kind} 198.51.100.0/24"));
            let view = Kernel::open()
                .unwrap()
                .view(&[host("198.51.100.1")])
                .await
                .unwrap();
            let Path::Unreachable { reason } = &view.paths[&host("198.51.100.1")] else {
                panic!("{kind}: {:?}", view.paths);
            };
            assert!(reason.contains(kind), "{kind}: {reason}");
            ip(&format!("route del {kind} 198.51.100.0/24"));
        }
    });
}

#[test]
fn a_gateway_as_tailscaled_sets_it_up_passes_every_check() {
    in_namespace(async || {
        ips(GATEWAY);
        set("ip_forward", "1");
        let wanted = [net("192.0.2.0/24"), net("10.0.10.20/32")];
        let view = Kernel::open().unwrap().view_for(&wanted).await.unwrap();
        assert_eq!(complaints(&view, &["192.0.2.0/24", "10.0.10.20/32"]), []);
    });
}

#[test]
fn what_breaks_a_gateway_is_named_and_what_mends_it_clears_it() {
    in_namespace(async || {
        ips(GATEWAY);
        set("ip_forward", "1");
        set("conf/all/rp_filter", "0");
        set("conf/eth0/rp_filter", "0");
        set("conf/tailscale0/rp_filter", "0");
        let mut kernel = Kernel::open().unwrap();
        for (break_it, mend_it, name, reason) in [
            (
                "link set tailscale0 down",
                "link set tailscale0 up
                 route add 100.64.0.1/32 dev tailscale0 table 52",
                "TailscaleInterface",
                "InterfaceDown",
            ),
            (
                "address del 100.64.0.7/32 dev tailscale0",
                "address add 100.64.0.7/32 dev tailscale0
                 route add 100.64.0.1/32 dev tailscale0 table 52",
                "TailscaleAddress",
                "AddressMissing",
            ),
            (
                "rule del priority 5250",
                "rule add priority 5250 fwmark 0x80000/0xff0000 type unreachable",
                "PolicyRules",
                "PolicyRulesMissing",
            ),
            (
                "route flush table 52",
                "route add 100.64.0.1/32 dev tailscale0 table 52",
                "Table52",
                "Table52Empty",
            ),
            (
                "route add 192.0.2.0/24 dev tailscale0 table 52",
                "route del 192.0.2.0/24 dev tailscale0 table 52",
                "PathOut",
                "PathIntoTailnet",
            ),
            (
                "route add blackhole 192.0.2.0/30",
                "route del blackhole 192.0.2.0/30",
                "PathOut",
                "PathUnreachable",
            ),
            (
                "address add 100.64.9.9/24 dev eth0",
                "address del 100.64.9.9/24 dev eth0",
                "TailnetRangeClash",
                "AddressInTailnetRange",
            ),
        ] {
            ip(break_it);
            let view = kernel.view_for(&[net("192.0.2.0/24")]).await.unwrap();
            let found = complaints(&view, &["192.0.2.0/24"]);
            assert!(
                found.contains(&(name.to_owned(), reason)),
                "{break_it}: {found:?}"
            );
            ips(mend_it);
            let view = kernel.view_for(&[net("192.0.2.0/24")]).await.unwrap();
            assert_eq!(complaints(&view, &["192.0.2.0/24"]), [], "{mend_it}");
        }
    });
}

#[test]
fn a_route_into_the_tailnet_with_a_strict_filter_is_told_as_both() {
    in_namespace(async || {
        ips(GATEWAY);
        set("ip_forward", "1");
        set("conf/all/rp_filter", "1");
        ip("route add 192.0.2.0/24 dev tailscale0 table 52");
        let view = Kernel::open()
            .unwrap()
            .view_for(&[net("192.0.2.0/24")])
            .await
            .unwrap();
        let found = complaints(&view, &["192.0.2.0/24"]);
        assert_eq!(
            found,
            [
                ("PathOut".to_owned(), "PathIntoTailnet"),
                ("ReversePathFilter".to_owned(), "StrictReversePathFilter"),
            ]
        );
    });
}
