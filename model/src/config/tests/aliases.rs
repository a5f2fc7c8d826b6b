use super::*;

const ZONE: &str = "prod.example.org";

/// A file with one static record per line, each in braces.
fn records(records: &[&str]) -> String {
    let mut rest =
        "  extraZones: [{ zone: corp.example, upstreams: [192.0.2.53] }]\n  staticRecords:"
            .to_owned();
    for record in records {
        rest += &format!("\n    - {{ {record} }}");
    }
    with_dns(ZONE, &rest)
}

fn static_records(lines: &[&str]) -> Vec<(String, String)> {
    let show = |StaticRecord { name, data }: &StaticRecord| {
        let data = match data {
            StaticData::Alias(target) => target.to_string(),
            StaticData::Addresses(addresses) => format!("{addresses:?}"),
        };
        (name.to_string(), data)
    };
    valid(&records(lines))
        .dns
        .static_records
        .iter()
        .map(show)
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
        .collect()
}

#[test]
fn rule_19_names_are_relative_and_several_addresses_form_one_rrset() {
    let found = static_records(&[
        "name: '@', address: 192.0.2.1",
        "name: Web, address: 192.0.2.2",
        "name: a.b_c, address: 192.0.2.3",
        "name: web, address: '2001:db8::2'",
        "name: web, address: '::ffff:192.0.2.4'",
    ]);
    assert_eq!(
        found,
        pairs(&[
            ("prod.example.org.", "[192.0.2.1]"),
            (
                "web.prod.example.org.",
                "[192.0.2.2, 2001:db8::2, 192.0.2.4]"
            ),
            ("a.b_c.prod.example.org.", "[192.0.2.3]"),
        ])
    );
}

#[test]
fn rule_19_absolute_names_and_wildcards_are_refused_with_what_to_write() {
    for (owner, expected) in [
        (
            "x.",
            "7:15: dns.staticRecords[0].name: `x.` ends with a dot, and names of static records are relative to the zone; write `x` if it lies in the zone",
        ),
        (
            "x.prod.example.org",
            "`x.prod.example.org` repeats the zone, and names of static records are relative to the zone; write `x`",
        ),
        (
            "a.b.PROD.example.org.",
            "repeats the zone, and names of static records are relative to the zone; write `a.b`",
        ),
        (
            "prod.example.org",
            "repeats the zone, and names of static records are relative to the zone; write \"@\"",
        ),
        (
            ".",
            "`.` ends with a dot, and names of static records are relative to the zone; write \"@\"",
        ),
        (
            "*",
            "`*` is a wildcard, and static records have none; use `dns.wildcardAddress`",
        ),
        ("a.*.b", "`a.*.b` is a wildcard"),
        ("", "the name is empty"),
        ("a b", "`a b` is not a name: it has the character ' '"),
        ("a..b", "`a..b` is not a name: it has an empty label"),
    ] {
        check(
            &records(&[&format!("name: \"{owner}\", address: 192.0.2.1")]),
            &[expected],
        );
    }
    let long = vec!["a".repeat(63); 4].join(".");
    check(
        &records(&[&format!("name: {}, address: 192.0.2.1", &long[..240])]),
        &["below the zone is not a name: it is longer than 253 characters"],
    );
}

#[test]
fn rule_20_a_target_without_a_dot_is_relative_and_one_with_a_dot_is_absolute() {
    let found = static_records(&[
        "name: a, target: WEB",
        "name: b, target: web.prod.example.org",
        "name: c, target: web.prod.example.org.",
        "name: d, target: web.corp.example",
    ]);
    assert_eq!(
        found,
        pairs(&[
            ("a.prod.example.org.", "web.prod.example.org."),
            ("b.prod.example.org.", "web.prod.example.org."),
            ("c.prod.example.org.", "web.prod.example.org."),
            ("d.prod.example.org.", "web.corp.example."),
        ])
    );
}

#[test]
fn rule_29_a_target_outside_all_zones_is_a_warning() {
    for (target, shown) in [
        ("web.sub", "web.sub"),
        ("com.", "com"),
        ("www.example.org", "www.example.org"),
    ] {
        let what = format!(
            "7:26: warning: dns.staticRecords[0].target: the target `{target}` lies outside all zones here, and clients with glibc or musl do not follow such an alias; write `address: …`, or the full name `{shown}.prod.example.org`"
        );
        check(&records(&[&format!("name: a, target: {target}")]), &[&what]);
    }
}

