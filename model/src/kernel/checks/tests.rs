use ipnet::IpNet;
use proptest::prelude::*;

use super::*;
use crate::kernel::{Link, Path, Rule};

mod daemon;
mod opinions;
mod traffic;

const ETH0: u32 = 2;
const TAILSCALE0: u32 = 3;

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn link(name: &str, addresses: &[&str]) -> Link {
    Link {
        name: name.to_owned(),
        up: true,
        lower_up: true,
        mtu: 1500,
        forwarding: Some(true),
        rp_filter: Some(0),
        addresses: addresses
            .iter()
            .map(|address| address.parse::<IpNet>().unwrap())
            .collect(),
    }
}

fn via(link: u32, table: u32) -> Path {
    Path::Via {
        link,
        gateway: None,
        table,
        advmss: None,
    }
}

/// A gateway as it should be: 192.0.2.5 in the LAN 192.0.2.0/24, 100.64.0.7 in the tailnet.
fn healthy() -> KernelView {
    let bypass = Some((0x8_0000, 0xff_0000));
    let rule = |priority, fwmark, table| Rule {
        priority,
        table,
        fwmark,
    };
    KernelView {
        links: [
            (1, link("lo", &["127.0.0.1/8"])),
            (ETH0, link("eth0", &["192.0.2.5/24", "2001:db8::5/64"])),
            (
                TAILSCALE0,
                link("tailscale0", &["100.64.0.7/32", "fd7a:115c:a1e0::7/128"]),
            ),
        ]
        .into(),
        forwarding: Some(true),
        rp_filter: Some(0),
        rules: vec![
            rule(0, None, Some(255)),
            rule(5210, bypass, Some(254)),
            rule(5230, bypass, Some(253)),
            rule(5250, bypass, None),
            rule(5270, None, Some(52)),
            rule(32766, None, Some(254)),
        ],
        table_52: vec![net("100.64.0.1/32"), net("100.100.100.100/32")],
        paths: [(ip("192.0.2.1"), via(ETH0, 254))].into(),
    }
}

fn inputs() -> KernelInputs {
    KernelInputs {
        duty: Duty::Router,
        wanted: vec![net("192.0.2.0/24")],
        tailnet_addresses: vec![
            "100.64.0.7".parse().unwrap(),
            "fd7a:115c:a1e0::7".parse().unwrap(),
        ],
        resolvers: vec!["198.51.100.53".parse().unwrap()],
        control_server: Some(vec!["203.0.113.1".parse().unwrap()]),
        opinions: Opinions {
            forwarding: Opinion::Fine,
            udp_gro: Opinion::Fine,
        },
    }
}

/// The reason of one check of the healthy gateway after a change; "Ok" when there is none.
fn reason(
    name: CheckName,
    change: impl FnOnce(&mut KernelView, &mut KernelInputs),
) -> &'static str {
    outcome(name, change).0
}

fn outcome(
    name: CheckName,
    change: impl FnOnce(&mut KernelView, &mut KernelInputs),
) -> (&'static str, String) {
    let (mut view, mut inputs) = (healthy(), inputs());
    change(&mut view, &mut inputs);
    let checks = check(&view, &inputs);
    match &checks
        .iter()
        .find(|check| check.name == name)
        .unwrap()
        .state
    {
        CheckState::Ok => ("Ok", String::new()),
        CheckState::Failed { reason, message } | CheckState::Warned { reason, message } => {
            (reason, message.clone())
        }
        CheckState::Unknown { reason, command } => (reason, command.clone()),
    }
}

#[test]
fn a_healthy_gateway_fails_nothing_and_says_what_it_cannot_see() {
    let unknown: Vec<CheckName> = check(&healthy(), &inputs())
        .into_iter()
        .filter_map(|check| match check.state {
            CheckState::Ok => None,
            CheckState::Unknown {
                reason: "NeedsNetAdmin",
                ..
            } => Some(check.name),
            other => panic!("{}: {other:?}", check.name),
        })
        .collect();
    assert_eq!(unknown, [CheckName::Netfilter, CheckName::MssClamping]);
    assert!(
        outcome(CheckName::Netfilter, |_, _| {})
            .1
            .contains("nft list ruleset")
    );
    assert!(
        outcome(CheckName::MssClamping, |_, _| {})
            .1
            .contains("maxseg")
    );
}

