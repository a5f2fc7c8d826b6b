use super::*;

fn in_list(field: &str, value: &str) -> String {
    with_dns("example.org", &format!("  {field}: [\"{value}\"]"))
}

#[test]
fn addresses_of_hosts_are_accepted_or_refused_with_the_reason() {
    for (value, expected) in [
        ("192.0.2.1", None),
        ("2001:db8::1", None),
        ("::ffff:192.0.2.1", None),
        (
            "127.0.0.1",
            Some("warning: dns.addresses[0]: `127.0.0.1` is a loopback address"),
        ),
        (
            "::1",
            Some("warning: dns.addresses[0]: `::1` is a loopback address"),
        ),
        ("0.0.0.0", Some("`0.0.0.0` is the unspecified address")),
        ("::ffff:0.0.0.0", Some("is the unspecified address")),
        ("::", Some("`::` is the unspecified address")),
        ("224.0.0.1", Some("`224.0.0.1` is a multicast address")),
        ("ff02::1", Some("`ff02::1` is a multicast address")),
        (
            "192.0.2.010",
            Some(
                "`192.0.2.010` has leading zeros, which some programs read as octal; write `192.0.2.10`",
            ),
        ),
        ("fe80::1%eth0", Some("`fe80::1%eth0` has a scope id")),
        (
            "192.0.2.1/32",
            Some("`192.0.2.1/32` is a prefix, not an address; write `192.0.2.1`"),
        ),
        (
            "192.0.2.1:53",
            Some("`192.0.2.1:53` has a port, where only an address belongs; write `192.0.2.1`"),
        ),
        ("192.0.2", Some("`192.0.2` is not an IP address")),
        ("192.0.2.256", Some("`192.0.2.256` is not an IP address")),
        (
            "gateway.example.org",
            Some("`gateway.example.org` is not an IP address"),
        ),
        ("", Some("dns.addresses[0]: \"\" is not an IP address")),
        ("192.0.2.1 ", Some("is not an IP address")),
    ] {
        check(
            &in_list("addresses", value),
            &expected.into_iter().collect::<Vec<_>>(),
        );
    }
}

#[test]
fn a_mapped_address_becomes_ipv4_and_a_repeated_one_is_dropped_with_a_warning() {
    let text = with_dns(
        "example.org",
        "  addresses: [192.0.2.1, \"::ffff:192.0.2.1\", 192.0.2.2]",
    );
    check(
        &text,
        &[
            "5:26: warning: dns.addresses[1]: the address `::ffff:192.0.2.1` is listed twice; remove one of them",
        ],
    );
    assert_eq!(
        valid(&text).dns.addresses,
        ["192.0.2.1", "192.0.2.2"].map(|a| a.parse::<IpAddr>().unwrap())
    );
}

#[test]
fn the_wildcard_address_is_ipv4() {
    for (value, expected) in [
        ("192.0.2.80", None),
        (
            "2001:db8::80",
            Some(
                "5:20: dns.wildcardAddress: `2001:db8::80` is IPv6, and the wildcard has an IPv4 address only",
            ),
        ),
        (
            "0.0.0.0",
            Some("dns.wildcardAddress: `0.0.0.0` is the unspecified address"),
        ),
        (
            "127.0.0.1",
            Some("warning: dns.wildcardAddress: `127.0.0.1` is a loopback address"),
        ),
    ] {
        let text = with_dns("example.org", &format!("  wildcardAddress: \"{value}\""));
        check(&text, &expected.into_iter().collect::<Vec<_>>());
    }
}

// Holds rule 43.
#[test]
fn times_lie_between_a_second_and_an_hour() {
    for (value, good) in [
        ("1", true),
        ("3600", true),
        ("0", false),
        ("3601", false),
        ("-1", false),
        ("5000000000", false),
    ] {
        for (field, default) in [("ttl", 30), ("negativeTTL", 5)] {
            let part = format!(
                "dns.{field}: `{value}` is outside 1 to 3600 seconds; write a number from 1 to 3600; without the field it is {default}"
            );
            let expected = if good { vec![] } else { vec![part.as_str()] };
            check(
                &with_dns("example.org", &format!("  {field}: {value}")),
                &expected,
            );
        }
    }
    let dns = valid(&with_dns("example.org", "  ttl: 60\n  negativeTTL: 7")).dns;
    assert_eq!((dns.ttl, dns.negative_ttl), (60, 7));
}

