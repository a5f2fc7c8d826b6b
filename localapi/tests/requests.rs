//! What goes over the wire, and what comes of good answers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of tests may fail the test"
)]

mod fake;

use fake::{Fake, fixture, reply};
use tsunaro_localapi::LocalApi;
use tsunaro_model::tailnet::{AuthKey, Backend, PrefsChange};

fn body_of(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

fn ok(body: &str) -> Fake {
    Fake::answering(reply("200 OK", body))
}

#[tokio::test]
async fn status_is_asked_without_peers_and_with_the_host_that_tailscaled_wants() {
    let fake = ok(&fixture("status-running.json"));
    let status = LocalApi::new(fake.socket()).status().await.unwrap();
    assert_eq!(status.backend, Backend::Running);
    let request = fake.request();
    assert!(
        request.starts_with("GET /localapi/v0/status?peers=false HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("\r\nhost: local-tailscaled.sock\r\n"),
        "{request}"
    );
    for refused in ["origin:", "referer:"] {
        assert!(!request.to_lowercase().contains(refused), "{request}");
    }
}

#[tokio::test]
async fn a_change_is_patched_and_the_prefs_that_come_back_are_returned() {
    let fake = ok(&fixture("prefs-running.json"));
    let change = PrefsChange {
        advertise_routes: Some(vec!["192.0.2.0/24".parse().unwrap()]),
        ..PrefsChange::default()
    };
    let prefs = LocalApi::new(fake.socket())
        .change_prefs(&change)
        .await
        .unwrap();
    assert_eq!(prefs.advertise_routes.len(), 2);
    let request = fake.request();
    assert!(
        request.starts_with("PATCH /localapi/v0/prefs HTTP/1.1\r\n"),
        "{request}"
    );
    assert_eq!(
        body_of(&request),
        r#"{"AdvertiseRoutes":["192.0.2.0/24"],"AdvertiseRoutesSet":true}"#
    );
}

#[tokio::test]
async fn a_login_sends_the_key_then_asks_for_the_login() {
    let fake = Fake::answering(fixture("login-accepted.http"));
    let key = AuthKey::from_file_content("hskey-auth-abc\n").unwrap();
    LocalApi::new(fake.socket()).start(&key).await.unwrap();
    let request = fake.request();
    assert!(
        request.starts_with("POST /localapi/v0/start HTTP/1.1\r\n"),
        "{request}"
    );
    assert_eq!(body_of(&request), r#"{"AuthKey":"hskey-auth-abc"}"#);

    let fake = Fake::answering(fixture("login-accepted.http"));
    LocalApi::new(fake.socket())
        .login_interactive()
        .await
        .unwrap();
    let request = fake.request();
    assert!(
        request.starts_with("POST /localapi/v0/login-interactive HTTP/1.1\r\n"),
        "{request}"
    );
    assert_eq!(body_of(&request), "");
}

#[tokio::test]
async fn a_check_without_a_warning_is_none() {
    let fake = Fake::answering(fixture("ip-forwarding.http"));
    let api = LocalApi::new(fake.socket());
    assert_eq!(api.check_ip_forwarding().await.unwrap(), None);
    let fake = ok(r#"{"Warning":"IP forwarding is disabled"}"#);
    let api = LocalApi::new(fake.socket());
    assert_eq!(
        api.check_ip_forwarding().await.unwrap().as_deref(),
        Some("IP forwarding is disabled")
    );
    let fake = ok(r#"{"Warning":"UDP GRO is off"}"#);
    let api = LocalApi::new(fake.socket());
    assert_eq!(
        api.check_udp_gro_forwarding().await.unwrap().as_deref(),
        Some("UDP GRO is off")
    );
    assert!(
        fake.request()
            .starts_with("GET /localapi/v0/check-udp-gro-forwarding ")
    );
}

#[tokio::test]
async fn dns_settings_are_none_until_there_is_a_network_map() {
    let fake = Fake::answering(fixture("no-netmap.http"));
    assert_eq!(
        LocalApi::new(fake.socket()).dns_config().await.unwrap(),
        None
    );
    let fake = ok(&fixture("dns-config.json"));
    let dns = LocalApi::new(fake.socket())
        .dns_config()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(dns.routes.len(), 4);
    let fake = Fake::answering(reply("503 Service Unavailable", "busy"));
    LocalApi::new(fake.socket()).dns_config().await.unwrap_err();
}

#[tokio::test]
async fn one_client_serves_many_requests_at_once() {
    let fake = ok(&fixture("prefs-running.json"));
    let api = LocalApi::new(fake.socket());
    let all = (0..50).map(|_| api.prefs());
    for prefs in futures::future::join_all(all).await {
        assert_eq!(prefs.unwrap().hostname, "prod-1-gw");
    }
}
