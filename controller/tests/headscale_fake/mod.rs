//! A server that does what a test tells it to, and remembers what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tsunaro_controller::headscale::{ApiKey, Headscale, Limits, ServerUrl, Trust};

/// The key of the tests' clients.
pub(crate) const KEY: &str = "hskey-api-abcdefghijkl-s3cret";

/// What the server does on a connection, in order; then it closes.
#[derive(Clone)]
pub(crate) enum Step {
    /// Reads one whole request and records it.
    ReadRequest,
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends this byte again and again, with a pause before each.
    Drip(u8, Duration),
    /// Waits for the client to close.
    Hang,
}

/// The server. It stops when dropped.
pub(crate) struct Fake {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Fake {
    /// Follows one script per connection; the last one for all that come after.
    pub(crate) async fn start(scripts: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&requests);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let script = scripts.get(number).or(scripts.last()).unwrap().clone();
                number += 1;
                connections.spawn(follow(stream, script, Arc::clone(&recorder)));
            }
        });
        Self {
            url,
            requests,
            _tasks: tasks,
        }
    }

    /// Answers the requests with these, in order, and closes after each.
    pub(crate) async fn answering(answers: &[Vec<u8>]) -> Self {
        let script = |answer: &Vec<u8>| vec![Step::ReadRequest, Step::Send(answer.clone())];
        Self::start(answers.iter().map(script).collect()).await
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn client(&self) -> Headscale {
        client(&self.url, limits())
    }
}

/// Short, so that a test of a server that hangs is short.
pub(crate) fn limits() -> Limits {
    Limits {
        connect: Duration::from_millis(500),
        answer: Duration::from_millis(500),
        call: Duration::from_secs(20),
        tries: 2,
    }
}

pub(crate) fn client(url: &str, limits: Limits) -> Headscale {
    let server = ServerUrl::parse(url).unwrap();
    let key = ApiKey::parse(KEY).unwrap();
    Headscale::with_limits(server, key, Trust::public().unwrap(), limits)
}

/// An answer with this status line and body.
pub(crate) fn reply(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// An answer of success.
pub(crate) fn json(body: &str) -> Vec<u8> {
    reply("200 OK", "Content-Type: application/json\r\n", body)
}

async fn follow(mut stream: TcpStream, script: Vec<Step>, recorder: Arc<Mutex<Vec<String>>>) {
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
            Step::Drip(byte, pause) => loop {
                tokio::time::sleep(pause).await;
                if stream.write_all(&[byte]).await.is_err() {
                    return;
                }
            },
            Step::Hang => {
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
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
