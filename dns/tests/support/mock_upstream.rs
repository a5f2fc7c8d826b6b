//! An upstream on real sockets that behaves as a test tells it, well or badly.
//!
//! It answers UDP and TCP on one port, keeps what it saw, and ends when it is dropped. Include it
//! with `#[path = "support/mock_upstream.rs"] mod mock_upstream;`.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(unreachable_pub, reason = "a test binary has no outside")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::rdata::{A, CNAME, SOA, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// What an upstream does with a query.
#[derive(Clone)]
pub enum Behaviour {
    /// Answers by the fixture: see [`fixture`]; the address is what A questions get.
    Answer(Ipv4Addr),
    /// Never answers.
    Silent,
    /// Does the other thing after a while.
    After(Duration, Box<Behaviour>),
    /// An RCODE without records, with an extended error if there is text.
    Rcode(ResponseCode, Option<(u16, &'static str)>),
    /// Over UDP a reply with a wrong id, one with a wrong question, one with an A record of
    /// 203.0.113.66 each, then the right one.
    ForgeriesFirst(Ipv4Addr),
    /// Over UDP this many replies with a wrong id and never the right one; over TCP the right one.
    Flood(usize, Ipv4Addr),
    /// Over UDP TC and no records; over TCP this many A records.
    TooBigForUdp(usize),
    /// This many A records over UDP whatever size was asked for, no OPT.
    Oversized(usize),
    /// A right answer, and beside it in every section records that were not asked for, one of
    /// them for this name.
    Lying(Ipv4Addr, Name),
    /// These records.
    Records(Vec<Record>),
    /// Octets that are no DNS message.
    Garbage,
    /// The right header and question, then nonsense.
    Broken,
    /// Is a forwarder whose upstream is this address.
    ForwardTo(SocketAddr),
    /// Whatever the function makes of the query; none is silence.
    Custom(Script),
}

/// A hand-written reaction to a query.
pub type Script = Arc<dyn Fn(&Message) -> Option<Message> + Send + Sync>;

/// A query that an upstream saw.
#[derive(Debug, Clone)]
pub struct Seen {
    /// As decoded.
    pub query: Message,
    /// The client's address and port.
    pub from: SocketAddr,
    /// True over TCP.
    pub tcp: bool,
}

impl Seen {
    /// The question name in presentation form, in the case received.
    pub fn name(&self) -> String {
        self.query
            .queries
            .first()
            .map(|query| query.name().to_ascii())
            .unwrap_or_default()
    }
}

/// A running upstream.
pub struct MockUpstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    seen: Mutex<Vec<Seen>>,
}

/// Whether the upstream listens on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tcp {
    /// It does.
    Served,
    /// The port is closed.
    Refused,
}

impl MockUpstream {
    /// Starts on a free port of `ip`, a loopback address.
    pub async fn start(ip: IpAddr, behaviour: Behaviour) -> io::Result<Self> {
        Self::start_with(ip, Tcp::Served, behaviour).await
    }

