use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::{drive, is_connection_failure};

/// How the first request fails when this is already there to read; the peer stays.
async fn fails(greeting: &[u8]) -> hyper::Error {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(greeting).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
    let mut connection = Box::pin(connection);
    let request = Request::new(Full::<Bytes>::default());
    let sending = sender.send_request(request);
    drive(connection.as_mut(), sending).await.unwrap_err()
}

#[tokio::test]
async fn a_peer_that_speaks_first_breaks_the_protocol_and_not_the_connection() {
    for greeting in ["SSH-2.0-OpenSSH_9.2\r\n", "220 mail.example.com\r\n"] {
        let error = fails(greeting.as_bytes()).await;
        assert!(!is_connection_failure(&error), "{error:?}");
    }
}
