mod properties;

use super::*;
use crate::name::DnsName;

const EXAMPLE: &str = include_str!("../../../docs/examples/prod-1/hosts");

/// The entries as `address name` in file order.
fn entries(hosts: &Hosts) -> Vec<String> {
    hosts
        .entries
        .iter()
        .map(|HostEntry { name, address }| format!("{address} {name}"))
        .collect()
}

fn printed(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| finding.in_file("hosts").to_string())
        .collect()
}

/// Holds the entries of `text`, and a part of each finding. A good line is added at the end, so
/// that files of nothing but bad lines can be looked into.
fn check(text: &[u8], expected: &[&str], findings: &[&str]) {
    let shown = String::from_utf8_lossy(text);
    let hosts = Hosts::parse(&[text, b"\n192.0.2.254 last"].concat()).unwrap();
    let mut found = entries(&hosts);
    assert_eq!(found.pop().as_deref(), Some("192.0.2.254 last."), "{shown}");
    assert_eq!(found, expected, "{shown}");
    let lines = printed(&hosts.findings);
    assert_eq!(lines.len(), findings.len(), "{shown}: {lines:#?}");
    for (line, part) in lines.iter().zip(findings) {
        assert!(
            line.contains(part),
            "{shown}\nexpected {part}\nin       {line}"
        );
    }
}

#[test]
fn the_worked_example_parses_without_findings() {
    let hosts = Hosts::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(printed(&hosts.findings), Vec::<String>::new());
    assert_eq!(
        (hosts.content_lines, hosts.skipped, hosts.entries.len()),
        (8, 0, 9)
    );
    assert!(entries(&hosts).contains(&"198.51.100.80 proxy.corp.example.".to_owned()));
}

#[test]
fn rule_31_lines_are_read_however_they_are_laid_out() {
    for (text, expected) in [
        (&b"192.0.2.1 a"[..], &["192.0.2.1 a."][..]),
        (
            b"192.0.2.1 a b.c\n192.0.2.2 d\n",
            &["192.0.2.1 a.", "192.0.2.1 b.c.", "192.0.2.2 d."],
        ),
        (b"\xef\xbb\xbf192.0.2.1 a\n", &["192.0.2.1 a."]),
        (
            b"192.0.2.1 a\r\n192.0.2.2 b\r\n",
            &["192.0.2.1 a.", "192.0.2.2 b."],
        ),
        (
            b"\t 192.0.2.1 \t\t a  b \t\n",
            &["192.0.2.1 a.", "192.0.2.1 b."],
        ),
        (b"# all\n  # of it\n192.0.2.1 a # b c\n", &["192.0.2.1 a."]),
        (b"192.0.2.1 a#b\n", &["192.0.2.1 a."]),
        (b"#192.0.2.1 a\n\n\n", &[]),
    ] {
        check(text, expected, &[]);
    }
}

#[test]
fn rule_31_a_line_may_be_longer_than_64_kib() {
    let names: Vec<String> = (0..20_000).map(|n| format!("n{n}.example.org")).collect();
    let text = format!("192.0.2.1 {}\n192.0.2.2 after", names.join(" "));
    let hosts = Hosts::parse(text.as_bytes()).unwrap();
    assert_eq!(
        (hosts.entries.len(), hosts.content_lines, hosts.skipped),
        (20_001, 2, 0)
    );
}

