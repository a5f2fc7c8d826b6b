use super::*;

#[test]
fn the_smallest_file_gets_the_defaults() {
    let expected = Config {
        listen: Listen::default(),
        hosts: None,
        dns: DnsConfig {
            zone: name("example.org"),
            addresses: vec![],
            static_records: vec![],
            wildcard_address: None,
            extra_zones: vec![],
            ttl: 30,
            negative_ttl: 5,
        },
        tailnet: TailnetConfig {
            auth_key_file: None,
        },
        routes: None,
    };
    assert_eq!(valid(&with_dns("example.org", "")), expected);
}

#[test]
fn a_routes_mapping_without_fields_wants_no_routes_and_still_manages_them() {
    let routes = valid(&with_dns("example.org", "routes: {}"))
        .routes
        .unwrap();
    assert_eq!(
        routes,
        RoutesConfig {
            lan: vec![],
            tailnet_lb_cidr: None,
            egress_targets: vec![],
            aggregate: true,
            snat: true,
            refused: vec![],
        }
    );
}

#[test]
fn other_versions_and_kinds_are_refused() {
    check(
        "apiVersion: v1\nkind: ConfigMap\ndns: { zone: example.org }\n",
        &[
            "1:13: apiVersion: `v1` is not what this agent reads; write `apiVersion: agent.tsunaro.io/v1alpha1`",
            "2:7: kind: `ConfigMap` is not what this agent reads; write `kind: GatewayConfig`",
        ],
    );
}

#[test]
fn missing_fields_are_named_with_what_to_add() {
    check(
        "listen: { http: '127.0.0.1:9181' }\n",
        &[
            "1:1: apiVersion: the field `apiVersion` is missing; write `apiVersion: agent.tsunaro.io/v1alpha1`",
            "1:1: kind: the field `kind` is missing; write `kind: GatewayConfig`",
            "1:1: dns: the field `dns` is missing; add `dns:`",
        ],
    );
    check(
        "apiVersion: agent.tsunaro.io/v1alpha1\nkind: GatewayConfig\ndns: { staticRecords: [{}], extraZones: [{}] }\n",
        &[
            "3:6: dns.zone: the field `zone` is missing",
            "3:24: dns.staticRecords[0].name: the field `name` is missing",
            "3:24: dns.staticRecords[0]: the record has neither `address` nor `target`",
            "3:42: dns.extraZones[0].zone: the field `zone` is missing",
            "3:42: dns.extraZones[0].upstreams: the field `upstreams` is missing",
        ],
    );
}

#[test]
fn unknown_fields_are_told_the_nearest_known_name() {
    for (rest, expected) in [
        (
            "  wildcardAdress: 192.0.2.1",
            "5:3: dns.wildcardAdress: unknown field; did you mean `wildcardAddress`?",
        ),
        (
            "  TTL: 3",
            "5:3: dns.TTL: unknown field; did you mean `ttl`?",
        ),
        (
            "  negativeTtl: 3",
            "5:3: dns.negativeTtl: unknown field; did you mean `negativeTTL`?",
        ),
        (
            "  static_records: []",
            "dns.static_records: unknown field; did you mean `staticRecords`?",
        ),
        (
            "  forwards: []",
            "dns.forwards: unknown field; remove it; the fields here are `zone`, `addresses`, ",
        ),
        (
            "  <<: { ttl: 3 }",
            "dns.<<: unknown field; write the fields out",
        ),
        (
            "route: {}",
            "5:1: route: unknown field; did you mean `routes`?",
        ),
        (
            "routes: { tailnetLbCidr: 192.0.2.0/24 }",
            "routes.tailnetLbCidr: unknown field; did you mean `tailnetLBCIDR`?",
        ),
        (
            "listen: { htp: '127.0.0.1:1' }",
            "listen.htp: unknown field; did you mean `http`?",
        ),
        (
            "tailnet: { authKey: tskey-auth-x }",
            "tailnet.authKey: unknown field; did you mean `authKeyFile`?",
        ),
        ("  ? [a, b]\n  : c", "5:5: dns: a field's name must be text"),
    ] {
        check(&with_dns("example.org", rest), &[expected]);
    }
}