// Holds rule 4.
#[test]
fn zone_names_are_folded_accepted_or_refused() {
    assert_eq!(
        valid(&with_dns("'Prod-1.Example.ORG.'", "")).dns.zone,
        name("prod-1.example.org")
    );
    for (zone, expected) in [
        ("_under.example.org", None),
        ("\"\"", Some("4:9: dns.zone: the name is empty")),
        ("\".\"", Some("dns.zone: `.` is the root of all names")),
        (
            "\"*.example.org\"",
            Some("`*.example.org` is not a name: it has the character '*'"),
        ),
        (
            "ex..org",
            Some("`ex..org` is not a name: it has an empty label"),
        ),
        ("a b", Some("`a b` is not a name: it has the character ' '")),
        (
            "bücher.example",
            Some("`bücher.example` is not a name: it has the character 'ü'"),
        ),
        (
            "prod.LOCAL",
            Some(
                "warning: dns.zone: `prod.LOCAL` ends in `.local`, which clients never ask a DNS server for (RFC 6762, multicast DNS)",
            ),
        ),
        (
            "localhost",
            Some("warning: dns.zone: `localhost` ends in `.localhost`"),
        ),
        (
            "prod.invalid.",
            Some("warning: dns.zone: `prod.invalid.` ends in `.invalid`"),
        ),
        (
            "prod.onion",
            Some(
                "warning: dns.zone: `prod.onion` ends in `.onion`, which clients never ask a DNS server for (RFC 7686)",
            ),
        ),
        ("local.example.org", None),
    ] {
        check(
            &with_dns(zone, ""),
            &expected.into_iter().collect::<Vec<_>>(),
        );
    }
}

// Holds rule 4.
#[test]
fn zones_that_are_equal_or_nested_are_refused_and_both_named() {
    for (zones, expected) in [
        (
            &["corp.example", "partner.example", "xprod.example.org"][..],
            &[][..],
        ),
        (
            &["PROD.example.org."],
            &[
                "6:15: dns.extraZones[0].zone: the zone `prod.example.org` is the same zone as `prod.example.org` (dns.zone, line 4)",
            ],
        ),
        (
            &["a.prod.example.org"],
            &["the zone `a.prod.example.org` lies inside `prod.example.org` (dns.zone, line 4)"],
        ),
        (
            &["example.org"],
            &["the zone `example.org` encloses `prod.example.org` (dns.zone, line 4)"],
        ),
        (
            &["a.corp.example", "b.example", "corp.example"],
            &[
                "8:15: dns.extraZones[2].zone: the zone `corp.example` encloses `a.corp.example` (dns.extraZones[0].zone, line 6)",
            ],
        ),
        (
            &["corp.local"],
            &["warning: dns.extraZones[0].zone: `corp.local` ends in `.local`"],
        ),
        (
            &["."],
            &["dns.extraZones[0].zone: `.` is the root of all names"],
        ),
    ] {
        let mut rest = "  extraZones:".to_owned();
        for zone in zones {
            rest += &format!("\n    - {{ zone: \"{zone}\", upstreams: [192.0.2.53] }}");
        }
        check(&with_dns("prod.example.org", &rest), expected);
    }
}

#[test]
fn listening_addresses_need_an_address_and_a_port() {
    for (value, expected) in [
        ("127.0.0.1:5300", None),
        ("[::]:53", None),
        (
            "127.0.0.1",
            Some("listen.dns[0]: `127.0.0.1` has no port; write `127.0.0.1:53`"),
        ),
        ("::1", Some("`::1` has no port; write `[::1]:53`")),
        ("[::1]", Some("`[::1]` has no port; write `[::1]:53`")),
        (
            ":53",
            Some("`:53` has no address; write `[::]:53` for all addresses"),
        ),
        (
            "127.0.0.1:0",
            Some(
                "`127.0.0.1:0` has port 0, which would be another port on each start; write `127.0.0.1:53`",
            ),
        ),
        (
            "localhost:53",
            Some(
                "`localhost:53` is not an IP address with a port; write `127.0.0.1:53` or `[::1]:53`",
            ),
        ),
        (
            "127.0.0.1:70000",
            Some("`127.0.0.1:70000` is not an IP address with a port"),
        ),
        (
            "224.0.0.1:53",
            Some("`224.0.0.1:53` is a multicast address"),
        ),
    ] {
        let text = with_dns("example.org", &format!("listen: {{ dns: [\"{value}\"] }}"));
        check(&text, &expected.into_iter().collect::<Vec<_>>());
    }
    for (listen, expected) in [
        (
            "{ dns: ['127.0.0.1:53', '127.0.0.1:53'] }",
            "listen.dns[1]: `127.0.0.1:53` is listed twice",
        ),
        (
            "{ dns: ['127.0.0.1:53'], http: '127.0.0.1:53' }",
            "listen.http: `127.0.0.1:53` is an address of `listen.dns` too",
        ),
        (
            "{ http: 192.0.2.1 }",
            "listen.http: `192.0.2.1` has no port; write `192.0.2.1:9181`",
        ),
        (
            "{ http: '192.0.2.1:0' }",
            "listen.http: `192.0.2.1:0` has port 0",
        ),
        ("{ dns: [] }", "listen.dns: the list `[]` is empty"),
    ] {
        check(
            &with_dns("example.org", &format!("listen: {listen}")),
            &[expected],
        );
    }
}

