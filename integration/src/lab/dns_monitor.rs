//! Steady DNS questions from a network namespace, and what came of them.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns};

use crate::wait::pause;
use crate::wire::{Query, Reply};

/// Time between two questions.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long an answer may take: the first wait of a stub resolver (resolv.conf(5)).
const PATIENCE: Duration = Duration::from_secs(5);
/// How often sockets are looked at.
const TICK: Duration = Duration::from_millis(5);
/// More are told by their number only.
const MAX_FAULTS: usize = 5;

/// Whom to ask for what.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The server.
    pub server: SocketAddr,
    /// The zone, without a final dot. Names are `m<monitor>-<number>.<zone>`: each is asked once in
    /// the life of this process, so that no cache answers for the gateway.
    pub zone: String,
    /// The address of each of these names.
    pub address: Ipv4Addr,
}

/// Asks until [`stop`](Self::stop): each question once, over UDP, from a socket of its own, as a
/// stub resolver's first try.
#[derive(Debug)]
pub struct DnsMonitor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<DnsReport>>>,
}

/// What a monitor saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsReport {
    /// Questions asked.
    pub asked: u32,
    /// Those without the right answer in 5 s.
    pub failed: u32,
    /// From the first failed question to the last, by when they were asked; about 0 for one.
    pub outage: Duration,
    /// The slowest right answer.
    pub slowest: Duration,
    /// What went wrong with the first ones.
    pub faults: Vec<String>,
}

impl DnsMonitor {
    /// Starts 20 questions a second from a network namespace, as `/proc/PID/ns/net`.
    pub fn start(namespace: &Path, asking: Asking) -> Result<Self> {
        static MONITORS: AtomicU32 = AtomicU32::new(0);
        let monitor = MONITORS.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let (told, namespace) = (Arc::clone(&stop), namespace.to_owned());
        let thread = std::thread::Builder::new()
            .name("dns monitor".to_owned())
            .spawn(move || run(&namespace, &asking, monitor, &told))
            .context("start a thread")?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends asking, without waiting for the answers on their way.
    pub fn fall_silent(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends asking, waits for the answers on their way, and reports.
    pub fn stop(mut self) -> Result<DnsReport> {
        self.fall_silent();
        let thread = self.thread.take().context("stopped already")?;
        thread.join().map_err(|_| anyhow!("the monitor panicked"))?
    }
}

impl Drop for DnsMonitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Question {
    number: u32,
    at: Instant,
    socket: UdpSocket,
}

fn run(namespace: &Path, asking: &Asking, monitor: u32, stop: &AtomicBool) -> Result<DnsReport> {
    let file =
        std::fs::File::open(namespace).with_context(|| format!("open {}", namespace.display()))?;
    // Of this thread alone.
    setns(file, CloneFlags::CLONE_NEWNET)
        .with_context(|| format!("enter {}", namespace.display()))?;
    let mut report = DnsReport::default();
    let mut failed_at: Option<(Instant, Instant)> = None;
    let mut open: Vec<Question> = Vec::new();
    let mut next = Instant::now();
    loop {
        let now = Instant::now();
        let stopping = stop.load(Ordering::Relaxed);
        if stopping && open.is_empty() {
            break;
        }
        let mut results: Vec<(Instant, Result<()>)> = Vec::new();
        if !stopping && now >= next {
            next += INTERVAL;
            report.asked += 1;
            match ask(asking, monitor, report.asked) {
                Ok(socket) => open.push(Question {
                    number: report.asked,
                    at: now,
                    socket,
                }),
                Err(error) => results.push((now, Err(error))),
            }
        }
        open.retain(|question| match hear(asking, question) {
            None if question.at.elapsed() < PATIENCE => true,
            None => {
                results.push((question.at, Err(anyhow!("no answer in {PATIENCE:?}"))));
                false
            }
            Some(result) => {
                results.push((question.at, result));
                false
            }
        });
        for (at, result) in results {
            match result {
                Ok(()) => report.slowest = report.slowest.max(at.elapsed()),
                Err(error) => {
                    report.failed += 1;
                    if report.faults.len() < MAX_FAULTS {
                        report.faults.push(format!("{error:#}"));
                    }
                    let (first, last) = failed_at.unwrap_or((at, at));
                    failed_at = Some((first.min(at), last.max(at)));
                }
            }
        }
        pause(TICK);
    }
    if let Some((first, last)) = failed_at {
        report.outage = last.duration_since(first);
    }
    Ok(report)
}

fn ask(asking: &Asking, monitor: u32, number: u32) -> Result<UdpSocket> {
    let name = format!("m{monitor}-{number}.{}.", asking.zone);
    let message = Query::new(&name, "A")?.encode(id(number))?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("bind")?;
    socket.set_nonblocking(true)?;
    socket.connect(asking.server).context("connect")?;
    socket.send(&message).context("send")?;
    Ok(socket)
}

/// None while there is no answer yet.
fn hear(asking: &Asking, question: &Question) -> Option<Result<()>> {
    let mut buffer = [0; 4096];
    match question.socket.recv(&mut buffer) {
        Ok(length) => Some(judge(
            asking,
            question.number,
            buffer.get(..length).unwrap_or_default(),
        )),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => Some(Err(error).context("receive")),
    }
}

fn judge(asking: &Asking, number: u32, octets: &[u8]) -> Result<()> {
    let reply = Reply::decode(octets)?;
    let data: Vec<&str> = reply
        .answer
        .iter()
        .map(|record| record.data.as_str())
        .collect();
    let wanted = asking.address.to_string();
    if reply.id == id(number) && reply.rcode == 0 && data == [wanted.as_str()] {
        return Ok(());
    }
    Err(anyhow!("rcode {}, {data:?}", reply.rcode))
}

fn id(number: u32) -> u16 {
    // The low half: enough to tell one socket's answer from a stray one.
    let [_, _, high, low] = number.to_be_bytes();
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves wildcards until it is told `end`; questions of these numbers get no answer.
    fn server(silent: std::ops::Range<u32>) -> (SocketAddr, JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).unwrap();
                if &buffer[..length] == b"end" {
                    return;
                }
                let mut query = buffer[..length].to_vec();
                let number = u32::from(u16::from_be_bytes([query[0], query[1]]));
                if silent.contains(&number) {
                    continue;
                }
                // The OPT record of 11 octets goes; one answer comes.
                query.truncate(length - 11);
                query[2] |= 0x80;
                query[7] = 1;
                query[11] = 0;
                query.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 192, 0, 2, 7]);
                socket.send_to(&query, from).unwrap();
            }
        });
        (at, thread)
    }

    #[test]
    fn what_is_not_answered_is_counted_and_the_rest_is_not() {
        let (at, thread) = server(3..6);
        let asking = Asking {
            server: at,
            zone: "zone.example".to_owned(),
            address: Ipv4Addr::new(192, 0, 2, 7),
        };
        let monitor = DnsMonitor::start(Path::new("/proc/self/ns/net"), asking).unwrap();
        crate::wait_until("time to pass", Duration::from_secs(1), || Ok(None::<()>)).unwrap_err();
        let report = monitor.stop().unwrap();
        UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .send_to(b"end", at)
            .unwrap();
        thread.join().unwrap();
        assert!(report.asked > 10, "{report:?}");
        assert_eq!(report.failed, 3, "{report:?}");
        assert!(
            report.outage >= Duration::from_millis(90) && report.outage < Duration::from_secs(1),
            "{report:?}"
        );
    }
}
