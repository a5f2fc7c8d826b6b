use super::*;

#[test]
fn forwarding_is_judged_by_the_interfaces_that_carry_the_traffic() {
    for (all, eth0, tailscale0, expected) in [
        (Some(true), Some(true), Some(true), "Ok"),
        (Some(false), Some(false), Some(false), "ForwardingOff"),
        (Some(false), Some(true), Some(false), "ForwardingOff"),
        (
            Some(true),
            Some(false),
            Some(true),
            "ForwardingOffOnInterface",
        ),
        (
            Some(true),
            Some(true),
            Some(false),
            "ForwardingOffOnInterface",
        ),
        (Some(false), Some(true), Some(true), "Ok"),
        (None, Some(true), Some(true), "Ok"),
        (None, None, None, "ForwardingNotReadable"),
        (Some(true), None, Some(true), "ForwardingNotReadable"),
    ] {
        let reason = reason(CheckName::Ipv4Forwarding, |view, _| {
            view.forwarding = all;
            view.links.get_mut(&ETH0).unwrap().forwarding = eth0;
            view.links.get_mut(&TAILSCALE0).unwrap().forwarding = tailscale0;
        });
        assert_eq!(reason, expected, "{all:?} {eth0:?} {tailscale0:?}");
    }
}

#[test]
fn an_interface_that_carries_nothing_of_ours_need_not_forward() {
    let reason = reason(CheckName::Ipv4Forwarding, |view, _| {
        view.links.insert(
            9,
            Link {
                forwarding: Some(false),
                ..link("eth1", &["203.0.113.9/24"])
            },
        );
    });
    assert_eq!(reason, "Ok");
}

#[test]
fn without_tailscale0_and_paths_the_general_setting_counts() {
    for (all, expected) in [
        (Some(true), "Ok"),
        (Some(false), "ForwardingOff"),
        (None, "ForwardingNotReadable"),
    ] {
        let reason = reason(CheckName::Ipv4Forwarding, |view, _| {
            view.forwarding = all;
            view.links.remove(&TAILSCALE0);
            view.paths.clear();
        });
        assert_eq!(reason, expected, "{all:?}");
    }
}

#[test]
fn the_remedy_for_forwarding_is_the_exact_command() {
    let off = |all: bool| {
        outcome(CheckName::Ipv4Forwarding, move |view, _| {
            view.forwarding = Some(all);
            view.links.get_mut(&ETH0).unwrap().forwarding = Some(false);
        })
        .1
    };
    assert!(off(false).contains("`sysctl -w net.ipv4.ip_forward=1`"));
    assert!(off(true).contains("`sysctl -w net.ipv4.conf.eth0.forwarding=1`"));
}

#[test]
fn a_packet_to_the_lan_must_leave_towards_the_lan() {
    let unreachable = Path::Unreachable {
        reason: "no route".to_owned(),
    };
    for (path, expected) in [
        (Some(via(ETH0, 254)), "Ok"),
        (Some(via(ETH0, 52)), "Ok"),
        (Some(Path::Local), "Ok"),
        (Some(via(TAILSCALE0, 52)), "PathIntoTailnet"),
        (Some(via(TAILSCALE0, 254)), "PathIntoTailnet"),
        (Some(unreachable), "PathUnreachable"),
        (None, "NotAsked"),
    ] {
        let reason = reason(CheckName::PathOut, |view, _| {
            view.paths = path
                .clone()
                .map(|path| (ip("192.0.2.1"), path))
                .into_iter()
                .collect();
        });
        assert_eq!(reason, expected, "{path:?}");
    }
}

#[test]
fn the_remedy_for_a_path_into_the_tailnet_depends_on_who_set_it() {
    let message = |table| {
        outcome(CheckName::PathOut, |view, _| {
            view.paths.insert(ip("192.0.2.1"), via(TAILSCALE0, table));
        })
        .1
    };
    assert!(message(52).contains("`tailscale set --accept-routes=false`"));
    assert!(message(254).contains("`ip route del 192.0.2.0/24 dev tailscale0 table 254`"));
}

#[test]
fn an_own_address_inside_the_prefix_is_healthy() {
    let whole_prefix_is_ours = reason(CheckName::PathOut, |view, inputs| {
        inputs.wanted = vec![net("192.0.2.5/32")];
        view.paths.insert(ip("192.0.2.5"), Path::Local);
    });
    assert_eq!(whole_prefix_is_ours, "Ok");
    let first_host_is_ours = reason(CheckName::PathOut, |view, _| {
        view.links.insert(ETH0, link("eth0", &["192.0.2.1/24"]));
        view.paths = [(ip("192.0.2.2"), via(ETH0, 254))].into();
    });
    assert_eq!(first_host_is_ours, "Ok");
}

