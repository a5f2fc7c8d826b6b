//! An upstream resolver that behaves as a test tells it, well or badly.
//!
//! It serves UDP and TCP on one port of a loopback address, keeps what it saw,
//! and ends when it is dropped. The first label of the question name chooses
//! what a well-behaved one says: `nx` NXDOMAIN with SOA, `nxnosoa` without,
//! `ndnosoa` NODATA without SOA, `stale…` a TTL of 1 s, `bigudp` 40 addresses
//! without OPT, `wrongid` replies to other questions before the right one,
//! `extra` records that nobody asked for; any other name has the address (TTL
//! 60), a TXT and an HTTPS record, and an SOA.

mod answer;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use hickory_proto::op::Message;

use super::client::free_port;
use super::udp;

/// What an upstream does with a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Answers; the address is what A questions get.
    Answer(Ipv4Addr),
    /// Never answers.
    Silent,
    /// SERVFAIL.
    ServFail,
    /// REFUSED.
    Refused,
    /// NXDOMAIN with SOA.
    NxDomain,
    /// Answers after this time.
    Late(Duration, Ipv4Addr),
    /// Is a forwarder: asks this address and passes the reply back.
    ForwardTo(SocketAddr),
}

/// A query that an upstream saw.
#[derive(Debug, Clone)]
pub struct Seen {
    /// As decoded.
    pub query: Message,
}

impl Seen {
    /// The question name in the case received, with a final dot.
    #[must_use]
    pub fn name(&self) -> String {
        let question = self.query.queries.first();
        question.map_or_else(String::new, |question| question.name().to_ascii())
    }
}

/// A running upstream.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    behaviour: Mutex<Behaviour>,
    seen: Mutex<Vec<Seen>>,
    stopped: AtomicBool,
}

impl Upstream {
    /// Starts on a free port of a loopback address.
    pub fn start(ip: IpAddr, behaviour: Behaviour) -> Result<Self> {
        let address = SocketAddr::new(ip, free_port(ip)?);
        let socket = UdpSocket::bind(address).context("bind an upstream")?;
        let listener = TcpListener::bind(address).context("bind an upstream")?;
        let shared = Arc::new(Shared {
            behaviour: Mutex::new(behaviour),
            seen: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let (for_udp, for_tcp) = (Arc::clone(&shared), Arc::clone(&shared));
        let socket = Arc::new(socket);
        let threads = vec![
            std::thread::spawn(move || serve_udp(&socket, &for_udp)),
            std::thread::spawn(move || serve_tcp(&listener, &for_tcp)),
        ];
        Ok(Self {
            address,
            shared,
            threads,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what it does from the next query on.
    pub fn set(&self, behaviour: Behaviour) {
        *lock(&self.shared.behaviour) = behaviour;
    }

    /// Every query so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Each thread waits in the kernel: wake it. Should a wake-up fail, the
        // thread is left to the end of the process.
        let ip = self.address.ip();
        let woken = UdpSocket::bind((ip, 0)).and_then(|socket| socket.send_to(&[], self.address));
        let connected = TcpStream::connect(self.address);
        if woken.is_ok() && connected.is_ok() {
            for thread in self.threads.drain(..) {
                // A panic there has been printed by it.
                let _ = thread.join();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Keeps the query, and says what to do with it.
    fn note(&self, octets: &[u8]) -> Option<(Message, Behaviour)> {
        let query = Message::from_vec(octets).ok()?;
        lock(&self.seen).push(Seen {
            query: query.clone(),
        });
        Some((query, *lock(&self.behaviour)))
    }
}

fn serve_udp(socket: &Arc<UdpSocket>, shared: &Shared) {
    let mut buffer = vec![0; 65_535];
    while !shared.is_stopped() {
        // An ICMP error of an earlier reply is no reason to stop.
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let Some((query, behaviour)) = buffer.get(..length).and_then(|octets| shared.note(octets))
        else {
            continue;
        };
        let socket = Arc::clone(socket);
        let reply = move || {
            for octets in react(behaviour, &query, Transport::Udp) {
                // The one that asked may be gone.
                let _ = socket.send_to(&octets, from);
            }
        };
        if behaviour.is_slow() {
            std::thread::spawn(reply);
        } else {
            reply();
        }
    }
}

fn serve_tcp(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_stopped() {
        let Ok((stream, _)) = listener.accept() else {
            continue;
        };
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            // Ends with an error when the client closes.
            let _ = serve_connection(stream, &shared);
        });
    }
}

fn serve_connection(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut octets = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut octets)?;
        let (query, behaviour) = shared.note(&octets).context("no query")?;
        for reply in react(behaviour, &query, Transport::Tcp) {
            stream.write_all(&u16::try_from(reply.len())?.to_be_bytes())?;
            stream.write_all(&reply)?;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

impl Behaviour {
    /// Whether the next query must not wait for this one's reply.
    fn is_slow(self) -> bool {
        matches!(self, Self::Late(..) | Self::ForwardTo(_))
    }
}

/// The messages sent back, in order; blocks for the behaviour's time.
fn react(behaviour: Behaviour, query: &Message, transport: Transport) -> Vec<Vec<u8>> {
    match behaviour {
        Behaviour::Silent => Vec::new(),
        Behaviour::Answer(address) => answer::by_label(query, address, transport),
        Behaviour::ServFail => answer::failure(query, hickory_proto::op::ResponseCode::ServFail),
        Behaviour::Refused => answer::failure(query, hickory_proto::op::ResponseCode::Refused),
        Behaviour::NxDomain => answer::nxdomain(query),
        Behaviour::Late(delay, address) => {
            crate::wait::pause(delay);
            answer::by_label(query, address, transport)
        }
        Behaviour::ForwardTo(server) => forward(query, server).into_iter().collect(),
    }
}

/// Asks the server the same question under another id.
fn forward(query: &Message, server: SocketAddr) -> Option<Vec<u8>> {
    let mut own = query.clone();
    own.metadata.id ^= 0x0f0f;
    let octets = own.to_vec().ok()?;
    let reply = udp(server, &octets, Duration::from_secs(5)).ok()??;
    let mut reply = Message::from_vec(&reply.octets).ok()?;
    reply.metadata.id = query.metadata.id;
    reply.to_vec().ok()
}
