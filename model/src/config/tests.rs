mod aliases;
mod properties;
mod structure;
mod syntax;
mod upstreams;
mod values;

use super::*;
use crate::name::DnsName;

const EXAMPLE: &str = include_str!("../../../docs/examples/prod-1/gateway.yaml");

/// All findings as `check` prints them.
fn printed(findings: &[crate::finding::Finding]) -> String {
    findings
        .iter()
        .map(|finding| format!("{}\n", finding.in_file("gateway.yaml")))
        .collect()
}

fn name(text: &str) -> DnsName {
    DnsName::parse_host(text).unwrap()
}

/// A file with this zone and these lines of `dns` and after it.
fn with_dns(zone: &str, rest: &str) -> String {
    format!(
        "apiVersion: agent.tsunaro.io/v1alpha1\nkind: GatewayConfig\ndns:\n  zone: {zone}\n{rest}\n"
    )
}

/// The config of a file without errors.
fn valid(text: &str) -> Config {
    let parsed = parse(text);
    parsed
        .config
        .unwrap_or_else(|| panic!("{text}\n{}", printed(&parsed.findings)))
}

/// Holds that the file has exactly these findings, each given by a part of its printed line.
fn check(text: &str, expected: &[&str]) {
    let parsed = parse(text);
    let lines = printed(&parsed.findings);
    assert_eq!(lines.lines().count(), expected.len(), "{text}\n{lines}");
    for (line, part) in lines.lines().zip(expected) {
        assert!(
            line.contains(part),
            "{text}\nexpected {part}\nin       {line}"
        );
    }
    let errors = parsed
        .findings
        .iter()
        .any(|finding| finding.spoils_the_file());
    assert_eq!(parsed.config.is_none(), errors, "{text}");
}

#[test]
fn a_broken_file_is_told_everything_at_once() {
    let parsed = parse(include_str!("tests/broken.yaml"));
    assert_eq!(parsed.config, None);
    insta::assert_snapshot!(printed(&parsed.findings));
}

#[test]
fn the_worked_example_parses_without_findings() {
    let parsed = parse(EXAMPLE);
    assert_eq!(printed(&parsed.findings), "");
    let expected = Config {
        listen: Listen {
            dns: vec!["127.0.0.1:5300".parse().unwrap()],
            http: Some("127.0.0.1:9181".parse().unwrap()),
        },
        hosts: Some("hosts".into()),
        dns: DnsConfig {
            zone: name("prod-1.tailnet.example.internal"),
            addresses: vec!["198.51.100.17".parse().unwrap()],
            static_records: vec![
                StaticRecord {
                    name: name("api.prod-1.tailnet.example.internal"),
                    data: StaticData::Alias(name(
                        "kube-api-platform.prod-1.tailnet.example.internal",
                    )),
                },
                StaticRecord {
                    name: name("router.prod-1.tailnet.example.internal"),
                    data: StaticData::Addresses(vec!["192.0.2.1".parse().unwrap()]),
                },
            ],
            wildcard_address: Some("198.51.100.80".parse().unwrap()),
            extra_zones: vec![ExtraZoneConfig {
                zone: name("corp.example"),
                upstreams: vec![
                    "198.51.100.53:53".parse().unwrap(),
                    "198.51.100.54:53".parse().unwrap(),
                ],
            }],
            ttl: 30,
            negative_ttl: 5,
        },
        tailnet: TailnetConfig {
            auth_key_file: Some("authkey".into()),
        },
        routes: Some(RoutesConfig {
            lan: vec!["192.0.2.0/24".parse().unwrap()],
            tailnet_lb_cidr: Some("198.51.100.0/24".parse().unwrap()),
            egress_targets: vec!["10.0.10.20".parse().unwrap()],
            aggregate: true,
            snat: true,
            refused: vec![],
        }),
    };
    assert_eq!(parsed.config, Some(expected));
}
