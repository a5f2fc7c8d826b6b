//! A network of scripted upstreams on tokio's clock, which the tests pause.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::Record;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::fixtures::a;
use super::super::{Channel, Forwarder, Question, Transport, lock};

/// What an upstream does with a query.
#[derive(Clone)]
pub(super) enum Play {
    Silent,
    /// The port is closed: an ICMP error, at once.
    Closed,
    /// Replies after this many milliseconds.
    After(u64, Reply),
    /// Is a forwarder that asks us the same question.
    Loop,
    /// Our own code panics.
    Panic,
}

#[derive(Clone)]
pub(super) enum Reply {
    /// An address 198.51.100.x for the name asked for.
    Address(u8),
    /// NOERROR with these records.
    Records(Vec<Record>),
    /// This RCODE, with these records in AUTHORITY.
    Denial(ResponseCode, Vec<Record>),
    /// TC with these records.
    Truncated(Vec<Record>),
    /// Built from the query by hand.
    Custom(fn(&Message) -> Vec<u8>),
}

/// A query that reached an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) at: u64,
    pub(super) upstream: SocketAddr,
    pub(super) tcp: bool,
}

#[derive(Clone)]
pub(super) struct Net {
    inner: Arc<Inner>,
}

struct Inner {
    started: Instant,
    plays: Mutex<HashMap<(SocketAddr, bool), Play>>,
    seen: Mutex<Vec<(Seen, Message)>>,
    open: AtomicUsize,
    us: OnceLock<(Forwarder<Net>, tsunaro_model::name::DnsName, Question)>,
}

impl Net {
    pub(super) fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                started: Instant::now(),
                plays: Mutex::default(),
                seen: Mutex::default(),
                open: AtomicUsize::new(0),
                us: OnceLock::new(),
            }),
        }
    }

    pub(super) fn udp(&self, upstream: SocketAddr, play: Play) {
        lock(&self.inner.plays).insert((upstream, false), play);
    }

    pub(super) fn tcp(&self, upstream: SocketAddr, play: Play) {
        lock(&self.inner.plays).insert((upstream, true), play);
    }

    /// Where [`Play::Loop`] leads.
    pub(super) fn lead_back_to(
        &self,
        forwarder: &Forwarder<Self>,
        zone: &tsunaro_model::name::DnsName,
        question: &Question,
    ) {
        assert!(
            self.inner
                .us
                .set((forwarder.clone(), zone.clone(), question.clone()))
                .is_ok()
        );
    }

    /// Queries since the last call.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.messages().into_iter().map(|(seen, _)| seen).collect()
    }

    pub(super) fn messages(&self) -> Vec<(Seen, Message)> {
        std::mem::take(&mut *lock(&self.inner.seen))
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.inner.started.elapsed().as_millis()).unwrap()
    }

    /// UDP exchanges that are open.
    pub(super) fn open_channels(&self) -> usize {
        self.inner.open.load(Ordering::Relaxed)
    }

    fn take_in(&self, upstream: SocketAddr, tcp: bool, octets: &[u8]) -> (Play, Message) {
        let query = Message::from_vec(octets).unwrap();
        lock(&self.inner.seen).push((
            Seen {
                at: self.now(),
                upstream,
                tcp,
            },
            query.clone(),
        ));
        let play = lock(&self.inner.plays)
            .get(&(upstream, tcp))
            .cloned()
            .unwrap_or(Play::Closed);
        (play, query)
    }
}

pub(super) struct FakeChannel {
    net: Net,
    upstream: SocketAddr,
    pending: Mutex<VecDeque<(Instant, Vec<u8>)>>,
    looped: Mutex<bool>,
    news: Notify,
}

impl Drop for FakeChannel {
    fn drop(&mut self) {
        self.net.inner.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

impl Transport for Net {
    type Channel = FakeChannel;

    async fn open(&self, upstream: SocketAddr) -> io::Result<FakeChannel> {
        self.inner.open.fetch_add(1, Ordering::Relaxed);
        Ok(FakeChannel {
            net: self.clone(),
            upstream,
            pending: Mutex::default(),
            looped: Mutex::default(),
            news: Notify::new(),
        })
    }

    async fn ask_over_tcp(&self, upstream: SocketAddr, query: Vec<u8>) -> io::Result<Vec<u8>> {
        match self.take_in(upstream, true, &query) {
            (Play::Silent | Play::Loop | Play::Panic, _) => std::future::pending().await,
            (Play::Closed, _) => Err(refused()),
            (Play::After(milliseconds, reply), query) => {
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                Ok(reply.to_query(&query))
            }
        }
    }
}

impl Channel for FakeChannel {
    async fn send(&self, octets: &[u8]) -> io::Result<()> {
        match self.net.take_in(self.upstream, false, octets) {
            (Play::Silent, _) => {}
            (Play::Closed, _) => return Err(refused()),
            (Play::After(milliseconds, reply), query) => {
                let due = Instant::now() + Duration::from_millis(milliseconds);
                lock(&self.pending).push_back((due, reply.to_query(&query)));
            }
            (Play::Loop, _) => *lock(&self.looped) = true,
            (Play::Panic, _) => panic!("as the test wants"),
        }
        self.news.notify_one();
        Ok(())
    }

    async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if *lock(&self.looped) {
                let (forwarder, zone, question) = self.net.inner.us.get().unwrap();
                // A forwarder without an answer stays silent: the worst case for us.
                let _ = Box::pin(forwarder.resolve(zone, question)).await;
                std::future::pending::<()>().await;
            }
            let due = lock(&self.pending).front().map(|(due, _)| *due);
            let Some(due) = due else {
                self.news.notified().await;
                continue;
            };
            tokio::time::sleep_until(due).await;
            let Some((_, octets)) = lock(&self.pending).pop_front() else {
                continue;
            };
            let length = octets.len().min(buffer.len());
            buffer[..length].copy_from_slice(&octets[..length]);
            return Ok(length);
        }
    }
}

impl Reply {
    pub(super) fn to_query(&self, query: &Message) -> Vec<u8> {
        let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
        reply.add_queries(query.queries.clone());
        match self {
            Self::Records(records) => {
                reply.add_answers(records.clone());
            }
            Self::Address(last) => {
                let owner = query.queries[0].name().to_ascii();
                reply.add_answers([a(&owner, 60, [198, 51, 100, *last])]);
            }
            Self::Denial(rcode, records) => {
                reply.metadata.response_code = *rcode;
                reply.add_authorities(records.clone());
            }
            Self::Truncated(records) => {
                reply.metadata.truncation = true;
                reply.add_answers(records.clone());
            }
            Self::Custom(build) => return build(query),
        }
        reply.to_vec().unwrap()
    }
}