#[test]
fn targets_that_are_no_host_names_are_refused() {
    for (target, expected) in [
        (".", "dns.staticRecords[0].target: `.` is no host"),
        ("@", "`@` is not a name"),
        ("*.web", "`*.web` is not a name"),
        ("", "the name is empty"),
    ] {
        check(
            &records(&[&format!("name: a, target: \"{target}\"")]),
            &[expected],
        );
    }
}

#[test]
fn a_record_has_either_an_address_or_a_target() {
    check(
        &records(&["name: a"]),
        &["7:7: dns.staticRecords[0]: the record has neither `address` nor `target`"],
    );
    check(
        &records(&["name: a, address: 192.0.2.1, target: b"]),
        &["7:46: dns.staticRecords[0].target: the record has both `address` and `target`"],
    );
    check(
        &records(&["name: a, address: 192.0.2.300"]),
        &["dns.staticRecords[0].address: `192.0.2.300` is not an IP address"],
    );
}

#[test]
fn rule_21_conflicts_at_one_name_are_refused() {
    for (lines, expected) in [
        (
            &["name: '@', target: web"][..],
            &["dns.staticRecords[0].target: the zone itself cannot be an alias"][..],
        ),
        (
            &["name: a, address: 192.0.2.1", "name: A, target: web"],
            &[
                "8:26: dns.staticRecords[1].target: `A` has a target and an address, the first of them on line 7",
            ],
        ),
        (
            &["name: a, target: web", "name: a, address: 192.0.2.1"],
            &["dns.staticRecords[1].address: `a` has a target and an address"],
        ),
        (
            &["name: a, target: b", "name: a, target: c"],
            &["8:26: dns.staticRecords[1].target: `a` has two targets, the first on line 7"],
        ),
        (
            &["name: a, target: b", "name: a, target: b"],
            &["`a` has two targets"],
        ),
        (
            &["name: a, target: a"],
            &["7:26: dns.staticRecords[0].target: `a.prod.example.org` is an alias of itself"],
        ),
        (
            &["name: a, address: 192.0.2.1", "name: a, address: 192.0.2.1"],
            &[
                "8:27: warning: dns.staticRecords[1].address: the address `192.0.2.1` of `a` is listed twice",
            ],
        ),
    ] {
        check(&records(lines), expected);
    }
}

#[test]
fn rule_21_a_circle_is_reported_once_with_all_members() {
    check(
        &records(&[
            "name: in, target: x",
            "name: z, target: x",
            "name: x, target: y",
            "name: y, target: z.prod.example.org",
            "name: self, target: self",
            "name: toself, target: self",
        ]),
        &[
            "8:26: dns.staticRecords[1].target: these aliases form a circle: `z.prod.example.org` → `x.prod.example.org` → `y.prod.example.org` → `z.prod.example.org`; let one of them end at an address",
            "11:29: dns.staticRecords[4].target: `self.prod.example.org` is an alias of itself",
        ],
    );
}

fn chain(links: usize) -> Vec<String> {
    (0..links)
        .map(|n| format!("name: n{n}, target: n{}", n + 1))
        .collect()
}

#[test]
fn rule_21_eight_aliases_may_follow_each_other_and_nine_may_not() {
    for (links, expected) in [
        (8, &[][..]),
        (
            9,
            &[
                "7:27: dns.staticRecords[0].target: more than 8 aliases follow each other: `n0.prod.example.org` → `n1.prod.example.org` → ",
            ],
        ),
        (20, &["more than 8 aliases follow each other"]),
    ] {
        let chain = chain(links);
        check(
            &records(&chain.iter().map(String::as_str).collect::<Vec<_>>()),
            expected,
        );
    }
}

// Holds rules 21 and 30.
#[test]
fn every_accepted_chain_is_one_that_answers_can_follow() {
    use crate::zone::{End, HostsInput, Snapshot, rtype};
    let mut lines = chain(8);
    lines.push("name: n8, address: 192.0.2.8".to_owned());
    let config = valid(&records(
        &lines.iter().map(String::as_str).collect::<Vec<_>>(),
    ));
    let (snapshot, _) = Snapshot::build(&config.dns, HostsInput::NotConfigured, 1, 1);
    let resolution = snapshot.resolve(&name("n0.prod.example.org"), rtype::A);
    assert!(matches!(resolution.end, End::Records(..)), "{resolution:?}");
}