#[test]
fn without_the_duty_to_route_only_a_clash_with_the_tailnet_is_checked() {
    let inputs = KernelInputs {
        duty: Duty::DnsOnly,
        ..inputs()
    };
    let names: Vec<CheckName> = check(&KernelView::default(), &inputs)
        .iter()
        .map(|check| check.name)
        .collect();
    assert_eq!(names, [CheckName::TailnetRangeClash]);
}

#[test]
fn on_an_empty_kernel_nothing_passes_for_healthy_except_what_nobody_can_break() {
    let passed: Vec<CheckName> = check(&KernelView::default(), &inputs())
        .into_iter()
        .filter(|check| check.state == CheckState::Ok)
        .map(|check| check.name)
        .collect();
    assert_eq!(
        passed,
        [
            CheckName::TailnetRangeClash,
            CheckName::ReversePathFilter,
            CheckName::ControlServerOutside,
            CheckName::TailscaledForwarding,
            CheckName::UdpGroForwarding,
        ]
    );
}

#[test]
fn each_wanted_prefix_has_a_path_of_its_own_in_order() {
    let wanted = vec![net("198.51.100.0/24"), net("192.0.2.0/24")];
    let checks = check(
        &healthy(),
        &KernelInputs {
            wanted: wanted.clone(),
            ..inputs()
        },
    );
    let asked: Vec<Ipv4Net> = checks.iter().filter_map(|check| check.prefix).collect();
    assert_eq!(asked, wanted);
}

#[test]
fn names_are_the_documented_ones() {
    let names: Vec<String> = check(&healthy(), &inputs())
        .iter()
        .map(|check| check.name.to_string())
        .collect();
    assert_eq!(
        names,
        [
            "TailscaleInterface",
            "TailscaleAddress",
            "Ipv4Forwarding",
            "PolicyRules",
            "Table52",
            "PathOut",
            "TailnetRangeClash",
            "ReversePathFilter",
            "ControlServerOutside",
            "TailscaledForwarding",
            "UdpGroForwarding",
            "Netfilter",
            "MssClamping",
        ]
    );
}

#[test]
fn the_host_to_ask_is_the_first_that_is_not_our_own() {
    for (prefix, own, expected) in [
        ("192.0.2.0/24", &["192.0.2.5"][..], "192.0.2.1"),
        ("192.0.2.0/24", &["192.0.2.1"], "192.0.2.2"),
        ("192.0.2.0/24", &["192.0.2.2", "192.0.2.1"], "192.0.2.3"),
        ("192.0.2.4/30", &["192.0.2.5", "192.0.2.6"], "192.0.2.5"),
        ("192.0.2.4/31", &["192.0.2.4"], "192.0.2.5"),
        ("192.0.2.4/31", &[], "192.0.2.4"),
        ("192.0.2.9/32", &[], "192.0.2.9"),
        ("192.0.2.9/32", &["192.0.2.9"], "192.0.2.9"),
        ("10.0.0.0/8", &[], "10.0.0.1"),
    ] {
        let own: Vec<Ipv4Addr> = own.iter().copied().map(ip).collect();
        assert_eq!(
            host_to_ask(net(prefix), &own),
            ip(expected),
            "{prefix} {own:?}"
        );
    }
}

proptest! {
    #[test]
    fn the_host_to_ask_is_always_in_the_prefix(
        address: u32, length in 1_u8..=32, own in proptest::collection::vec(any::<u32>(), 0..4),
    ) {
        let prefix = Ipv4Net::new(address.into(), length).unwrap().trunc();
        let own: Vec<Ipv4Addr> = own.into_iter().map(Ipv4Addr::from).collect();
        prop_assert!(prefix.contains(&host_to_ask(prefix, &own)));
    }
}
