use proptest::prelude::*;
use tsunaro_model::tailnet::AuthKey;

use super::{MAX_CHARS, Redactor};

fn key(text: &str) -> AuthKey {
    AuthKey::from_file_content(text).unwrap()
}

#[test]
fn keys_of_known_shape_are_removed_without_knowing_them() {
    fn check(text: &str, expected: &str) {
        assert_eq!(Redactor::default().clean(text), expected);
    }
    check("no key here", "no key here");
    check(
        "bad key \"hskey-auth-0123_ab-CD\", sorry",
        "bad key \"[redacted]\", sorry",
    );
    check("tskey-auth-kA1-b2 tskey-client-x", "[redacted] [redacted]");
    check("privkey:00ff and nlpriv:aa", "[redacted] and [redacted]");
    check("hskey-", "[redacted]");
    check("two\nlines\t\u{1b}[31m", "two lines  [31m");
    check("  404 page not found\n", "404 page not found");
}

#[test]
fn a_long_text_is_cut_and_says_so() {
    let clean = Redactor::default().clean(&"ä".repeat(MAX_CHARS + 1));
    assert_eq!(clean.chars().count(), MAX_CHARS + 1);
    assert!(clean.ends_with("ä…"));
    let whole = Redactor::default().clean(&"ä".repeat(MAX_CHARS));
    assert!(!whole.ends_with('…'));
}

#[test]
fn a_known_key_is_removed_in_its_json_form_too() {
    let redactor = Redactor::knowing(&key(r#"old"style\key"#));
    assert_eq!(
        redactor.clean(r#"{"k":"old\"style\\key"} old"style\key."#),
        r#"{"k":"[redacted]"} [redacted]."#
    );
}

proptest! {
    #[test]
    fn no_text_keeps_a_known_key(
        secret in "[!-~]{12,80}",
        before in ".{0,600}",
        between in ".{0,40}",
    ) {
        let redactor = Redactor::knowing(&key(&secret));
        let clean = redactor.clean(&format!("{before}{secret}{between}{secret}"));
        prop_assert!(!clean.contains(&secret), "{clean}");
    }

    #[test]
    fn any_text_can_be_cleaned(text in any::<String>()) {
        prop_assert!(Redactor::default().clean(&text).chars().count() <= MAX_CHARS + 1);
    }
}