    /// Starts with or without TCP.
    pub async fn start_with(ip: IpAddr, tcp: Tcp, behaviour: Behaviour) -> io::Result<Self> {
        let (udp, listener) = bind(ip).await?;
        let address = udp.local_addr()?;
        let shared = Arc::new(Shared {
            behaviour: Mutex::new(behaviour),
            seen: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(Arc::new(udp), Arc::clone(&shared)));
        if tcp == Tcp::Served {
            tasks.spawn(serve_tcp(listener, Arc::clone(&shared)));
        }
        Ok(Self {
            address,
            shared,
            _tasks: tasks,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what it does from the next query on.
    pub fn set(&self, behaviour: Behaviour) {
        *self
            .shared
            .behaviour
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = behaviour;
    }

    /// Every query so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many queries it saw for this name, in any case.
    pub fn count(&self, name: &str) -> usize {
        self.seen()
            .iter()
            .filter(|seen| seen.name().eq_ignore_ascii_case(name))
            .count()
    }
}

/// An address of `ip` whose UDP and TCP ports nobody listens on.
pub async fn closed_port(ip: IpAddr) -> io::Result<SocketAddr> {
    let (udp, _listener) = bind(ip).await?;
    udp.local_addr()
}

/// The same free port for UDP and TCP.
async fn bind(ip: IpAddr) -> io::Result<(UdpSocket, TcpListener)> {
    for _ in 0..64 {
        let udp = UdpSocket::bind((ip, 0)).await?;
        if let Ok(listener) = TcpListener::bind(udp.local_addr()?).await {
            return Ok((udp, listener));
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

async fn serve_udp(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut replies = JoinSet::new();
    let mut buffer = vec![0; 65_535];
    loop {
        // An ICMP error of an earlier reply is no reason to stop.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let Some(query) = shared.note(buffer.get(..length).unwrap_or_default(), from, false) else {
            continue;
        };
        let behaviour = shared.behaviour();
        let socket = Arc::clone(&socket);
        replies.spawn(async move {
            for octets in react(&behaviour, &query, false).await {
                let _ = socket.send_to(&octets, from).await;
            }
        });
        while replies.try_join_next().is_some() {}
    }
}

async fn serve_tcp(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            continue;
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let _ = serve_connection(stream, from, &shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(
    mut stream: TcpStream,
    from: SocketAddr,
    shared: &Shared,
) -> io::Result<()> {
    loop {
        let mut octets = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut octets).await?;
        let Some(query) = shared.note(&octets, from, true) else {
            return Ok(());
        };
        let behaviour = shared.behaviour();
        for reply in react(&behaviour, &query, true).await {
            stream
                .write_u16(u16::try_from(reply.len()).map_err(io::Error::other)?)
                .await?;
            stream.write_all(&reply).await?;
        }
    }
}

impl Shared {
    fn behaviour(&self) -> Behaviour {
        self.behaviour
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, octets: &[u8], from: SocketAddr, tcp: bool) -> Option<Message> {
        let query = Message::from_vec(octets).ok()?;
        let seen = Seen {
            query: query.clone(),
            from,
            tcp,
        };
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(seen);
        Some(query)
    }
}

/// The messages sent back, in order.
async fn react(behaviour: &Behaviour, query: &Message, tcp: bool) -> Vec<Vec<u8>> {
    let mut behaviour = behaviour.clone();
    while let Behaviour::After(delay, then) = behaviour {
        tokio::time::sleep(delay).await;
        behaviour = *then;
    }
    let one = |message: Message| vec![encode(&message)];
    match behaviour {
        Behaviour::Silent | Behaviour::After(..) => Vec::new(),
        Behaviour::Answer(address) => one(fixture(query, address)),
        Behaviour::Rcode(rcode, extended) => one(rcode_reply(query, rcode, extended)),
        Behaviour::ForgeriesFirst(address) if !tcp => {
            let mut forged = fixture(query, Ipv4Addr::new(203, 0, 113, 66));
            forged.metadata.id ^= 0x5555;
            let mut confused = fixture(query, Ipv4Addr::new(203, 0, 113, 66));
            confused.queries = vec![Query::query(other_name(), RecordType::A)];
            vec![
                encode(&forged),
                encode(&confused),
                encode(&fixture(query, address)),
            ]
        }
        Behaviour::Flood(count, _) if !tcp => {
            let mut forged = fixture(query, Ipv4Addr::new(203, 0, 113, 66));
            forged.metadata.id ^= 0x5555;
            vec![encode(&forged); count]
        }
        Behaviour::ForgeriesFirst(address) | Behaviour::Flood(_, address) => {
            one(fixture(query, address))
        }
        Behaviour::TooBigForUdp(_) if !tcp => {
            let mut reply = reply_to(query);
            reply.metadata.truncation = true;
            one(reply)
        }
        Behaviour::TooBigForUdp(count) | Behaviour::Oversized(count) => {
            let mut reply = reply_to(query);
            reply.add_answers(many(query, count));
            reply.edns = None;
            one(reply)
        }
        Behaviour::Lying(address, victim) => {
            let mut reply = fixture(query, address);
            let lie = |name: Name| Record::from_rdata(name, 60, RData::A(A::new(203, 0, 113, 66)));
            for name in [victim, other_name()] {
                reply.add_answer(lie(name.clone()));
                reply.add_authority(lie(name.clone()));
                reply.add_additional(lie(name));
            }
            one(reply)
        }
        Behaviour::Records(records) => {
            let mut reply = reply_to(query);
            reply.add_answers(records);
            one(reply)
        }
        Behaviour::Garbage => vec![b"this is not a DNS message".to_vec()],
        Behaviour::Broken => {
            let mut octets = encode(&fixture(query, Ipv4Addr::new(203, 0, 113, 66)));
            octets.truncate(octets.len().saturating_sub(13));
            vec![octets]
        }
        Behaviour::ForwardTo(address) => forward(query, address).await.into_iter().collect(),
        Behaviour::Custom(build) => build(query)
            .map(|message| encode(&message))
            .into_iter()
            .collect(),
    }
}

/// What a well-behaved upstream says. A: the address, TTL 60; TXT: "from upstream"; SOA; anything
/// else: NODATA. By the first label: `nx` NXDOMAIN, `nxnosoa` NXDOMAIN without SOA, `ndnosoa`
/// NODATA without SOA, `alias-X` a CNAME to `X` of the same parent with its answer.
pub fn fixture(query: &Message, address: Ipv4Addr) -> Message {
    let mut reply = reply_to(query);
    let Some(question) = query.queries.first() else {
        return reply;
    };
    let mut owner = question.name().clone();
    let apex = owner.base_name();
    let first = |name: &Name| {
        name.iter()
            .next()
            .map(|label| label.to_ascii_lowercase())
            .unwrap_or_default()
    };
    if let Some(target) = first(&owner).strip_prefix(b"alias-")
        && let Ok(target) = apex.prepend_label(target)
    {
        reply.add_answer(Record::from_rdata(
            owner,
            60,
            RData::CNAME(CNAME(target.clone())),
        ));
        owner = target;
    }
    let soa = soa(apex);
    let data = match (first(&owner).as_slice(), question.query_type()) {
        (b"nx", _) => {
            reply.metadata.response_code = ResponseCode::NXDomain;
            reply.add_authority(soa);
            return reply;
        }
        (b"nxnosoa", _) => {
            reply.metadata.response_code = ResponseCode::NXDomain;
            return reply;
        }
        (b"ndnosoa", _) => return reply,
        (_, RecordType::A) => RData::A(A(address)),
        (_, RecordType::TXT) => RData::TXT(TXT::new(vec!["from upstream".to_owned()])),
        (_, RecordType::SOA) => soa.data,
        _ => {
            reply.add_authority(soa);
            return reply;
        }
    };
    reply.add_answer(Record::from_rdata(owner, 60, data));
    reply
}

/// A reply without records, with an OPT if the query has one.
pub fn reply_to(query: &Message) -> Message {
    let mut reply = Message::response(query.metadata.id, OpCode::Query);
    reply.metadata.recursion_desired = query.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    reply.metadata.checking_disabled = query.metadata.checking_disabled;
    reply.add_queries(query.queries.iter().cloned());
    if let Some(asked) = &query.edns {
        let mut edns = Edns::new();
        edns.set_max_payload(4096);
        edns.set_dnssec_ok(asked.flags().dnssec_ok);
        reply.set_edns(edns);
    }
    reply
}

/// A SOA with TTL and MINIMUM 60.
pub fn soa(apex: Name) -> Record {
    let soa = SOA::new(apex.clone(), apex.clone(), 1, 7200, 1800, 86_400, 60);
    Record::from_rdata(apex, 60, RData::SOA(soa))
}

fn rcode_reply(query: &Message, rcode: ResponseCode, extended: Option<(u16, &str)>) -> Message {
    let mut reply = reply_to(query);
    reply.metadata.response_code = rcode;
    if let (Some((code, text)), Some(edns)) = (extended, reply.edns.as_mut()) {
        let mut data = code.to_be_bytes().to_vec();
        data.extend(text.as_bytes());
        // Option 15 carries extended errors (RFC 8914 §2).
        edns.options_mut().insert(EdnsOption::Unknown(15, data));
    }
    reply
}

/// A records 198.51.100.0 and following of the name asked.
fn many(query: &Message, count: usize) -> Vec<Record> {
    let Some(question) = query.queries.first() else {
        return Vec::new();
    };
    let base = u32::from(Ipv4Addr::new(198, 51, 100, 0));
    (0..u32::try_from(count).unwrap_or(u32::MAX))
        .map(|i| {
            Record::from_rdata(
                question.name().clone(),
                60,
                RData::A(A(Ipv4Addr::from(base + i))),
            )
        })
        .collect()
}

fn other_name() -> Name {
    Name::from_ascii("evil.example.org.").unwrap_or_default()
}

fn encode(message: &Message) -> Vec<u8> {
    message.to_vec().unwrap_or_default()
}

/// Asks `address` the same question under another id and passes the reply back.
async fn forward(query: &Message, address: SocketAddr) -> Option<Vec<u8>> {
    let mut own = query.clone();
    own.metadata.id ^= 0x0f0f;
    own.metadata.message_type = MessageType::Query;
    let socket = UdpSocket::bind((address.ip(), 0)).await.ok()?;
    socket.connect(address).await.ok()?;
    socket.send(&encode(&own)).await.ok()?;
    let mut buffer = vec![0; 4096];
    let wait = tokio::time::timeout(Duration::from_secs(5), socket.recv(&mut buffer));
    let length = wait.await.ok()?.ok()?;
    let mut reply = Message::from_vec(buffer.get(..length)?).ok()?;
    reply.metadata.id = query.metadata.id;
    Some(encode(&reply))
}