#[test]
fn rule_32_names_are_folded_and_bad_ones_skipped_while_the_line_stays() {
    let long_label = format!("192.0.2.1 {} ok", "a".repeat(64));
    let long_name = format!("192.0.2.1 {}b ok", "a.".repeat(127));
    for (text, expected, findings) in [
        (
            &b"192.0.2.1 WEB.Example.ORG."[..],
            &["192.0.2.1 web.example.org."][..],
            &[][..],
        ),
        (
            b"192.0.2.1 _srv -x- xn--bcher-kva.example",
            &[
                "192.0.2.1 _srv.",
                "192.0.2.1 -x-.",
                "192.0.2.1 xn--bcher-kva.example.",
            ],
            &[],
        ),
        (
            b"192.0.2.1 a *.b c",
            &["192.0.2.1 a.", "192.0.2.1 c."],
            &[
                "hosts:1:13: warning: `*.b` is not a host name: it has the character '*', which is none of a-z, 0-9, '-' and '_'; write each name; only `dns.wildcardAddress`",
            ],
        ),
        (
            b"192.0.2.1 a..b ok",
            &["192.0.2.1 ok."],
            &["`a..b` is not a host name: it has an empty label"],
        ),
        (
            b"192.0.2.1 . ok",
            &["192.0.2.1 ok."],
            &["`.` is not a host name"],
        ),
        (
            b"192.0.2.1 a,b ok",
            &["192.0.2.1 ok."],
            &["`a,b` is not a host name: it has the character ','"],
        ),
        (
            "192.0.2.1 ü.example é ok".as_bytes(),
            &["192.0.2.1 ok."],
            &[
                "hosts:1:11: warning: `ü.example` is not a host name: it has the character 'ü', which is none of a-z, 0-9, '-' and '_'; write the name in its ASCII form",
                "hosts:1:21: warning: `é`",
            ],
        ),
        (
            b"192.0.2.1 \xff\xfe ok",
            &["192.0.2.1 ok."],
            &["hosts:1:11: warning: `\u{fffd}\u{fffd}` is not a host name"],
        ),
        (
            long_label.as_bytes(),
            &["192.0.2.1 ok."],
            &["is longer than 63 octets; shorten it"],
        ),
        (
            long_name.as_bytes(),
            &["192.0.2.1 ok."],
            &["it is longer than 253 characters; shorten it"],
        ),
        (
            b"192.0.2.1",
            &[],
            &[
                "hosts:1:1: warning: the address `192.0.2.1` has no name; write one or more names after it",
            ],
        ),
        (
            b"192.0.2.1 # nothing",
            &[],
            &["the address `192.0.2.1` has no name"],
        ),
    ] {
        check(text, expected, findings);
    }
    let longest = format!("192.0.2.1 {}b", "a.".repeat(126));
    assert_eq!(Hosts::parse(longest.as_bytes()).unwrap().skipped, 0);
}

#[test]
fn rule_33_addresses_are_read_or_their_line_is_skipped() {
    for (address, expected, finding) in [
        ("192.0.2.1", Some("192.0.2.1 a."), None),
        ("2001:DB8::1", Some("2001:db8::1 a."), None),
        ("::ffff:192.0.2.1", Some("192.0.2.1 a."), None),
        ("::ffff:c000:201", Some("192.0.2.1 a."), None),
        ("fe80::1", Some("fe80::1 a."), None),
        (
            "127.0.0.1",
            Some("127.0.0.1 a."),
            Some("hosts:1:1: warning: `127.0.0.1` is a loopback address"),
        ),
        ("::1", Some("::1 a."), Some("`::1` is a loopback address")),
        (
            "192.0.2.010",
            None,
            Some(
                "`192.0.2.010` has leading zeros, which some programs read as octal; write `192.0.2.10`; the line is skipped",
            ),
        ),
        ("192.0.2.00", None, Some("has leading zeros")),
        ("192.0.2", None, Some("`192.0.2` is not an IP address")),
        ("192.0.2.256", None, Some("is not an IP address")),
        ("0xc0000201", None, Some("is not an IP address")),
        ("3221225985", None, Some("is not an IP address")),
        ("fe80::1%eth0", None, Some("`fe80::1%eth0` has a scope id")),
        (
            "0.0.0.0",
            None,
            Some("`0.0.0.0` is the unspecified address"),
        ),
        ("::", None, Some("`::` is the unspecified address")),
        ("::ffff:0.0.0.0", None, Some("is the unspecified address")),
        (
            "224.0.0.1",
            None,
            Some("`224.0.0.1` is a multicast address"),
        ),
        ("ff02::1", None, Some("`ff02::1` is a multicast address")),
        (
            "192.0.2.1/24",
            None,
            Some("`192.0.2.1/24` is a prefix, not an address; write `192.0.2.1`"),
        ),
        ("[2001:db8::1]", None, Some("is not an IP address")),
        (
            "web.example.org",
            None,
            Some("`web.example.org` is not an IP address"),
        ),
    ] {
        let (expected, finding): (Vec<_>, Vec<_>) = (
            expected.into_iter().collect(),
            finding.into_iter().collect(),
        );
        check(format!("{address} a").as_bytes(), &expected, &finding);
    }
    check(
        b"\xff\xfe a",
        &[],
        &["is not an IP address; write an IPv4 address such as"],
    );
}

