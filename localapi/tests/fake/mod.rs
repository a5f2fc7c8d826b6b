//! A peer at the end of a unix socket that does what a test tells it to.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// What the peer does on each connection, in order; then it closes.
#[derive(Clone)]
pub(crate) enum Step {
    /// Reads one whole request and records it.
    ReadRequest,
    /// Sends bytes.
    Send(Vec<u8>),
    /// Waits for the client to close.
    Hang,
}

/// The peer. It stops when dropped.
pub(crate) struct Fake {
    directory: TempDir,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Fake {
    /// Listens and follows the script on every connection.
    pub(crate) fn start(script: Vec<Step>) -> Self {
        let directory = TempDir::new().unwrap();
        let listener = UnixListener::bind(directory.path().join("sock")).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&requests);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(follow(stream, script.clone(), Arc::clone(&recorder)));
            }
        });
        Self {
            directory,
            requests,
            _tasks: tasks,
        }
    }

    /// Answers every request with these bytes and closes.
    pub(crate) fn answering(reply: impl Into<Vec<u8>>) -> Self {
        Self::start(vec![Step::ReadRequest, Step::Send(reply.into())])
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("sock")
    }

    /// The only request so far.
    pub(crate) fn request(&self) -> String {
        let requests = self.requests.lock().unwrap();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }
}

async fn follow(mut stream: UnixStream, script: Vec<Step>, recorder: Arc<Mutex<Vec<String>>>) {
    for step in script {
        match step {
            Step::ReadRequest => {
                let request = read_request(&mut stream).await;
                recorder.lock().unwrap().push(request);
            }
            // The client may be gone by then, which some tests are about.
            Step::Send(bytes) => {
                let _ = stream.write_all(&bytes).await;
            }
            Step::Hang => {
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        }
    }
}

async fn read_request(stream: &mut UnixStream) -> String {
    let mut text = String::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        let count = stream.read(&mut chunk).await.unwrap();
        assert_ne!(count, 0, "the client closed in the middle of {text:?}");
        text.push_str(std::str::from_utf8(&chunk[..count]).unwrap());
    }
}

/// A reply as tailscaled sends it, with this status line and body.
pub(crate) fn reply(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nTailscale-Cap: 142\r\n\
         Tailscale-Version: 1.102.4\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The head of the bus, as tailscaled sends it.
pub(crate) fn bus_head() -> Step {
    Step::Send(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTailscale-Version: 1.102.4\r\n\
          Transfer-Encoding: chunked\r\n\r\n"
            .to_vec(),
    )
}

/// One chunk of the bus's body.
pub(crate) fn chunk(data: &str) -> Step {
    Step::Send(format!("{:x}\r\n{data}\r\n", data.len()).into_bytes())
}

/// The orderly end of the bus's body.
pub(crate) fn last_chunk() -> Step {
    Step::Send(b"0\r\n\r\n".to_vec())
}

/// A recorded reply or body.
pub(crate) fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