#[test]
fn paths_are_not_empty_and_no_keys() {
    for (rest, expected) in [
        ("hosts: ''", "5:8: hosts: the path is empty"),
        ("hosts: '  '", "hosts: the path is empty"),
        (
            "tailnet: { authKeyFile: '' }",
            "5:25: tailnet.authKeyFile: the path is empty",
        ),
        (
            "tailnet: { authKeyFile: tskey-auth-x }",
            "tailnet.authKeyFile: this looks like a key itself, and this file holds no secrets",
        ),
        ("hosts: hskey-auth-x", "hosts: this looks like a key itself"),
    ] {
        check(&with_dns("example.org", rest), &[expected]);
    }
}

#[test]
fn prefixes_are_canonical_ipv4_that_may_be_advertised() {
    for (value, expected) in [
        ("192.0.2.0/24", None),
        ("10.0.10.20/32", None),
        (
            "192.0.2.5/24",
            Some(
                "`192.0.2.5/24` has host bits set, so it is unclear whether it means a network or a host; write `192.0.2.0/24` for the network, or `192.0.2.5/32` for the host",
            ),
        ),
        (
            "192.0.2.1",
            Some("`192.0.2.1` has no prefix length; write `192.0.2.1/32`"),
        ),
        (
            "2001:db8::/32",
            Some("`2001:db8::/32` is IPv6, and a gateway advertises IPv4 only"),
        ),
        (
            "2001:db8::1",
            Some("`2001:db8::1` is IPv6, and a gateway advertises IPv4 only"),
        ),
        (
            "0.0.0.0/0",
            Some(
                "`0.0.0.0/0` cannot be advertised: it is the default route, and a gateway is no exit node",
            ),
        ),
        (
            "100.64.0.0/10",
            Some("cannot be advertised: it overlaps 100.64.0.0/10"),
        ),
        (
            "127.0.0.0/8",
            Some("cannot be advertised: it overlaps the loopback range"),
        ),
        (
            "224.0.0.0/24",
            Some("cannot be advertised: it overlaps the multicast range"),
        ),
        (
            "169.254.0.0/16",
            Some("cannot be advertised: it overlaps the link-local range"),
        ),
        (
            "10.0.0.0/33",
            Some("`10.0.0.0/33` is not an IPv4 prefix; write a prefix such as `192.0.2.0/24`"),
        ),
        (
            "010.0.0.0/8",
            Some(
                "`010.0.0.0/8` has leading zeros, which some programs read as octal; write `10.0.0.0/8`",
            ),
        ),
        ("lan", Some("`lan` is not an IPv4 prefix")),
    ] {
        let expected: Vec<&str> = expected.into_iter().collect();
        check(
            &with_dns("example.org", &format!("routes: {{ lan: [\"{value}\"] }}")),
            &expected,
        );
        check(
            &with_dns(
                "example.org",
                &format!("routes: {{ tailnetLBCIDR: \"{value}\" }}"),
            ),
            &expected,
        );
    }
}

