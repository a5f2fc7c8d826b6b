use std::net::Ipv4Addr;

use super::*;
use crate::kernel::Link;
use crate::kernel::checks::CheckName;

fn prefixes(count: u8) -> Vec<Ipv4Net> {
    (0..count)
        .map(|n| Ipv4Net::new_assert(Ipv4Addr::new(10, 7, n, 0), 24))
        .collect()
}

fn paths(count: u8, state: &CheckState) -> Vec<KernelCheck> {
    let path = |prefix| KernelCheck {
        name: CheckName::PathOut,
        prefix: Some(prefix),
        state: state.clone(),
    };
    prefixes(count).into_iter().map(path).collect()
}

#[test]
fn the_paths_of_many_prefixes_are_one_check_which_names_a_few() {
    let failed = CheckState::Failed {
        reason: "PathUnreachable",
        message: "no way".to_owned(),
    };
    for (checks, expected) in [
        (paths(100, &CheckState::Ok), "True Ok "),
        (paths(1, &failed), "False PathUnreachable no way"),
        (
            paths(100, &failed),
            "False PathUnreachable no way; the same check of 10.7.1.0/24, 10.7.2.0/24, \
             10.7.3.0/24, 10.7.4.0/24, 10.7.5.0/24 and 94 more",
        ),
    ] {
        let report = report(&KernelView::default(), checks.clone());
        let shown: Vec<String> = report
            .checks
            .iter()
            .map(|check| format!("{:?} {} {}", check.status, check.reason, check.message))
            .collect();
        assert_eq!(shown, [expected]);
        assert_eq!(report.paths.len(), checks.len());
    }
}

#[test]
fn the_way_and_its_mtu_are_told_per_prefix() {
    let link = |name: &str, mtu| Link {
        name: name.to_owned(),
        up: true,
        lower_up: true,
        mtu,
        forwarding: None,
        rp_filter: None,
        addresses: Vec::new(),
    };
    let via = |link, gateway: Option<&str>, advmss| Path::Via {
        link,
        gateway: gateway.map(|text| text.parse().unwrap()),
        table: 254,
        advmss,
    };
    let view = KernelView {
        links: [
            (1, link("lo", 65536)),
            (2, link("eth0", 9000)),
            (3, link("tailscale0", 1280)),
        ]
        .into(),
        paths: [
            (Ipv4Addr::new(10, 7, 0, 1), via(2, None, None)),
            (
                Ipv4Addr::new(10, 7, 1, 1),
                via(2, Some("192.0.2.1"), Some(1360)),
            ),
        ]
        .into(),
        ..KernelView::default()
    };
    let report = report(&view, paths(3, &CheckState::Ok));
    let shown: Vec<String> = report
        .ways
        .iter()
        .map(|(prefix, way)| {
            format!(
                "{prefix} {} {:?} {} {:?}",
                way.interface, way.gateway, way.mtu, way.advmss
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "10.7.0.0/24 eth0 None 9000 None",
            "10.7.1.0/24 eth0 Some(\"192.0.2.1\") 9000 Some(1360)",
        ]
    );
    let links: Vec<(&str, u32)> = report
        .links
        .iter()
        .map(|link| (link.name.as_str(), link.mtu))
        .collect();
    assert_eq!(links, [("tailscale0", 1280), ("eth0", 9000)]);
}
