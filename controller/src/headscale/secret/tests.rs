use super::*;

#[test]
fn an_api_key_is_taken_from_a_secrets_content_and_never_shown() {
    let text = format!("hskey-api-{}-{}", "p".repeat(12), "s".repeat(64));
    let key = ApiKey::parse(&format!(" {text}\n")).unwrap();
    assert_eq!(key.secret(), text);
    let shown = format!("{key:?} {:?}", key.authorization());
    assert_eq!(shown, "ApiKey(redacted) Sensitive");
}

#[test]
fn what_is_no_api_key_is_refused_with_the_remedy_and_without_the_text() {
    fn check(content: &str, expected: InvalidApiKey) {
        let error = ApiKey::parse(content).unwrap_err();
        assert_eq!(error, expected);
        let text = error.to_string();
        assert!(text.contains("headscale apikeys create"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    check("", InvalidApiKey::Empty);
    check(" \n", InvalidApiKey::Empty);
    check("hskey-auth-s3cret", InvalidApiKey::PreAuthKey);
    check("s3cret s3cret", InvalidApiKey::Characters);
    check("s3cret\r\nX-Evil: 1", InvalidApiKey::Characters);
    check("schlüssel-s3cret", InvalidApiKey::Characters);
}

#[test]
fn a_key_knows_how_headscale_lists_it() {
    fn check(key: &str, expected: Option<&str>) {
        assert_eq!(ApiKey::parse(key).unwrap().listed_as().as_deref(), expected);
    }
    check(
        "hskey-api-abc_EF-012345-secret",
        Some("hskey-api-abc_EF-01234-***"),
    );
    check("hskey-api-short", None);
    check("1234567.secret", Some("1234567***"));
    check("123.secret", None);
    check("nothing-known", None);
}
