use proptest::prelude::*;

use super::*;

#[test]
fn keys_of_known_shape_and_control_characters_are_removed() {
    fn check(text: &str, expected: &str) {
        assert_eq!(clean(text, ""), expected);
    }
    check("no key here", "no key here");
    check(
        "bad \"hskey-auth-01_ab-CD\", sorry",
        "bad \"[redacted]\", sorry",
    );
    check(
        "Bearer hskey-api-x-y tskey-z",
        "Bearer [redacted] [redacted]",
    );
    check("privkey:00ff", "[redacted]");
    check(
        "token eyJhbGciOi.eyJpc3M.c2ln-_: bad",
        "token [redacted]: bad",
    );
    check("not Bearer abc.d~ef= here", "not Bearer [redacted] here");
    check(" two\nlines\u{1b}[31m ", "two lines [31m");
}

#[test]
fn a_long_text_is_cut_and_says_so() {
    let cut = clean(&"ä".repeat(MAX_CHARS + 1), "");
    assert_eq!(cut.chars().count(), MAX_CHARS + 1);
    assert!(cut.ends_with("ä…"));
    assert!(!clean(&"ä".repeat(MAX_CHARS), "").ends_with('…'));
}

proptest! {
    #[test]
    fn no_text_keeps_our_key(
        secret in "[!-~]{12,80}",
        before in ".{0,600}",
        between in ".{0,40}",
    ) {
        let clean = clean(&format!("{before}{secret}{between}{secret}"), &secret);
        prop_assert!(!clean.contains(&secret), "{clean}");
    }
}