#[test]
fn duplicate_fields_are_refused_with_the_line_of_the_first() {
    check(
        &with_dns(
            "example.org",
            "  ttl: 3\n  ttl: 4\n  'zone': example.net\n  ttl: 5",
        ),
        &[
            "6:3: dns.ttl: the field `ttl` is given twice, first on line 5; keep one of them",
            "7:3: dns.zone: the field `zone` is given twice, first on line 4",
            "8:3: dns.ttl: the field `ttl` is given twice, first on line 5",
        ],
    );
}

#[test]
fn wrong_types_are_refused_with_what_was_found() {
    for (rest, expected) in [
        (
            "  ttl: \"30\"",
            "5:8: dns.ttl: expected a whole number of seconds, found the text `30`; remove the quotes",
        ),
        (
            "  ttl: 5s",
            "dns.ttl: expected a whole number of seconds, found the text `5s`",
        ),
        (
            "  ttl: 1.5",
            "dns.ttl: expected a whole number of seconds, found `1.5`",
        ),
        (
            "  ttl: 0x1e",
            "dns.ttl: expected a whole number of seconds, found `0x1e`",
        ),
        (
            "  ttl: 99999999999999999999",
            "dns.ttl: expected a whole number of seconds, found `99999999999999999999`",
        ),
        (
            "  ttl: [3]",
            "dns.ttl: expected a whole number of seconds, found a list",
        ),
        (
            "  ttl:",
            "5:6: dns.ttl: the field has no value; write a whole number of seconds",
        ),
        (
            "  addresses: 192.0.2.1",
            "dns.addresses: expected a list, found the text `192.0.2.1`; write a list",
        ),
        (
            "  addresses: [10.0]",
            "5:15: dns.addresses[0]: expected text, found `10.0`; put it in quotes, as in `\"10.0\"`",
        ),
        (
            "  addresses: [[192.0.2.1]]",
            "dns.addresses[0]: expected text, found a list; put text that begins with `[` in quotes",
        ),
        (
            "  addresses: [{}]",
            "dns.addresses[0]: expected text, found a mapping",
        ),
        (
            "  addresses:",
            "dns.addresses: the field has no value; write a list",
        ),
        (
            "  staticRecords: [api]",
            "dns.staticRecords[0]: expected a mapping (`field: value`), found the text `api`",
        ),
        (
            "  wildcardAddress: true",
            "dns.wildcardAddress: expected text, found `true`",
        ),
        ("hosts: 12", "5:8: hosts: expected text, found `12`"),
        ("hosts:", "hosts: the field has no value; write text"),
        (
            "routes: [192.0.2.0/24]",
            "5:9: routes: expected a mapping (`field: value`), found a list",
        ),
        ("routes:", "routes: the field has no value"),
        (
            "routes: { aggregate: yes }",
            "routes.aggregate: expected `true` or `false`, found the text `yes`",
        ),
        (
            "routes: { aggregate: \"true\" }",
            "routes.aggregate: expected `true` or `false`, found the text `true`; remove the quotes",
        ),
        (
            "routes: { aggregate: 1 }",
            "routes.aggregate: expected `true` or `false`, found `1`",
        ),
        (
            "tailnet: hskey-auth-abc",
            "tailnet: expected a mapping (`field: value`), found the text `(a key)`",
        ),
    ] {
        check(&with_dns("example.org", rest), &[expected]);
    }
}

#[test]
fn keys_never_reach_a_message() {
    for text in [
        with_dns("example.org", "tailnet: { authKeyFile: tskey-auth-SECRET }"),
        with_dns("example.org", "tailnet: tskey-auth-SECRET"),
        with_dns("example.org", "tailnet: { tskey-auth-SECRET: x }"),
        with_dns(
            "example.org",
            "tailnet: { hskey-auth-SECRET: x, hskey-auth-SECRET: y }",
        ),
        with_dns("tskey-auth-SECRET", "  addresses: [hskey-auth-SECRET]"),
    ] {
        let parsed = parse(&text);
        assert!(
            !printed(&parsed.findings).contains("SECRET"),
            "{}",
            printed(&parsed.findings)
        );
    }
}
