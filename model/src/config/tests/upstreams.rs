use super::*;

fn upstreams(list: &str) -> String {
    with_dns(
        "example.org",
        &format!(
            "  addresses: [198.51.100.17]\n  extraZones:\n    - zone: corp.example\n      upstreams: [{list}]"
        ),
    )
}

#[test]
fn upstreams_are_addresses_with_or_without_a_port() {
    let config = valid(&upstreams(
        "192.0.2.53, '192.0.2.54:5353', '2001:db8::53', '[2001:db8::54]:5353', '::ffff:192.0.2.55', 127.0.0.53",
    ));
    let found: Vec<String> = config.dns.extra_zones[0]
        .upstreams
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "192.0.2.53:53",
            "192.0.2.54:5353",
            "[2001:db8::53]:53",
            "[2001:db8::54]:5353",
            "192.0.2.55:53",
            "127.0.0.53:53"
        ]
    );
}

#[test]
fn upstreams_that_cannot_be_asked_are_refused_with_what_to_write() {
    for (value, expected) in [
        (
            "[2001:db8::1]",
            "8:19: dns.extraZones[0].upstreams[0]: `[2001:db8::1]` has brackets but no port; write `2001:db8::1`, or `[2001:db8::1]:53`",
        ),
        (
            "192.0.2.2:0",
            "`192.0.2.2:0` has port 0; write `192.0.2.2` for port 53",
        ),
        ("[fe80::1%2]:53", "`[fe80::1%2]:53` has a scope id"),
        ("fe80::1%eth0", "`fe80::1%eth0` has a scope id"),
        (
            "ns1.example.org",
            "`ns1.example.org` is not an IP address, and upstreams are not looked up by name",
        ),
        ("tls://192.0.2.1", "`tls://192.0.2.1` is not an IP address"),
        ("192.0.2.1:99999", "`192.0.2.1:99999` is not an IP address"),
        (
            "192.0.2.01",
            "`192.0.2.01` has leading zeros, which some programs read as octal; write `192.0.2.1`",
        ),
        ("192.0.2.0/24", "`192.0.2.0/24` is a prefix, not an address"),
        ("0.0.0.0", "`0.0.0.0` is the unspecified address"),
        ("[::]:53", "`[::]:53` is the unspecified address"),
        ("224.0.0.1:53", "`224.0.0.1:53` is a multicast address"),
        ("", "\"\" is not an IP address"),
        (
            "192.0.2.1', '192.0.2.1:53",
            "warning: dns.extraZones[0].upstreams[1]: the upstream `192.0.2.1:53` is listed twice",
        ),
        (
            "198.51.100.17",
            "warning: dns.extraZones[0].upstreams[0]: the upstream `198.51.100.17` is also in `dns.addresses`",
        ),
        (
            "100.100.100.100",
            "warning: dns.extraZones[0].upstreams[0]: the upstream `100.100.100.100` is the tailnet's own resolver",
        ),
    ] {
        check(&upstreams(&format!("'{value}'")), &[expected]);
    }
    check(&upstreams("'198.51.100.17:5353'"), &[]);
    check(
        &upstreams(""),
        &[
            "8:18: dns.extraZones[0].upstreams: the list `[]` is empty; add the address of at least one DNS server",
        ],
    );
}

#[test]
fn rule_4_an_upstream_that_is_one_of_our_listeners_is_an_error() {
    for (listener, upstream, same) in [
        ("127.0.0.1:5300", "127.0.0.1:5300", true),
        ("127.0.0.1:5300", "127.0.0.1", false),
        ("127.0.0.1:53", "127.0.0.1", true),
        ("127.0.0.1:53", "::ffff:127.0.0.1", true),
        ("[::ffff:127.0.0.1]:53", "127.0.0.1", true),
        ("0.0.0.0:53", "127.0.0.53", true),
        ("0.0.0.0:53", "::1", false),
        ("0.0.0.0:53", "192.0.2.1", false),
        ("[::]:53", "127.0.0.1", true),
        ("[::]:53", "::1", true),
        ("[::]:53", "2001:db8::1", false),
        ("[::]:5300", "::1", false),
        ("[2001:db8::1]:53", "2001:db8::1", true),
    ] {
        let parsed = parse(&upstreams(&format!("192.0.2.53, '{upstream}'")));
        let listeners = [
            "198.51.100.1:53".parse().unwrap(),
            listener.parse().unwrap(),
        ];
        let found = printed(&parsed.check_upstreams_against(&listeners));
        assert_eq!(!found.is_empty(), same, "{listener} {upstream}: {found}");
        if same {
            assert!(
                found.starts_with(
                    "gateway.yaml:8:31: dns.extraZones[0].upstreams[1]: the upstream `"
                ),
                "{found}"
            );
            assert!(
                found.contains(&format!(
                    "is this gateway itself, which listens on `{listener}`; "
                )),
                "{found}"
            );
        }
    }
}

#[test]
fn rule_4_an_upstream_that_is_an_own_address_of_the_host_is_found_when_those_are_known() {
    let own: Vec<IpAddr> = ["127.0.0.1", "192.0.2.5", "2001:db8::5"]
        .map(|text| text.parse().unwrap())
        .into();
    for (listener, upstream, same) in [
        ("0.0.0.0:53", "192.0.2.5", true),
        ("0.0.0.0:53", "192.0.2.5:5353", false),
        ("0.0.0.0:53", "192.0.2.6", false),
        ("0.0.0.0:53", "2001:db8::5", false),
        ("[::]:53", "192.0.2.5", true),
        ("[::]:53", "::ffff:192.0.2.5", true),
        ("[::]:53", "2001:db8::5", true),
        ("192.0.2.9:53", "192.0.2.5", false),
    ] {
        let config = valid(&upstreams(&format!("203.0.113.53, '{upstream}'")));
        let found = loops(&config, &[listener.parse().unwrap()], &own);
        assert_eq!(!found.is_empty(), same, "{listener} {upstream}: {found:?}");
        for remark in found {
            assert!(
                remark.starts_with("dns.extraZones[0].upstreams: "),
                "{remark}"
            );
        }
    }
}
