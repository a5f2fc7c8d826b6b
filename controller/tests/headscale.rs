//! The client against servers that a real Headscale cannot be made to be.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of tests may fail the test"
)]

mod headscale_fake;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use headscale_fake::{Fake, KEY, Step, client, json, limits, reply};
use tsunaro_controller::headscale::{Error, MintRequest, Phase};

const NO_NODES: &str = r#"{"nodes":[]}"#;

fn mint() -> MintRequest {
    MintRequest {
        tags: BTreeSet::from(["tag:fabric".to_owned()]),
        expiration: "2026-12-02T01:02:03.123456789Z".parse().unwrap(),
    }
}

/// No error shows the key.
fn checked(error: Error) -> Error {
    let text = format!("{error} {error:?}");
    assert!(!text.contains("s3cret"), "{text}");
    error
}

#[tokio::test]
async fn a_call_carries_the_key_and_says_what_it_takes() {
    let fake = Fake::answering(&[json(NO_NODES)]).await;
    assert!(fake.client().nodes().await.unwrap().is_empty());
    let requests = fake.requests();
    assert_eq!(requests.len(), 1);
    let request = requests[0].to_lowercase();
    assert!(
        request.starts_with("get /api/v1/node http/1.1\r\n"),
        "{request}"
    );
    let host = fake.url().strip_prefix("http://").unwrap();
    for header in [
        format!("host: {host}"),
        format!("authorization: bearer {}", KEY.to_lowercase()),
        "accept: application/json".to_owned(),
    ] {
        assert!(
            request.contains(&format!("\r\n{header}\r\n")),
            "{header} in {request}"
        );
    }
}

