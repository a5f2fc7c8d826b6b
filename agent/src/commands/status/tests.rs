use tsunaro_model::report::{
    AgentInfo, ExtraZoneStatus, FileStatus, LinkReport, PathReport, Phase, TailnetReport,
    UpstreamStatus, ZoneStatus,
};

use super::*;

fn report() -> StatusReport {
    let file = |path: &str, error: Option<&str>| FileStatus {
        path: path.to_owned(),
        generation: 3,
        hash: "8e4d54ad9d2d0d1fbe8ef53259f28348".to_owned(),
        error: error.map(str::to_owned),
        findings: vec![],
    };
    let condition = |kind: &str, status, reason: &str, message: &str| Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: "2026-01-02T03:04:05.678Z".to_owned(),
    };
    StatusReport {
        api_version: tsunaro_model::report::API_VERSION.to_owned(),
        kind: "GatewayStatus".to_owned(),
        agent: AgentInfo {
            version: "0.1.0".to_owned(),
            commit: "abc".to_owned(),
            started: "2026-01-02T03:04:05Z".to_owned(),
        },
        phase: Phase::Serving,
        config: file("gateway.yaml", None),
        hosts: Some(file("hosts", Some("hosts: line 1 has a NUL byte"))),
        zone: ZoneStatus {
            name: "prod-1.example.".to_owned(),
            serial: 7,
            static_names: 2,
            ..ZoneStatus::default()
        },
        extra_zones: vec![ExtraZoneStatus {
            zone: "corp.example.".to_owned(),
            upstreams: vec![UpstreamStatus {
                address: "198.51.100.53:53".to_owned(),
                healthy: false,
                consecutive_failures: 3,
                smoothed_rtt_micros: Some(1500),
            }],
        }],
        tailnet: Some(TailnetReport {
            backend_state: "Running".to_owned(),
            version: "1.102.4".to_owned(),
            hostname: "prod-1-gw".to_owned(),
            addresses: vec!["100.64.0.17".to_owned()],
            tags: vec!["tag:fabric".to_owned()],
            online: true,
            ..TailnetReport::default()
        }),
        routes: vec![RouteTruth {
            prefix: "192.0.2.0/24".to_owned(),
            wanted: true,
            advertised: true,
            kernel: Tri::False,
            path: Some(PathReport {
                interface: "eth0".to_owned(),
                gateway: None,
                mtu: 1500,
                advmss: None,
            }),
            reason: "ForwardingOff".to_owned(),
            message: "IPv4 forwarding is off; run `sysctl -w net.ipv4.ip_forward=1`".to_owned(),
        }],
        kernel_checks: vec![CheckReport {
            name: "Ipv4Forwarding".to_owned(),
            status: Tri::False,
            reason: "ForwardingOff".to_owned(),
            message: "IPv4 forwarding is off; run `sysctl -w net.ipv4.ip_forward=1`".to_owned(),
        }],
        links: vec![LinkReport {
            name: "tailscale0".to_owned(),
            up: true,
            mtu: 1280,
        }],
        conditions: vec![
            condition(
                "DNSReady",
                Tri::True,
                "ServingLastGood",
                "hosts: line 1 has a NUL byte",
            ),
            condition("TailnetReady", Tri::True, "Running", "tailscaled runs"),
        ],
    }
}

#[test]
fn the_tables_show_what_a_person_looks_for() {
    insta::assert_snapshot!(tables(&report(), Some(120)));
}

#[test]
fn yaml_and_json_hold_the_same_report() {
    let yaml = serde_saphyr::to_string(&report()).unwrap();
    assert!(yaml.contains("reason: ForwardingOff"), "{yaml}");
    let json = serde_json::to_string(&report()).unwrap();
    assert_eq!(
        serde_json::from_str::<StatusReport>(&json).unwrap(),
        report()
    );
}
