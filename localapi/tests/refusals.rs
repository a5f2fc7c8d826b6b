//! Refusals of tailscaled: the recorded ones, and some that it could send.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of tests may fail the test"
)]

mod fake;

use fake::{Fake, fixture, reply};
use tsunaro_localapi::{Error, LocalApi};
use tsunaro_model::tailnet::{AuthKey, PrefsChange};

async fn refused(answer: impl Into<Vec<u8>>) -> (Error, String) {
    let fake = Fake::answering(answer);
    let api = LocalApi::new(fake.socket());
    let error = api.change_prefs(&PrefsChange::default()).await.unwrap_err();
    let text = error.to_string();
    let socket = fake.socket().display().to_string();
    assert!(text.contains(&socket), "no socket in {text}");
    (error, text.replace(&socket, "SOCK"))
}

#[tokio::test]
async fn who_is_not_the_operator_is_told_how_to_become_it() {
    let (error, text) = refused(fixture("not-operator.http")).await;
    assert!(
        matches!(&error, Error::Forbidden { message, .. } if message == "prefs write access denied")
    );
    assert!(text.contains(r#""OperatorUser": "nobody""#), "{text}");
    assert!(text.contains("PATCH prefs"), "{text}");
}

#[tokio::test]
async fn a_locked_config_file_is_told_apart() {
    let (error, text) = refused(fixture("locked.http")).await;
    assert!(matches!(error, Error::Locked { .. }), "{error:?}");
    assert!(text.contains(r#""Locked": false"#), "{text}");
}

#[tokio::test]
async fn the_words_of_a_refusal_are_read_from_json_and_from_plain_text() {
    async fn check(answer: Vec<u8>, status: u16, expected: &str) {
        let (error, text) = refused(answer).await;
        let Error::Rejected {
            status: got,
            message,
            ..
        } = error
        else {
            panic!("{error:?}");
        };
        assert_eq!((got, message.as_str()), (status, expected));
        assert_eq!(
            text,
            format!("tailscaled at SOCK refuses PATCH prefs with {status}: {expected}")
        );
    }
    let host_bits = "route 192.0.2.1/24 has non-address bits set; expected 192.0.2.0/24";
    check(fixture("host-bits.http").into_bytes(), 400, host_bits).await;
    let unparsable = r#"netip.ParsePrefix("bogus"): no '/'"#;
    check(fixture("bad-prefix.http").into_bytes(), 400, unparsable).await;
    check(
        fixture("not-found.http").into_bytes(),
        404,
        "404 page not found",
    )
    .await;
    // tailscaled says this without its version, as its handler never ran.
    check(
        fixture("wrong-host.http").into_bytes(),
        403,
        "invalid localapi request",
    )
    .await;
    check(
        reply("500 Oops", r#"{"error":"lower case"}"#),
        500,
        "lower case",
    )
    .await;
    check(
        reply("400 Bad Request", r#"{"Error":3}"#),
        400,
        r#"{"Error":3}"#,
    )
    .await;
    check(reply("400 Bad Request", ""), 400, "").await;
    check(reply("302 Found", "elsewhere"), 302, "elsewhere").await;
    check(
        reply("400 Bad Request", &"x".repeat(70_000)),
        400,
        "(a long text)",
    )
    .await;
    let cut = format!("{}…", "x".repeat(512));
    check(reply("400 Bad Request", &"x".repeat(1000)), 400, &cut).await;
}

#[tokio::test]
async fn no_error_repeats_the_key_that_was_sent() {
    async fn check(key: &str, answer: Vec<u8>, expected: &str) {
        let fake = Fake::answering(answer);
        let auth_key = AuthKey::from_file_content(key).unwrap();
        let error = LocalApi::new(fake.socket())
            .start(&auth_key)
            .await
            .unwrap_err();
        let texts = format!("{error} {error:?}");
        assert!(fake.request().contains(key), "the test sent no key");
        assert!(!texts.contains(key), "{texts}");
        assert!(texts.contains(expected), "{texts}");
    }
    // Headscale's older keys are mere hex digits.
    for key in [
        "0123456789abcdef0123456789abcdef",
        "hskey-auth-0123-abc",
        "tskey-auth-x-y",
    ] {
        let plain = reply("400 Bad Request", &format!("bad key {key:?}, really"));
        check(key, plain, r#"bad key "[redacted]", really"#).await;
        let json = reply("500 Oops", &format!(r#"{{"Error":"no {key}!"}}"#));
        check(key, json, "no [redacted]!").await;
        let forbidden = reply("403 Forbidden", &format!("not {key}"));
        check(key, forbidden, "not [redacted]").await;
        let long = reply("400 Bad Request", &key.repeat(500));
        check(key, long, "[redacted][redacted]").await;
        let longer = reply("400 Bad Request", &key.repeat(8000));
        check(key, longer, "a long text").await;
        let no_http = format!("{key}\r\n\r\n").into_bytes();
        check(key, no_http, "is not tailscaled's").await;
    }
}

#[tokio::test]
async fn answers_of_unknown_shape_say_where_they_are_wrong() {
    async fn check(body: &str, expected: &str) {
        let (error, text) = refused(reply("200 OK", body)).await;
        assert!(matches!(error, Error::Decode { .. }), "{error:?}");
        assert!(text.contains(expected), "{text}");
    }
    check("", "EOF while parsing").await;
    check("{}", "missing field `ControlURL`").await;
    check("<html>", "expected value at line 1 column 1").await;
    check(
        r#"{"ControlURL":"tskey-auth-1"} tskey-auth-1"#,
        "missing field",
    )
    .await;
    check(
        r#"{"ControlURL":"","RouteAll":"tskey-auth-1"}"#,
        "[redacted]",
    )
    .await;
}

#[tokio::test]
async fn a_request_that_is_too_long_is_not_sent() {
    let fake = Fake::answering(fixture("login-accepted.http"));
    let key = AuthKey::from_file_content(&"k".repeat(2 << 20)).unwrap();
    let error = LocalApi::new(fake.socket()).start(&key).await.unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { limit, .. } if limit == 1 << 20),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(text.starts_with("the request of POST start"), "{text}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_given_up() {
    let body = " ".repeat((4 << 20) + 1);
    let (error, text) = refused(reply("200 OK", &body)).await;
    assert!(
        matches!(error, Error::TooLarge { limit, .. } if limit == 4 << 20),
        "{error:?}"
    );
    assert!(text.starts_with("the answer of PATCH prefs"), "{text}");
}