#[tokio::test]
async fn health_and_version_are_asked_without_the_key() {
    let health = reply(
        "200 OK",
        "Content-Type: application/health+json; charset=utf-8\r\n",
        r#"{"status":"pass"}"#,
    );
    let version = json(r#"{"version":"v0.29.2","commit":"unknown","go":{}}"#);
    let fake = Fake::answering(&[health, version]).await;
    fake.client().health().await.unwrap();
    assert_eq!(
        fake.client().version().await.unwrap().numbers(),
        Some((0, 29))
    );
    for request in fake.requests() {
        assert!(
            !request.to_lowercase().contains("authorization"),
            "{request}"
        );
    }
}

#[tokio::test]
async fn a_key_is_minted_for_one_login_to_the_nanosecond() {
    let minted = r#"{"preAuthKey":{"id":"5","key":"hskey-auth-new-key","expiration":"2026-12-02T01:02:03.123456789Z","aclTags":["tag:fabric"]}}"#;
    let fake = Fake::answering(&[json(minted)]).await;
    let key = fake.client().mint_key(&mint()).await.unwrap();
    assert_eq!(key.key.secret(), "hskey-auth-new-key");
    assert!(!format!("{key:?}").contains("new-key"));
    let requests = fake.requests();
    let (_, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({
            "reusable": false, "ephemeral": false, "aclTags": ["tag:fabric"],
            "expiration": "2026-12-02T01:02:03.123456789Z",
        })
    );
}

#[tokio::test]
async fn what_fails_for_a_moment_is_asked_again() {
    for trouble in [
        reply("503 Service Unavailable", "", "<html>"),
        reply("502 Bad Gateway", "", ""),
        reply("429 Too Many Requests", "Retry-After: 0\r\n", ""),
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
            .to_vec(),
        Vec::new(),
    ] {
        let fake = Fake::answering(&[trouble, json(NO_NODES)]).await;
        assert!(fake.client().nodes().await.is_ok());
        assert_eq!(fake.requests().len(), 2);
    }
}

#[tokio::test]
async fn tries_end_with_the_last_error() {
    let fake = Fake::answering(&[reply(
        "503 Service Unavailable",
        "",
        "hskey-api-abcdefghijkl-s3cret hskey-api-x",
    )])
    .await;
    let error = checked(fake.client().nodes().await.unwrap_err());
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test]
async fn a_mint_that_may_have_arrived_is_not_made_again() {
    for trouble in [reply("503 Service Unavailable", "", ""), Vec::new()] {
        let fake = Fake::answering(&[trouble]).await;
        let error = checked(fake.client().mint_key(&mint()).await.unwrap_err());
        assert!(
            error.is_transient() && error.may_have_happened(),
            "{error:?}"
        );
        assert_eq!(fake.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_refusal_is_not_asked_again() {
    let problem = "Content-Type: application/problem+json\r\n";
    let answers = [
        reply(
            "404 Not Found",
            problem,
            r#"{"title":"Not Found","status":404,"detail":"node not found"}"#,
        ),
        reply(
            "409 Conflict",
            problem,
            r#"{"title":"Conflict","status":409,"detail":"hskey-api-abcdefghijkl-s3cret"}"#,
        ),
        reply(
            "400 Bad Request",
            problem,
            r#"{"title":"Bad Request","status":400,"detail":"no"}"#,
        ),
        reply("401 Unauthorized", "", "Unauthorized"),
    ];
    let fake = Fake::answering(&answers).await;
    let delete = async || {
        checked(
            fake.client()
                .delete_node("7".parse().unwrap())
                .await
                .unwrap_err(),
        )
    };
    assert!(matches!(delete().await, Error::NotFound { .. }));
    assert!(matches!(delete().await, Error::Conflict { .. }));
    assert!(matches!(
        delete().await,
        Error::Rejected { status: 400, .. }
    ));
    assert!(matches!(
        delete().await,
        Error::Unauthorized { status: 401, .. }
    ));
    assert_eq!(fake.requests().len(), 4);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_goes_nowhere_else() {
    let other = Fake::answering(&[json(NO_NODES)]).await;
    for status in [
        "301 Moved Permanently",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let location = format!("Location: {}/api/v1/node\r\n", other.url());
        let fake = Fake::answering(&[reply(status, &location, "")]).await;
        let error = checked(fake.client().nodes().await.unwrap_err());
        assert!(matches!(error, Error::NotHeadscale { .. }), "{error:?}");
        assert!(error.to_string().contains(other.url()), "{error}");
        assert_eq!(fake.requests().len(), 1);
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn what_is_no_headscale_is_told_so() {
    let html = "Content-Type: text/html\r\n";
    for answer in [
        reply("200 OK", html, "<html>login</html>"),
        reply(
            "404 Not Found",
            html,
            "<html>hskey-api-abcdefghijkl-s3cret</html>",
        ),
        b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
        b"\x00\xff\x00\xff\r\n\r\n".to_vec(),
    ] {
        let fake = Fake::answering(&[answer]).await;
        let error = checked(fake.client().nodes().await.unwrap_err());
        assert!(matches!(error, Error::NotHeadscale { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_understood_names_the_place_and_no_key() {
    for body in [
        "",
        "{",
        "[]",
        r#"{"nodes":[{"id":"x"}]}"#,
        r#"{"nodes":"hskey-api-abcdefghijkl-s3cret"}"#,
    ] {
        let fake = Fake::answering(&[json(body)]).await;
        let error = checked(fake.client().nodes().await.unwrap_err());
        assert!(matches!(error, Error::Decode { .. }), "{body}: {error:?}");
        assert_eq!(fake.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n".to_vec();
    let fake = Fake::start(vec![vec![
        Step::ReadRequest,
        Step::Send(head),
        Step::Send(vec![b' '; 33 << 20]),
        Step::Hang,
    ]])
    .await;
    let patient = limits();
    let patient = tsunaro_controller::headscale::Limits {
        answer: Duration::from_secs(20),
        ..patient
    };
    let error = client(fake.url(), patient).nodes().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLarge {
                what: "the answer",
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_refusal_without_end_is_still_that_refusal() {
    let head = b"HTTP/1.1 401 Unauthorized\r\n\r\n".to_vec();
    let fake = Fake::start(vec![vec![
        Step::ReadRequest,
        Step::Send(head),
        Step::Send(vec![b'x'; 1 << 20]),
        Step::Hang,
    ]])
    .await;
    let error = fake.client().nodes().await.unwrap_err();
    assert!(
        matches!(error, Error::Unauthorized { status: 401, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_server_that_hangs_or_drips_costs_no_more_than_its_time() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n".to_vec();
    let drip = Step::Drip(b' ', Duration::from_millis(20));
    for script in [
        vec![Step::Hang],
        vec![Step::ReadRequest, Step::Hang],
        vec![Step::ReadRequest, Step::Send(head.clone()), Step::Hang],
        vec![Step::ReadRequest, Step::Send(head), drip],
    ] {
        let fake = Fake::start(vec![script]).await;
        let began = Instant::now();
        let error = checked(fake.client().nodes().await.unwrap_err());
        let Error::Timeout { phase, after, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!((phase, after), (Phase::Answering, limits().answer));
        assert!(began.elapsed() >= 2 * limits().answer, "it was asked twice");
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_not_available_and_even_a_mint_is_tried_again() {
    let url = Fake::answering(&[]).await.url().to_owned();
    let began = Instant::now();
    let error = client(&url, limits()).mint_key(&mint()).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Unavailable {
                phase: Phase::Connecting,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(!error.may_have_happened());
    assert!(
        began.elapsed() >= Duration::from_millis(200),
        "there was no pause"
    );
}

#[tokio::test]
async fn a_server_without_tls_behind_an_https_url_is_told_so() {
    let fake = Fake::start(vec![vec![
        Step::Send(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        Step::Hang,
    ]])
    .await;
    let url = fake.url().replace("http://", "https://");
    let error = client(&url, limits()).nodes().await.unwrap_err();
    assert!(matches!(error, Error::NotHeadscale { .. }), "{error:?}");
}

#[tokio::test]
async fn an_older_headscale_is_never_asked_to_disable_an_expiry() {
    let fake = Fake::answering(&[json(r#"{"version":"v0.28.0","commit":"unknown"}"#)]).await;
    let error = fake
        .client()
        .disable_expiry("7".parse().unwrap())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    let requests = fake.requests();
    assert!(
        requests.len() == 1 && requests[0].starts_with("GET /version "),
        "{requests:?}"
    );
}
