use proptest::prelude::*;

use super::*;

/// Any line without its end and without NUL; half of them look like hosts lines.
fn garbage_line() -> impl Strategy<Value = Vec<u8>> {
    let byte = (1u8..).prop_filter("no line end", |b| *b != b'\n');
    prop_oneof![
        prop::collection::vec(byte, 0..60),
        "[0-9a-f:.%/]{0,20}[ \t]{1,3}[ -~ü]{0,40}\r?".prop_map(String::into_bytes),
    ]
}

fn good_entry() -> impl Strategy<Value = (IpAddr, String)> {
    let address = prop_oneof![
        (1u8..=223, any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| IpAddr::from([a, b, c, d])),
        any::<u64>().prop_map(|low| IpAddr::V6((0x2001_0db8_u128 << 96 | u128::from(low)).into())),
    ];
    (address, "[A-Za-z0-9_-]{1,20}(\\.[a-z0-9-]{1,20}){0,4}\\.?")
}

fn holds(hosts: &Hosts) {
    assert!(hosts.findings.len() <= Hosts::MAX_FINDINGS);
    assert!(
        hosts.skipped
            >= hosts
                .findings
                .iter()
                .filter(|finding| !finding.what.contains("loopback"))
                .count()
    );
    assert!(hosts.findings.is_sorted_by_key(|finding| finding.position));
    assert!(hosts.findings.iter().all(|finding| !finding.is_error()));
}

proptest! {
    #[test]
    fn any_bytes_give_hosts_or_an_error(bytes in any::<Vec<u8>>()) {
        if let Ok(hosts) = Hosts::parse(&bytes) {
            holds(&hosts);
        }
    }

    // Holds rule 31.
    #[test]
    fn a_good_entry_survives_any_garbage_on_other_lines(
        before in prop::collection::vec(garbage_line(), 0..6),
        after in prop::collection::vec(garbage_line(), 0..6),
        (address, name) in good_entry(),
    ) {
        let line = format!("{address} {name}").into_bytes();
        let lines: Vec<Vec<u8>> = before.into_iter().chain([line]).chain(after).collect();
        let hosts = Hosts::parse(&lines.join(&b'\n')).unwrap();
        holds(&hosts);
        let name = DnsName::parse_host(&name).unwrap();
        let entry = HostEntry { name, address };
        prop_assert!(hosts.entries.iter().any(|known| known == entry));
    }

    // Holds rule 32.
    #[test]
    fn a_good_name_survives_any_names_beside_it(
        names in prop::collection::vec("[!-\"$-~üß]{1,30}", 0..6),
        at in any::<prop::sample::Index>(),
        (address, name) in good_entry(),
    ) {
        let mut names = names;
        names.insert(at.index(names.len() + 1), name.clone());
        let hosts = Hosts::parse(format!("{address} {}", names.join("\t")).as_bytes()).unwrap();
        holds(&hosts);
        prop_assert_eq!(hosts.entries.len() + hosts.skipped, names.len());
        let name = DnsName::parse_host(&name).unwrap();
        let entry = HostEntry { name, address };
        prop_assert!(hosts.entries.iter().any(|known| known == entry));
    }
}
