//! A tap between the controller and both its servers: it sees every request, and may kill the
//! controller before a request arrives or before its answer does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tsunaro_integration::lab::{Cmd, Process, Rest};
use tsunaro_integration::wait_until;

use crate::beside::Beside;

/// Where the controller finds the API server and Headscale, on the node.
pub(crate) const API: &str = "127.0.0.1:8100";
pub(crate) const HEADSCALE: &str = "127.0.0.1:8101";
/// `kubectl proxy`, which speaks TLS for us.
const PLAIN: &str = "127.0.0.1:8102";

/// Who asked for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) to: To,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum To {
    ApiServer,
    Headscale,
}

impl Seen {
    pub(crate) fn is_write(&self) -> bool {
        self.method != "GET"
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Pass,
    /// The controller is killed and nobody gets the request.
    KillBefore,
    /// The request is answered and the controller killed before it hears.
    KillAfter,
    /// It takes so many milliseconds longer.
    Slow(u64),
    /// The answer is this HTTP status, and nobody gets the request.
    Status(u16),
    /// The connection is cut.
    Reset,
    /// No answer ever comes, and the connection stays.
    Hang,
}

type Judge = Box<dyn FnMut(&Seen) -> Fate + Send>;

struct State {
    /// The file with the id of the process to kill.
    victim: Option<PathBuf>,
    judge: Judge,
    counts: BTreeMap<(To, String), usize>,
}

/// A running tap. It ends with the process.
pub(crate) struct Tap {
    state: Arc<Mutex<State>>,
    _proxy: Process,
}

impl Drop for Tap {
    fn drop(&mut self) {
        // The loop around it has ended, or is about to be: one that is left would outlive the test.
        let _ = self.kill();
    }
}

impl Tap {
    pub(crate) fn start(beside: &Beside, rest: Rest) -> Result<Self> {
        let machine = beside.node.machine();
        let (_, port) = PLAIN.split_once(':').context("a port")?;
        let proxy = machine.spawn(
            beside
                .node
                .kubectl_cmd(&["proxy", "--port", port, "--disable-filter"])
                .name("kubectl-proxy"),
        )?;
        let state = Arc::new(Mutex::new(State {
            victim: None,
            judge: Box::new(|_| Fate::Pass),
            counts: BTreeMap::new(),
        }));
        let (shared, rest) = (Arc::clone(&state), Arc::new(rest));
        let namespace = Path::new("/run/netns").join(machine.namespace());
        std::thread::Builder::new()
            .name("tap".to_owned())
            .spawn(move || run(&namespace, &shared, &rest))
            .context("start a thread")?;
        wait_until("the tap", Duration::from_secs(20), || {
            let (code, _) = machine.http_get(&format!("http://{API}/readyz"))?;
            Ok((code == 200).then_some(()))
        })?;
        Ok(Self {
            state,
            _proxy: proxy,
        })
    }