#[test]
fn egress_targets_are_single_ipv4_addresses_that_may_be_advertised() {
    for (value, expected) in [
        ("10.0.10.20", None),
        (
            "10.0.10.20/32",
            Some(
                "routes.egressTargets[0]: `10.0.10.20/32` is a prefix, not an address; write `10.0.10.20`",
            ),
        ),
        (
            "2001:db8::1",
            Some("`2001:db8::1` is IPv6, and a gateway advertises IPv4 only"),
        ),
        (
            "100.64.0.1",
            Some("`100.64.0.1` cannot be advertised: it overlaps 100.64.0.0/10"),
        ),
        (
            "127.0.0.1",
            Some("`127.0.0.1` cannot be advertised: it overlaps the loopback range"),
        ),
        ("0.0.0.0", Some("`0.0.0.0` is the unspecified address")),
        (
            "db.example.org",
            Some("`db.example.org` is not an IP address"),
        ),
    ] {
        let text = with_dns(
            "example.org",
            &format!("routes: {{ egressTargets: [\"{value}\"] }}"),
        );
        check(&text, &expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn repeated_routes_are_dropped_with_a_warning() {
    let text = with_dns(
        "example.org",
        "routes:\n  lan: [192.0.2.0/24, 192.0.2.0/25, 192.0.2.0/24]\n  egressTargets:\n    - 10.0.10.20\n    - 10.0.10.20\n  aggregate: false",
    );
    check(
        &text,
        &[
            "6:37: warning: routes.lan[2]: `192.0.2.0/24` is listed twice, first on line 6; remove one of them",
            "9:7: warning: routes.egressTargets[1]: `10.0.10.20` is listed twice, first on line 8",
        ],
    );
    let routes = valid(&text).routes.unwrap();
    assert_eq!(
        (
            routes.lan.len(),
            routes.egress_targets.len(),
            routes.aggregate
        ),
        (2, 1, false)
    );
}

#[test]
fn more_than_128_lan_prefixes_are_refused() {
    let text = |count: u32| {
        let prefixes: Vec<String> = (0..count)
            .map(|n| format!("10.{}.{}.0/24", n / 256, n % 256))
            .collect();
        with_dns(
            "example.org",
            &format!("routes: {{ lan: [{}] }}", prefixes.join(", ")),
        )
    };
    check(&text(128), &[]);
    check(
        &text(129),
        &["5:16: routes.lan: the list has 129 prefixes, and 128 is the most"],
    );
}

#[test]
fn more_than_4096_egress_targets_are_refused() {
    let text = |count: u32| {
        let targets: Vec<String> = (0..count)
            .map(|n| Ipv4Addr::from(0x0a07_0000 + n).to_string())
            .collect();
        with_dns(
            "example.org",
            &format!("routes: {{ egressTargets: [{}] }}", targets.join(", ")),
        )
    };
    check(&text(4096), &[]);
    check(
        &text(4097),
        &[
            "5:26: routes.egressTargets: the list has 4097 targets, and 4096 is the most; write prefixes",
        ],
    );
}

#[test]
fn a_route_that_cannot_be_advertised_is_left_out_and_the_others_are_used() {
    let text = with_dns(
        "example.org",
        "routes:\n  lan: [192.0.2.0/24, 192.0.2.7/24, 0.0.0.0/0, 203.0.113.0/24]\n  tailnetLBCIDR: \"2001:db8::/32\"\n  egressTargets: [10.0.10.20, 127.0.0.1, x]",
    );
    let parsed = parse(&text);
    assert!(parsed.findings.iter().all(|finding| finding.is_error()));
    assert_eq!(parsed.findings.len(), 5);
    let routes = parsed.config.unwrap().routes.unwrap();
    let wanted: Vec<String> = crate::routes::wanted(&routes)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(wanted, ["10.0.10.20/32", "192.0.2.0/24", "203.0.113.0/24"]);
    let refused: Vec<&str> = routes
        .refused
        .iter()
        .map(|refused| refused.text.as_str())
        .collect();
    assert_eq!(
        refused,
        [
            "192.0.2.7/24",
            "0.0.0.0/0",
            "127.0.0.1",
            "x",
            "2001:db8::/32"
        ]
    );
    assert!(
        routes.refused[0]
            .why
            .contains("write `192.0.2.0/24` for the network")
    );
}

#[test]
fn masquerading_is_on_unless_it_is_switched_off() {
    for (text, expected) in [
        ("{}", true),
        ("{ snat: true }", true),
        ("{ snat: false }", false),
    ] {
        let routes = valid(&with_dns("example.org", &format!("routes: {text}"))).routes;
        assert_eq!(routes.unwrap().snat, expected, "{text}");
    }
}

#[test]
fn a_file_whose_every_route_is_bad_is_not_used() {
    for routes in ["{ lan: [0.0.0.0/0] }", "{ egressTargets: [127.0.0.1, x] }"] {
        let parsed = parse(&with_dns("example.org", &format!("routes: {routes}")));
        assert_eq!(parsed.config, None, "{routes}");
    }
}
