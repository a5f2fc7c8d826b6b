//! Sockets without tailscaled behind them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of tests may fail the test"
)]

mod fake;

use std::path::Path;
use std::time::{Duration, Instant};

use fake::{Fake, Step, fixture, reply};
use tempfile::TempDir;
use tsunaro_localapi::{Error, LocalApi};

async fn fails(socket: &Path) -> (Error, String) {
    let error = LocalApi::new(socket).prefs().await.unwrap_err();
    let watch = LocalApi::new(socket).watch().await.unwrap_err();
    assert_eq!(
        std::mem::discriminant(&error),
        std::mem::discriminant(&watch),
        "{watch:?}"
    );
    let text = error.to_string();
    let path = socket.display().to_string();
    assert!(text.contains(&path), "no socket in {text}");
    (error, text.replace(&path, "SOCK"))
}

#[tokio::test]
async fn an_absent_socket_is_told_apart_from_a_stale_one() {
    let directory = TempDir::new().unwrap();
    for absent in ["sock", "no/such/sock"] {
        let (error, text) = fails(&directory.path().join(absent)).await;
        assert!(matches!(error, Error::SocketAbsent { .. }), "{error:?}");
        assert!(
            text.starts_with("SOCK does not exist: start tailscaled"),
            "{text}"
        );
    }
    let stale = directory.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let (error, text) = fails(&stale).await;
    assert!(matches!(error, Error::SocketStale { .. }), "{error:?}");
    assert!(text.contains("restart it"), "{text}");
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_not_called_stale() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (error, text) = fails(&file).await;
    assert!(matches!(error, Error::NotTailscaled { .. }), "{error:?}");
    assert!(text.contains("a file that is no socket"), "{text}");
    // A component of the path is a file: the socket is absent.
    let (error, _) = fails(&file.join("sock")).await;
    assert!(matches!(error, Error::SocketAbsent { .. }), "{error:?}");
}

#[tokio::test]
async fn peers_that_speak_no_http_are_not_tailscaled() {
    async fn check(script: Vec<Step>) {
        let fake = Fake::start(script);
        let (error, text) = fails(&fake.socket()).await;
        assert!(matches!(error, Error::NotTailscaled { .. }), "{error:?}");
        assert!(text.contains("its answer is no HTTP/1.1"), "{text}");
    }
    let ssh = Step::Send(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec());
    check(vec![ssh.clone(), Step::Hang]).await;
    check(vec![Step::ReadRequest, ssh]).await;
    let binary = Step::Send((0..=255).cycle().take(10_000).collect());
    check(vec![Step::ReadRequest, binary]).await;
    let http2 = Step::Send(b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0".to_vec());
    check(vec![Step::ReadRequest, http2]).await;
    check(vec![
        Step::ReadRequest,
        Step::Send(b"HTTP/1.1 OK\r\n\r\n".to_vec()),
    ])
    .await;
}

#[tokio::test]
async fn other_http_servers_are_not_tailscaled_whatever_their_status() {
    for status in [
        "200 OK",
        "403 Forbidden",
        "404 Not Found",
        "400 Bad Request",
    ] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 14\r\n\r\n{{\"Error\":\"hi\"}}");
        let fake = Fake::answering(answer);
        let (error, text) = fails(&fake.socket()).await;
        assert!(matches!(error, Error::NotTailscaled { .. }), "{error:?}");
        assert!(text.contains("without a Tailscale-Version"), "{text}");
    }
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_a_failure_of_the_connection() {
    async fn check(script: Vec<Step>) {
        let fake = Fake::start(script);
        let error = LocalApi::new(fake.socket()).prefs().await.unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
    }
    check(vec![]).await;
    check(vec![Step::ReadRequest]).await;
    check(vec![
        Step::ReadRequest,
        Step::Send(b"HTTP/1.1 200 OK\r\nTails".to_vec()),
    ])
    .await;
    let mut cut = reply("200 OK", &fixture("prefs-running.json"));
    cut.truncate(cut.len() - 10);
    check(vec![Step::ReadRequest, Step::Send(cut)]).await;
}

#[tokio::test]
async fn a_peer_that_does_not_finish_its_answer_in_time_is_given_up() {
    async fn check(script: Vec<Step>) {
        let fake = Fake::start(script);
        let api = LocalApi::with_timeout(fake.socket(), Duration::from_millis(200));
        let began = Instant::now();
        let error = api.prefs().await.unwrap_err();
        let took = began.elapsed();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
        assert!(
            error
                .to_string()
                .contains("did not answer GET prefs within 200ms"),
            "{error}"
        );
        assert!(
            took >= Duration::from_millis(200) && took < Duration::from_secs(5),
            "{took:?}"
        );
    }
    check(vec![Step::Hang]).await;
    check(vec![
        Step::ReadRequest,
        Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Step::Hang,
    ])
    .await;
    let mut cut = reply("200 OK", &fixture("prefs-running.json"));
    cut.truncate(cut.len() - 10);
    check(vec![Step::ReadRequest, Step::Send(cut), Step::Hang]).await;
    let mut refusal = reply("400 Bad Request", "no, because");
    refusal.truncate(refusal.len() - 3);
    check(vec![Step::ReadRequest, Step::Send(refusal), Step::Hang]).await;
}