// Holds rule 33.
#[test]
fn a_loopback_address_is_remarked_but_not_counted_as_skipped() {
    let hosts = Hosts::parse(b"127.0.0.1 localhost\n0.0.0.0 x\n192.0.2.1 a *\n").unwrap();
    assert_eq!(
        (
            hosts.content_lines,
            hosts.skipped,
            hosts.findings.len(),
            hosts.entries.len()
        ),
        (3, 2, 3, 2)
    );
}

#[test]
fn rule_39_a_file_without_content_is_valid_and_empty() {
    for text in [
        "",
        "\n\n",
        "# nothing\n",
        "\u{feff}",
        "\r\n \t\r\n",
        "\u{feff}# nothing",
    ] {
        assert_eq!(
            Hosts::parse(text.as_bytes()),
            Ok(Hosts::default()),
            "{text:?}"
        );
    }
}

#[test]
fn rule_39_a_file_of_which_nothing_can_be_used_is_an_error_with_the_reasons() {
    for (text, lines) in [
        (&b"<html>\n<body>404</body>\n"[..], 2),
        (b"{}", 1),
        (b"192.0.2.1\n", 1),
        (b"192.0.2.1 *\n# more\n0.0.0.0 ads.example.org\n", 2),
    ] {
        let error = Hosts::parse(text).unwrap_err();
        let HostsError::NothingUsable {
            content_lines,
            findings,
        } = &error
        else {
            panic!("{error:?}")
        };
        assert_eq!((*content_lines, findings.len()), (lines, lines));
        assert!(
            error
                .to_string()
                .starts_with(&format!("none of {lines} lines with content")),
            "{error}"
        );
    }
}

#[test]
fn rule_39_what_a_comment_hides_in_a_file_of_bare_carriage_returns_is_told() {
    for text in [
        &b"# names\r192.0.2.1 a\r192.0.2.2 b\r"[..],
        b"# names\r192.0.2.1 a",
    ] {
        let error = Hosts::parse(text).unwrap_err();
        let HostsError::NothingUsable { findings, .. } = &error else {
            panic!("{error:?}")
        };
        let position = crate::finding::Position { line: 1, column: 9 };
        assert_eq!((findings.len(), findings[0].position), (1, position));
        assert!(
            findings[0].what.contains("carriage return alone"),
            "{findings:?}"
        );
    }
    // Beside entries that can be used it costs nothing but what it hides.
    let hosts = Hosts::parse(b"192.0.2.1 a # x\r192.0.2.2 b\n192.0.2.3 c\n").unwrap();
    assert_eq!((hosts.entries.len(), hosts.skipped), (2, 1));
    for harmless in ["# x\r\n", "# x \r \n192.0.2.1 a\r\n", "#\r"] {
        let hosts = Hosts::parse(harmless.as_bytes()).unwrap();
        assert_eq!(hosts.skipped, 0, "{harmless:?}");
    }
}

#[test]
fn rule_39_a_file_with_a_nul_byte_is_an_error_that_names_the_line() {
    for (text, line, column) in [
        (&b"\0"[..], 1, 1),
        (b"192.0.2.1 a\n192.0.2.2 b\0c\n", 2, 12),
        (b"# \0 in a comment", 1, 3),
        (b"192.0.2.1 \xc3\xbc\0", 1, 12),
        (b"1\x009\x002\x00.\x00", 1, 2),
    ] {
        let error = Hosts::parse(text).unwrap_err();
        assert_eq!(
            error,
            HostsError::Nul(crate::finding::Position { line, column })
        );
        assert!(
            error
                .to_string()
                .starts_with(&format!("line {line} has a NUL byte")),
            "{error}"
        );
    }
}

#[test]
fn findings_are_capped_and_skips_count_on() {
    let mut text = "192.0.2.1 good\n".to_owned();
    for n in 0..500 {
        text += &format!("192.0.2.1 *.n{n} bad! also.good\n");
    }
    let hosts = Hosts::parse(text.as_bytes()).unwrap();
    assert_eq!(
        (hosts.findings.len(), hosts.skipped, hosts.entries.len()),
        (Hosts::MAX_FINDINGS, 1000, 501)
    );
    let last = hosts.findings.last().unwrap().position;
    assert_eq!((last.line, last.column), (51, 17));
}

#[test]
fn a_name_is_what_it_would_be_anywhere_else() {
    let hosts = Hosts::parse(b"192.0.2.1 Web.Example.ORG").unwrap();
    assert_eq!(
        hosts.entries.iter().next().unwrap().name,
        DnsName::parse_host("web.example.org").unwrap()
    );
}
