use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::finding::Position;

/// What holds for any text at all.
fn is_total(text: &str) {
    let parsed = parse(text);
    assert_eq!(
        parsed.config.is_none(),
        parsed
            .findings
            .iter()
            .any(|finding| finding.spoils_the_file())
    );
    assert!(parsed.findings.is_sorted_by_key(|finding| finding.position));
    // A carriage return alone ends a line too (YAML 1.2.2 §5.4).
    let ends = text.chars().filter(|c| matches!(c, '\n' | '\r')).count();
    // The parser puts the end of a last line without an end on a line of its own.
    let lines = u32::try_from(ends).unwrap() + 2;
    for finding in &parsed.findings {
        let Position { line, column } = finding.position;
        assert!(
            (1..=lines).contains(&line) && column >= 1,
            "{:?}",
            finding.position
        );
        assert!(!finding.what.is_empty() && !finding.fix.is_empty());
        assert!(
            !finding.what.ends_with('.') && !finding.fix.ends_with('.'),
            "{finding:?}"
        );
    }
    parsed.check_upstreams_against(&["[::]:53".parse().unwrap()]);
}

/// Pieces of YAML and of our fields, in any order.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "apiVersion: ",
            "agent.tsunaro.io/v1alpha1",
            "kind: GatewayConfig",
            "dns:",
            "zone: ",
            "example.org",
            "staticRecords:",
            "extraZones:",
            "upstreams: ",
            "name: ",
            "target: ",
            "address: ",
            "192.0.2.1",
            "ttl: ",
            "routes:",
            "lan: ",
            "\n",
            "\n  ",
            "\n    - ",
            "\n\t",
            "- ",
            "? ",
            ": ",
            "{",
            "}",
            "[",
            "]",
            ", ",
            "\"",
            "'",
            "&a ",
            "*a",
            "!!str ",
            "|",
            ">",
            "# ",
            "---\n",
            "...\n",
            "%YAML 1.2\n",
            "@",
            "`",
            "~",
            "\u{feff}",
            "\r",
            "\u{85}",
            "\u{0}",
            "ü",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,4}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn label() -> impl Strategy<Value = String> {
    "[a-z0-9_-]{1,20}"
}

fn v4() -> impl Strategy<Value = Ipv4Addr> {
    // Public addresses, none of them reserved.
    (11u8..=99, any::<u8>(), any::<u8>(), any::<u8>())
        .prop_map(|(a, b, c, d)| Ipv4Addr::new(a, b, c, d))
}

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        v4().prop_map(IpAddr::V4),
        any::<u64>().prop_map(|low| IpAddr::V6((0x2001_0db8_u128 << 96 | u128::from(low)).into())),
    ]
}

fn distinct<T: Clone + Eq + std::hash::Hash>(items: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items
        .into_iter()
        .filter(|item| seen.insert(item.clone()))
        .collect()
}

fn socket() -> impl Strategy<Value = SocketAddr> {
    (ip(), 1u16..).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn dns() -> impl Strategy<Value = DnsConfig> {
    let addresses = || prop::collection::vec(ip(), 1..4).prop_map(distinct);
    let owner = prop::collection::vec(label(), 0..3).prop_map(|labels| labels.join("."));
    let records = prop::collection::hash_map(owner, (any::<bool>(), addresses(), label()), 0..8);
    let extra = prop::collection::hash_map(
        label(),
        prop::collection::vec(socket(), 1..4).prop_map(distinct),
        0..4,
    );
    let zone = (label(), label()).prop_map(|(a, b)| name(&format!("{a}.{b}.primary.example")));
    let rest = (prop::option::of(v4()), 1u32..=3600, 1u32..=3600);
    (
        zone,
        prop::collection::vec(ip(), 0..3).prop_map(distinct),
        records,
        extra,
        rest,
    )
        .prop_map(
            |(zone, addresses, records, extra, (wildcard_address, ttl, negative_ttl))| {
                let static_records =
                    records
                        .into_iter()
                        .map(|(owner, (alias, addresses, target))| {
                            let at_apex = owner.is_empty();
                            StaticRecord {
                                name: if at_apex {
                                    zone.clone()
                                } else {
                                    name(&owner).below(&zone).unwrap()
                                },
                                data: match alias && !at_apex {
                                    true => StaticData::Alias(name(&format!(
                                        "{target}.outside.example"
                                    ))),
                                    false => StaticData::Addresses(addresses),
                                },
                            }
                        });
                DnsConfig {
                    static_records: static_records.collect(),
                    zone,
                    addresses,
                    wildcard_address,
                    extra_zones: extra
                        .into_iter()
                        .map(|(label, upstreams)| ExtraZoneConfig {
                            zone: name(&format!("{label}.extra.example")),
                            upstreams,
                        })
                        .collect(),
                    ttl,
                    negative_ttl,
                }
            },
        )
}

fn routes() -> impl Strategy<Value = RoutesConfig> {
    let prefix = || {
        (v4(), 8u8..=32).prop_map(|(address, length)| Ipv4Net::new_assert(address, length).trunc())
    };
    (
        prop::collection::vec(prefix(), 0..5).prop_map(distinct),
        prop::option::of(prefix()),
        prop::collection::vec(v4(), 0..5).prop_map(distinct),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(lan, tailnet_lb_cidr, egress_targets, aggregate, snat)| RoutesConfig {
                lan,
                tailnet_lb_cidr,
                egress_targets,
                aggregate,
                snat,
                refused: Vec::new(),
            },
        )
}

fn config() -> impl Strategy<Value = Config> {
    let path = || prop::option::of("[^\u{0}]{0,12}[a-z/.\"'\\\\#: ü]x");
    let listen = (
        prop::collection::vec(socket(), 0..3).prop_map(distinct),
        prop::option::of(socket()),
    )
        .prop_map(|(dns, http)| Listen {
            http: http.filter(|http| !dns.contains(http)),
            dns,
        });
    (listen, path(), dns(), path(), prop::option::of(routes())).prop_map(
        |(listen, hosts, dns, auth_key_file, routes)| Config {
            listen,
            hosts,
            dns,
            tailnet: TailnetConfig { auth_key_file },
            routes,
        },
    )
}

proptest! {
    #[test]
    fn any_text_gives_a_config_or_an_error(text in any::<String>()) {
        is_total(&text);
    }

    #[test]
    fn any_text_like_yaml_gives_a_config_or_an_error(text in yaml_like()) {
        is_total(&text);
    }

    #[test]
    fn the_example_with_a_piece_cut_out_or_doubled_gives_a_config_or_an_error(
        at in any::<prop::sample::Index>(), length in 0usize..60, insert in "[ -~\t\n]{0,3}"
    ) {
        let characters: Vec<char> = EXAMPLE.chars().collect();
        let start = at.index(characters.len());
        let end = (start + length).min(characters.len());
        let head: String = characters[..start].iter().collect();
        let tail: String = characters[end..].iter().collect();
        let middle: String = characters[start..end].iter().collect();
        is_total(&format!("{head}{insert}{tail}"));
        is_total(&format!("{head}{middle}{middle}{tail}"));
    }

    #[test]
    fn a_written_config_reads_back_the_same(config in config()) {
        let text = render(&config);
        let parsed = parse(&text);
        prop_assert!(parsed.config.is_some(), "{}\n{}", text, printed(&parsed.findings));
        prop_assert_eq!(parsed.config.unwrap(), config);
    }
}