#[test]
fn addresses_of_this_host_clash_with_the_tailnet_only_within_its_range() {
    for (address, expected) in [
        ("100.64.0.9/24", "AddressInTailnetRange"),
        ("100.127.255.254/32", "AddressInTailnetRange"),
        ("100.63.255.255/24", "Ok"),
        ("100.128.0.1/24", "Ok"),
        ("203.0.113.9/24", "Ok"),
    ] {
        let reason = reason(CheckName::TailnetRangeClash, |view, _| {
            view.links.insert(9, link("eth1", &[address]));
        });
        assert_eq!(reason, expected, "{address}");
    }
}

#[test]
fn a_clash_names_the_address_and_its_interface() {
    let (_, message) = outcome(CheckName::TailnetRangeClash, |view, _| {
        view.links.insert(9, link("eth1", &["100.64.0.9/24"]));
    });
    assert!(message.contains("100.64.0.9/24 on eth1"), "{message}");
}

#[test]
fn resolvers_clash_with_the_tailnet_only_within_its_range() {
    for (resolvers, expected) in [
        (&[][..], "Ok"),
        (&["198.51.100.53", "2001:db8::53"], "Ok"),
        (&["198.51.100.53", "100.96.0.10"], "ResolverInTailnetRange"),
        (&["100.100.100.100"], "ResolverIsTailnet"),
    ] {
        let reason = reason(CheckName::TailnetRangeClash, |_, inputs| {
            inputs.resolvers = resolvers.iter().map(|text| text.parse().unwrap()).collect();
        });
        assert_eq!(reason, expected, "{resolvers:?}");
    }
}

/// The LAN's packets come in by eth0, but the way back leaves by eth1.
fn asymmetric(view: &mut KernelView) {
    view.links.insert(9, link("eth1", &["203.0.113.9/24"]));
    view.paths.insert(ip("192.0.2.1"), via(9, 254));
}

#[test]
fn a_strict_filter_fails_only_where_the_way_back_is_another() {
    for (all, own, way_back, expected) in [
        (0, 1, "another", "StrictReversePathFilter"),
        (1, 0, "another", "StrictReversePathFilter"),
        (0, 0, "another", "Ok"),
        (0, 2, "another", "Ok"),
        (2, 1, "another", "Ok"),
        (1, 2, "another", "Ok"),
        (1, 1, "the same", "Ok"),
    ] {
        let reason = reason(CheckName::ReversePathFilter, |view, _| {
            view.rp_filter = Some(all);
            view.links.get_mut(&ETH0).unwrap().rp_filter = Some(own);
            if way_back == "another" {
                asymmetric(view);
            }
        });
        assert_eq!(
            reason, expected,
            "all {all}, eth0 {own}, way back by {way_back}"
        );
    }
}

#[test]
fn a_strict_filter_drops_replies_when_the_lan_is_routed_into_the_tailnet() {
    let (reason, message) = outcome(CheckName::ReversePathFilter, |view, _| {
        view.links.get_mut(&ETH0).unwrap().rp_filter = Some(1);
        view.paths.insert(ip("192.0.2.1"), via(TAILSCALE0, 52));
    });
    assert_eq!(reason, "StrictReversePathFilter");
    assert!(
        message.contains("`sysctl -w net.ipv4.conf.eth0.rp_filter=2`"),
        "{message}"
    );
}

#[test]
fn two_interfaces_in_one_lan_are_no_asymmetry() {
    let reason = reason(CheckName::ReversePathFilter, |view, _| {
        view.rp_filter = Some(1);
        view.links.insert(9, link("eth1", &["192.0.2.6/24"]));
    });
    assert_eq!(reason, "Ok");
}

#[test]
fn a_strict_filter_on_tailscale0_fails_when_table_52_does_not_lead_back() {
    for (rule, routes, expected) in [
        (true, true, "Ok"),
        (false, true, "StrictReversePathFilter"),
        (true, false, "StrictReversePathFilter"),
    ] {
        let reason = reason(CheckName::ReversePathFilter, |view, _| {
            view.links.get_mut(&TAILSCALE0).unwrap().rp_filter = Some(1);
            if !rule {
                view.rules.retain(|rule| rule.table != Some(52));
            }
            if !routes {
                view.table_52.clear();
            }
        });
        assert_eq!(reason, expected, "rule {rule}, routes {routes}");
    }
}

#[test]
fn a_filter_that_cannot_be_read_is_unknown_only_where_it_would_matter() {
    for (all, own, expected) in [
        (None, None, "ReversePathFilterNotReadable"),
        (Some(1), None, "ReversePathFilterNotReadable"),
        (None, Some(0), "ReversePathFilterNotReadable"),
        (Some(2), None, "Ok"),
        (None, Some(2), "Ok"),
    ] {
        let reason = reason(CheckName::ReversePathFilter, |view, _| {
            asymmetric(view);
            view.rp_filter = all;
            view.links.get_mut(&ETH0).unwrap().rp_filter = own;
        });
        assert_eq!(reason, expected, "{all:?} {own:?}");
    }
    let symmetric = reason(CheckName::ReversePathFilter, |view, _| {
        view.rp_filter = None;
        for link in view.links.values_mut() {
            link.rp_filter = None;
        }
    });
    assert_eq!(symmetric, "Ok");
}
