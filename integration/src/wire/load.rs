//! A steady load of UDP queries, bounded in rate and number, on loopback only.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::client::any_address;
use super::{Query, Reply};
use crate::wait::pause;

/// Queries per second that this sends at most.
const MAX_RATE: u32 = 10_000;
/// Ids are the queries' numbers, so that each reply names its query.
const MAX_TOTAL: u32 = 65_536;
/// How long a reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);
/// The sender wakes up this often, and catches up with the rate.
const TICK: Duration = Duration::from_millis(2);

/// A load to be put on a server.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server, on a loopback address.
    pub server: SocketAddr,
    /// The query; its id counts up from 0.
    pub query: Query,
    /// Queries per second, at most 10,000.
    pub rate: u32,
    /// Queries in all, at most 65,536.
    pub total: u32,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct LoadReport {
    /// Queries sent.
    pub sent: u32,
    /// The replies, each once, by the number of its query, with the time it took.
    pub replies: BTreeMap<u32, (Reply, Duration)>,
    /// From the first query to the last.
    pub took: Duration,
}

impl Load {
    /// Sends the queries, and collects the replies until all are there or the
    /// last one had 3 s.
    pub fn run(&self) -> Result<LoadReport> {
        ensure!(
            self.server.ip().is_loopback(),
            "a load on {} is not for this tool",
            self.server
        );
        ensure!(
            (1..=MAX_RATE).contains(&self.rate),
            "a rate of {}",
            self.rate
        );
        ensure!(
            (1..=MAX_TOTAL).contains(&self.total),
            "{} queries",
            self.total
        );
        let socket = UdpSocket::bind((any_address(self.server), 0)).context("bind the client")?;
        socket.connect(self.server)?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        let all_sent = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(&socket, self.total, &all_sent));
            let sent = self.send(&socket);
            all_sent.store(true, Ordering::SeqCst);
            let received = receiver
                .join()
                .map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
            let (started, took, at) = sent?;
            let mut report = LoadReport {
                sent: u32::try_from(at.len())?,
                took,
                ..LoadReport::default()
            };
            for (octets, arrived) in received? {
                let reply = Reply::decode(&octets)?;
                let number = u32::from(reply.id);
                let sent = at.get(usize::from(reply.id)).copied().unwrap_or(started);
                let earlier = report
                    .replies
                    .insert(number, (reply, arrived.saturating_duration_since(sent)));
                ensure!(earlier.is_none(), "two replies to query {number}");
            }
            Ok(report)
        })
    }

    /// The start, the duration, and when each query was sent.
    fn send(&self, socket: &UdpSocket) -> Result<(Instant, Duration, Vec<Instant>)> {
        let mut message = self.query.encode(0)?;
        let started = Instant::now();
        let mut at = Vec::new();
        for number in 0..self.total {
            let due = started + Duration::from_secs(1) * number / self.rate;
            while Instant::now() < due {
                pause(TICK);
            }
            let id = u16::try_from(number)?.to_be_bytes();
            if let Some(field) = message.first_chunk_mut() {
                *field = id;
            }
            at.push(Instant::now());
            socket.send(&message).context("send")?;
        }
        Ok((started, started.elapsed(), at))
    }
}

fn receive(
    socket: &UdpSocket,
    total: u32,
    all_sent: &AtomicBool,
) -> Result<Vec<(Vec<u8>, Instant)>> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 65_535];
    let mut deadline = None;
    while received.len() < total as usize {
        if all_sent.load(Ordering::SeqCst) {
            let until = *deadline.get_or_insert_with(|| Instant::now() + REPLY_TIMEOUT);
            if Instant::now() > until {
                break;
            }
        }
        // A timeout, or an ICMP error while the server is away: go on.
        if let Ok(length) = socket.recv(&mut buffer) {
            received.push((
                buffer.iter().take(length).copied().collect(),
                Instant::now(),
            ));
        }
    }
    Ok(received)
}
