//! A server on loopback, and upstreams that do as the question's first label says.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tsunaro_dns::forwarding::{Failure, Forwarded, Question, Resolve};
use tsunaro_dns::metrics::DnsMetrics;
use tsunaro_dns::server::{Limits, ServeError, Server};
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::Snapshot;

use crate::fixture::{a, forwarded, w1};

/// Longer than anything here should take, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// `slow` waits for a permit of the gate, `panic` panics, `cached` is known at once; then, as all
/// others, 198.51.100.7.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) gate: Semaphore,
    /// Questions that got as far as the upstreams.
    pub(crate) asked: AtomicUsize,
}

impl Resolve for Script {
    fn resolve_from_cache(&self, question: &Question) -> Option<Result<Forwarded, Failure>> {
        let known = question.name.to_string().starts_with("cached.");
        known.then(|| Ok(forwarded(vec![a("cached.E", "198.51.100.8")])))
    }

    fn resolve(
        &self,
        zone: &DnsName,
        question: &Question,
    ) -> impl Future<Output = Result<Forwarded, Failure>> + Send {
        assert_eq!(zone.to_string(), crate::message::E);
        self.asked.fetch_add(1, Ordering::SeqCst);
        let name = question.name.to_string();
        async move {
            if name.starts_with("slow.") {
                self.gate.acquire().await.unwrap().forget();
            }
            assert!(!name.starts_with("panic."), "as the question wants it");
            Ok(forwarded(vec![a(
                name.trim_end_matches('.'),
                "198.51.100.7",
            )]))
        }
    }
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) zone: Arc<ArcSwap<Snapshot>>,
    pub(crate) upstream: Arc<Script>,
    pub(crate) metrics: Arc<DnsMetrics>,
    pub(crate) stop: CancellationToken,
    serving: JoinSet<Result<(), ServeError>>,
}

/// Serves the fixture's zone with the wildcard.
pub(crate) fn serve(listener: &str, limits: Limits) -> Running {
    let zone = Arc::new(ArcSwap::new(w1().0));
    let upstream = Arc::new(Script {
        gate: Semaphore::new(0),
        asked: AtomicUsize::new(0),
    });
    let metrics = Arc::new(DnsMetrics::default());
    let server = Server::bind(
        &[listener.parse().unwrap()],
        Arc::clone(&zone),
        Arc::clone(&upstream),
        Arc::clone(&metrics),
        limits,
    )
    .unwrap();
    let address = server.addresses()[0];
    let stop = CancellationToken::new();
    let mut serving = JoinSet::new();
    serving.spawn(server.run(stop.clone()));
    Running {
        address,
        zone,
        upstream,
        metrics,
        stop,
        serving,
    }
}

impl Running {
    /// The address as a client on this machine sees it.
    pub(crate) fn at(&self, ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), self.address.port())
    }

    /// How `run` ended.
    pub(crate) async fn ended(&mut self) -> Result<(), ServeError> {
        within(self.serving.join_next()).await.unwrap().unwrap()
    }

    /// Waits until `count` questions wait for upstreams.
    pub(crate) async fn until_waiting(&self, count: u64) {
        until(|| self.metrics.snapshot().in_flight == count).await;
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("within the patience of the tests")
}

pub(crate) async fn until(condition: impl Fn() -> bool) {
    within(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A client whose socket takes nothing but what `server` itself sends.
pub(crate) async fn udp_client(server: SocketAddr) -> UdpSocket {
    let any = if server.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(any).await.unwrap();
    socket.connect(server).await.unwrap();
    socket
}

pub(crate) async fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = vec![0; 65_535];
    let len = within(socket.recv(&mut buffer)).await.unwrap();
    buffer.truncate(len);
    buffer
}

pub(crate) async fn exchange(socket: &UdpSocket, query: &[u8]) -> Vec<u8> {
    socket.send(query).await.unwrap();
    receive(socket).await
}

/// The next message; none when the server has closed.
pub(crate) async fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    within(async {
        let length = stream.read_u16().await.ok()?;
        let mut message = vec![0; usize::from(length)];
        stream.read_exact(&mut message).await.unwrap();
        Some(message)
    })
    .await
}

pub(crate) async fn tcp_exchange(stream: &mut TcpStream, framed: &[u8]) -> Vec<u8> {
    stream.write_all(framed).await.unwrap();
    read_frame(stream).await.expect("a reply")
}