    /// A kubeconfig that leads through the tap.
    pub(crate) fn kubeconfig() -> Value {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "tap",
            "clusters": [{ "name": "tap", "cluster": { "server": format!("http://{API}") } }],
            "users": [{ "name": "tap", "user": {} }],
            "contexts": [{ "name": "tap", "context": { "cluster": "tap", "user": "tap" } }],
        })
    }

    /// Kills the controller that [`immortal`] keeps running.
    pub(crate) fn kill(&self) -> Result<()> {
        let victim = self.state().victim.clone();
        kill_victim(victim)
    }

    /// Whom to kill: a process that is not started again.
    pub(crate) fn follow(&self, process: &Process) -> Result<()> {
        let file = std::env::temp_dir().join(format!("tsunaro-tap-{}.pid", std::process::id()));
        std::fs::write(&file, process.pid().to_string())?;
        self.state().victim = Some(file);
        Ok(())
    }

    pub(crate) fn judge(&self, judge: impl FnMut(&Seen) -> Fate + Send + 'static) {
        self.state().judge = Box::new(judge);
    }

    /// Requests since the last time, by server and method; watches are counted when they begin.
    pub(crate) fn take_counts(&self) -> BTreeMap<(To, String), usize> {
        std::mem::take(&mut self.state().counts)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A controller that goes by the tap.
pub(crate) fn controller(beside: &Beside, more: &[&str]) -> Result<Process> {
    let machine = beside.node.machine();
    let config = machine.write("tap.kubeconfig", &Tap::kubeconfig().to_string())?;
    machine.spawn(
        Cmd::new(&beside.controller)
            .args(["run", "--http-listen", "127.0.0.1:9182"])
            // A killed holder's lease would have to run out first: tests of the Lease have their own.
            .args(["--log-format", "text", "--leader-elect", "false"])
            .args(more.iter().copied())
            .env("KUBECONFIG", config.display().to_string()),
    )
}

/// A controller that goes by the tap, and starts again as often as it is killed.
pub(crate) fn immortal(beside: &Beside, tap: &Tap) -> Result<Process> {
    let machine = beside.node.machine();
    let config = machine.write("tap.kubeconfig", &Tap::kubeconfig().to_string())?;
    let victim = machine.dir().join("controller.pid");
    let script = format!(
        "while :; do {} run --http-listen 127.0.0.1:9182 --log-format text --leader-elect false \
         --headscale-interval 2 & echo $! > {victim}.new; mv {victim}.new {victim}; wait $!; done",
        beside.controller.display(),
        victim = victim.display(),
    );
    tap.state().victim = Some(victim);
    machine.spawn(
        Cmd::new("sh")
            .args(["-c", &script])
            .name("controller-loop")
            .env("KUBECONFIG", config.display().to_string()),
    )
}

fn kill_victim(file: Option<PathBuf>) -> Result<()> {
    let file = file.context("nobody to kill")?;
    let pid = std::fs::read_to_string(file)?.trim().parse()?;
    kill(Pid::from_raw(pid), Signal::SIGKILL).context("kill the controller")
}

type Shared = Arc<Mutex<State>>;
type Body = UnsyncBoxBody<Bytes, hyper::Error>;

fn run(namespace: &Path, state: &Shared, rest: &Arc<Rest>) -> Result<()> {
    let file = std::fs::File::open(namespace)?;
    // Of this thread alone, and of those that its runtime makes.
    setns(file, CloneFlags::CLONE_NEWNET)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let api = TcpListener::bind(API).await?;
        let headscale = TcpListener::bind(HEADSCALE).await?;
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (stream, to) = tokio::select! {
                accepted = api.accept() => (accepted?.0, To::ApiServer),
                accepted = headscale.accept() => (accepted?.0, To::Headscale),
                Some(_) = connections.join_next() => continue,
            };
            let (state, rest) = (Arc::clone(state), Arc::clone(rest));
            let service = service_fn(move |request| {
                let (state, rest) = (Arc::clone(&state), Arc::clone(&rest));
                async move { answer(to, request, &state, rest).await }
            });
            connections.spawn(async move {
                // A controller that was killed leaves its connections.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    })
}

async fn answer(
    to: To,
    request: Request<Incoming>,
    state: &Shared,
    rest: Arc<Rest>,
) -> Result<Response<Body>, Cut> {
    match answer_or_fail(to, request, state, rest).await {
        Ok(response) => Ok(response),
        Err(error) if error.is::<Cut>() => Err(Cut),
        Err(error) => {
            let mut response = Response::new(full(format!("the tap: {error:#}")));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            Ok(response)
        }
    }
}

/// hyper cuts the connection of a service that fails.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut")
    }
}

impl std::error::Error for Cut {}

async fn answer_or_fail(
    to: To,
    request: Request<Incoming>,
    state: &Shared,
    rest: Arc<Rest>,
) -> Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let content_type = parts.headers.get("content-type");
    let seen = Seen {
        to,
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        content_type: content_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let (fate, victim) = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        *state.counts.entry((to, seen.method.clone())).or_default() += 1;
        let fate = (state.judge)(&seen);
        (fate, state.victim.clone())
    };
    if fate == Fate::KillBefore {
        kill_victim(victim)?;
        return Err(anyhow!("not sent"));
    }
    match fate {
        Fate::Pass | Fate::KillBefore | Fate::KillAfter => {}
        Fate::Slow(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        Fate::Reset => return Err(Cut.into()),
        Fate::Hang => std::future::pending().await,
        Fate::Status(code) => {
            let status = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "the tap says no", "code": code,
            });
            let mut response = Response::new(full(status.to_string()));
            *response.status_mut() = StatusCode::from_u16(code)?;
            let headers = response.headers_mut();
            headers.insert("content-type", "application/json".parse()?);
            if code == 429 {
                headers.insert("retry-after", "1".parse()?);
            }
            return Ok(response);
        }
    }
    let response = match to {
        To::ApiServer => forward(Request::from_parts(parts, Full::new(body))).await?,
        To::Headscale => {
            let asked = seen.clone();
            let path = asked.path.trim_start_matches("/api/v1/").to_owned();
            let answered = tokio::task::spawn_blocking(move || {
                let body = (!asked.body.is_null()).then_some(&asked.body);
                rest.request(&asked.method, &path, body)
            })
            .await??;
            let mut response = Response::new(full(answered.1));
            *response.status_mut() = StatusCode::from_u16(answered.0)?;
            response
                .headers_mut()
                .insert("content-type", "application/json".parse()?);
            response
        }
    };
    if fate == Fate::KillAfter {
        // The answer as a whole: what the server does, it has done then.
        let _ = response.into_body().collect().await;
        kill_victim(victim)?;
        return Err(anyhow!("not answered"));
    }
    Ok(response)
}

async fn forward(request: Request<Full<Bytes>>) -> Result<Response<Body>> {
    let stream = TcpStream::connect(PLAIN).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut connection: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>> =
        Box::pin(connection);
    let response = tokio::select! {
        response = sender.send_request(request) => response?,
        ended = &mut connection => return Err(anyhow!("no answer: {ended:?}")),
    };
    let (parts, body) = response.into_parts();
    let driven = Driven {
        body,
        connection: Some(connection),
        _sender: sender,
    };
    Ok(Response::from_parts(parts, BodyExt::boxed_unsync(driven)))
}

/// A body that drives the connection that it comes by.
struct Driven {
    body: Incoming,
    connection: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    _sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
}

impl hyper::body::Body for Driven {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, hyper::Error>>> {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(context).is_ready()
        {
            self.connection = None;
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text))
        .map_err(|never| match never {})
        .boxed_unsync()
}
