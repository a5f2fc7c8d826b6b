use proptest::prelude::*;

use super::*;

#[test]
fn host_names_are_accepted_or_refused_with_a_reason() {
    let long_label = "a".repeat(64);
    let cases: &[(&str, Result<&str, NameError>)] = &[
        ("Web.Example.ORG", Ok("web.example.org.")),
        ("web.example.org.", Ok("web.example.org.")),
        ("under_score-1", Ok("under_score-1.")),
        (".", Ok(".")),
        ("", Err(NameError::Empty)),
        ("a..b", Err(NameError::EmptyLabel)),
        (".a", Err(NameError::EmptyLabel)),
        ("*.a", Err(NameError::Character('*'))),
        ("bücher", Err(NameError::Character('ü'))),
        (&long_label, Err(NameError::LabelTooLong("a".repeat(16)))),
    ];
    for (text, expected) in cases {
        let got = DnsName::parse_host(text);
        assert_eq!(
            got.map(|n| n.to_string()),
            expected.clone().map(str::to_owned),
            "{text}"
        );
    }
}

#[test]
fn a_name_of_253_characters_fits_and_one_more_does_not() {
    let fits = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
    assert_eq!(fits.len(), 253);
    assert!(DnsName::parse_host(&fits).is_ok());
    let over = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(62));
    assert_eq!(DnsName::parse_host(&over), Err(NameError::TooLong));
}

// Holds rule 1.
#[test]
fn suffix_match_is_by_label() {
    let zone = DnsName::parse_host("prod-1.example").unwrap();
    for (name, within) in [
        ("prod-1.example", true),
        ("a.b.prod-1.example", true),
        ("xprod-1.example", false),
        ("example", false),
        (".", false),
    ] {
        assert_eq!(
            DnsName::parse_host(name).unwrap().is_within(&zone),
            within,
            "{name}"
        );
    }
}

// Holds rule 73.
#[test]
fn opaque_octets_stay_one_label_and_are_escaped_in_text() {
    let name = DnsName::from_wire(b"\x03a.b\x03a\x00b\x00").unwrap();
    assert_eq!(name.to_string(), "a\\.b.a\\000b.");
    assert_eq!(name.labels().count(), 2);
}

proptest! {
    #[test]
    fn wire_names_are_read_or_refused_but_never_panic(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(name) = DnsName::from_wire(&octets) {
            prop_assert_eq!(name.as_wire().to_ascii_lowercase(), octets.to_ascii_lowercase());
            let rebuilt = DnsName::from_labels(name.labels()).unwrap();
            prop_assert_eq!(rebuilt, name);
        }
    }

    #[test]
    fn text_goes_in_and_comes_out_the_same(text in "[a-z0-9_-]{1,20}(\\.[a-z0-9_-]{1,20}){0,6}") {
        let name = DnsName::parse_host(&text).unwrap();
        prop_assert_eq!(name.to_string(), format!("{text}."));
    }

    #[test]
    fn the_usual_case_in_one_pass_is_what_the_general_one_writes(
        text in prop_oneof![
            "[a-zA-Z0-9_-]{1,5}(\\.[a-zA-Z0-9_-]{0,5}){0,4}\\.?",
            "[aB._*é -]{0,12}",
            "([a-z]{60,66}\\.){0,5}[a-z]{0,20}",
        ],
        before in "[a-z.]{0,5}",
    ) {
        let mut usual = before.clone().into_bytes();
        let mut general = usual.clone();
        let written = write_text(&text, is_host_character, &mut general);
        if write_good_host(text.as_bytes(), &mut usual) {
            prop_assert_eq!(written, Ok(()));
            prop_assert_eq!(usual, general);
        } else {
            prop_assert_eq!(usual, before.into_bytes());
            prop_assert!(written.is_err() || text == ".");
        }
    }
}
