use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::*;

/// Far below [`HEAD_TIMEOUT`], after which a slow client goes by itself.
const SOON: Duration = Duration::from_secs(5);

async fn start(tasks: &mut JoinSet<anyhow::Result<()>>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/metrics", get(async || "m".repeat(1 << 20)));
    tasks.spawn(accept(listener, router));
    address
}

async fn connect(server: SocketAddr, octets: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(octets).await.unwrap();
    stream
}

async fn is_alive(server: SocketAddr) {
    let asked = async {
        let mut stream = connect(
            server,
            b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        )
        .await;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let text = tokio::time::timeout(SOON, asked).await.unwrap();
    assert!(text.ends_with("\r\n\r\nok\n"), "{text}");
}

/// More clients than there is room for, each with this and then silence; the probe is answered at once.
async fn check(octets: &[u8]) {
    let mut tasks = JoinSet::new();
    let server = start(&mut tasks).await;
    let mut crowd = Vec::new();
    for _ in 0..MAX_CONNECTIONS + 50 {
        crowd.push(connect(server, octets).await);
    }
    is_alive(server).await;
}

#[tokio::test]
async fn clients_that_never_finish_a_request_keep_no_probe_away() {
    check(b"GET /livez HT").await;
}

#[tokio::test]
async fn clients_that_connect_and_say_nothing_keep_no_probe_away() {
    check(b"").await;
}

#[tokio::test]
async fn clients_that_ask_for_heads_alone_keep_no_probe_away() {
    check(b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
}

#[tokio::test]
async fn clients_that_do_not_read_their_answers_keep_no_probe_away() {
    let many = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(8);
    check(&many).await;
}

#[tokio::test]
async fn the_connection_that_asked_last_stays_and_the_oldest_goes() {
    let mut tasks = JoinSet::new();
    let server = start(&mut tasks).await;
    let asks = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut first = connect(server, b"GET /livez HT").await;
    let mut busy = connect(server, asks).await;
    let mut crowd = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        crowd.push(connect(server, b"GET /livez HT").await);
        // It reads its answer and asks again.
        let mut head = [0; 15];
        busy.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\nok\n") {
            text.push(busy.read_u8().await.unwrap());
        }
        busy.write_all(asks).await.unwrap();
    }
    let ended = tokio::time::timeout(SOON, first.read(&mut [0; 1])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
}
