//! The load generator: as many queries as the server answers, or a steady rate.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{MsgFlags, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use crate::batch::{BATCH, Batch};

/// Queries that wait for an answer at most when the server is saturated.
const WINDOW: usize = 256;

/// A query without an answer after this time is lost.
const LOST: Duration = Duration::from_millis(500);

/// Ids of a DNS message.
const IDS: usize = 1 << 16;

/// How queries come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// So many wait for an answer at any time.
    Window(usize),
    /// So many a second.
    Rate(u32),
}

impl Shape {
    /// As many as one core of a server can answer.
    pub(crate) const SATURATED: Self = Self::Window(WINDOW);
}

/// What came of a load.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) answered: u64,
    pub(crate) lost: u64,
    /// Answers by RCODE.
    pub(crate) rcodes: [u64; 16],
    /// Microseconds, sorted.
    latencies: Vec<f64>,
    pub(crate) seconds: f64,
}

impl Report {
    /// Microseconds that this part of the answers took at most.
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        // Truncation is what a rank is.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank"
        )]
        let rank = (self.latencies.len() as f64 * part) as usize;
        let rank = rank.min(self.latencies.len().saturating_sub(1));
        self.latencies.get(rank).copied().unwrap_or(f64::NAN)
    }

    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }

    /// Fails unless the answers have the RCODEs that the questions ask for: a server that refuses
    /// everything is fast.
    pub(crate) fn expect(&self, who: &str, no_error: bool, missing: bool) -> Result<()> {
        let [ok, _, failed, nx, ..] = self.rcodes;
        // CoreDNS has no SOA for a name that is not in its hosts file, and answers SERVFAIL.
        let nx = if who == "CoreDNS hosts" { failed } else { nx };
        let known = ok * u64::from(no_error) + nx * u64::from(missing);
        ensure!(
            self.answered > 0 && known == self.answered,
            "{who} answers something else than was asked for: RCODEs {:?}, {} lost",
            self.rcodes,
            self.lost
        );
        Ok(())
    }
}

/// Sees every answer.
type Watcher<'a> = &'a mut dyn FnMut(&[u8]);

/// One client socket with its queries.
pub(crate) struct Client<'a> {
    socket: UdpSocket,
    queries: &'a [Vec<u8>],
    next: usize,
    /// Per id when it was sent.
    sent: Vec<Option<Instant>>,
    waiting: usize,
    batch: Batch,
    messages: Vec<Vec<u8>>,
    keep_latencies: bool,
    on_answer: Option<Watcher<'a>>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(server: SocketAddr, queries: &'a [Vec<u8>]) -> Result<Self> {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::RcvBuf, &(4 << 20))?;
        // Wake up when asked to, not up to 50 µs later.
        nix::sys::prctl::set_timerslack(1)?;
        Ok(Self {
            socket,
            queries,
            next: 0,
            sent: vec![None; IDS],
            waiting: 0,
            batch: Batch::new(),
            messages: Vec::new(),
            keep_latencies: false,
            on_answer: None,
        })
    }

    /// Shows each answer to `on_answer` as well.
    pub(crate) fn on_answer(mut self, on_answer: Watcher<'a>) -> Self {
        self.on_answer = Some(on_answer);
        self
    }

    /// Puts the load on the server for this long, then waits for the last answers. `between` is
    /// called every few milliseconds and ends the load when it says so.
    pub(crate) fn run(
        &mut self,
        shape: Shape,
        length: Duration,
        mut between: impl FnMut() -> Result<bool>,
    ) -> Result<Report> {
        let mut report = Report::default();
        self.keep_latencies = true;
        let began = Instant::now();
        let mut checked = began;
        let mut sent_in_all = 0usize;
        while began.elapsed() < length {
            let now = Instant::now();
            let due = match shape {
                Shape::Window(window) => window.saturating_sub(self.waiting),
                Shape::Rate(rate) => {
                    let target = now.duration_since(began).as_secs_f64() * f64::from(rate);
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a count"
                    )]
                    let target = target as usize + 1;
                    target.saturating_sub(sent_in_all)
                }
            };
            // Half a batch is worth a system call when the server is saturated.
            let least = match shape {
                Shape::Window(window) => (window / 2).min(BATCH / 2),
                Shape::Rate(_) => 1,
            };
            let mut sent = 0;
            if due >= least.max(1) {
                sent = self.send(due.min(BATCH), now)?;
                sent_in_all += sent;
            }
            let got = self.receive(&mut report)?;
            if got == 0 && sent == 0 {
                let patience = match shape {
                    Shape::Window(_) => Duration::from_millis(1),
                    Shape::Rate(rate) => {
                        let next =
                            began + Duration::from_secs_f64(sent_in_all as f64 / f64::from(rate));
                        next.saturating_duration_since(Instant::now())
                    }
                };
                self.wait(patience)?;
            }
            if now.duration_since(checked) > Duration::from_millis(5) {
                checked = now;
                self.give_up(now, &mut report);
                if between()? {
                    break;
                }
            }
        }
        report.seconds = began.elapsed().as_secs_f64();
        let last = Instant::now();
        while self.waiting > 0 && last.elapsed() < LOST {
            if self.receive(&mut report)? == 0 {
                self.wait(Duration::from_millis(5))?;
            }
        }
        self.give_up(Instant::now() + LOST, &mut report);
        report.latencies.sort_by(f64::total_cmp);
        Ok(report)
    }

    fn send(&mut self, count: usize, now: Instant) -> Result<usize> {
        self.messages.truncate(count);
        self.messages.resize_with(count, Vec::new);
        for (index, message) in self.messages.iter_mut().enumerate() {
            let number = self.next + index;
            let Some(query) = self.queries.get(number % self.queries.len()) else {
                continue;
            };
            message.clone_from(query);
            let id = u16::try_from(number % IDS).unwrap_or_default();
            if let Some(field) = message.first_chunk_mut() {
                *field = id.to_be_bytes();
            }
        }
        let sent = self.batch.send(self.socket.as_raw_fd(), &self.messages)?;
        for number in self.next..self.next + sent {
            if let Some(slot) = self.sent.get_mut(number % IDS)
                && slot.replace(now).is_none()
            {
                self.waiting += 1;
            }
        }
        self.next += sent;
        Ok(sent)
    }

    fn receive(&mut self, report: &mut Report) -> Result<usize> {
        let fd = self.socket.as_raw_fd();
        let got = self.batch.receive(fd, MsgFlags::MSG_DONTWAIT)?;
        let now = Instant::now();
        for datagram in self.batch.datagrams() {
            let [high, low, bits, code, ..] = datagram else {
                continue;
            };
            if bits & 0x80 == 0 {
                continue;
            }
            let id = usize::from(u16::from_be_bytes([*high, *low]));
            let Some(sent) = self.sent.get_mut(id).and_then(Option::take) else {
                continue;
            };
            self.waiting -= 1;
            report.answered += 1;
            if let Some(count) = report.rcodes.get_mut(usize::from(code & 0x0f)) {
                *count += 1;
            }
            if self.keep_latencies {
                report
                    .latencies
                    .push(now.duration_since(sent).as_secs_f64() * 1e6);
            }
            if let Some(on_answer) = &mut self.on_answer {
                on_answer(datagram);
            }
        }
        Ok(got)
    }

    fn wait(&self, patience: Duration) -> Result<()> {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(patience)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn give_up(&mut self, now: Instant, report: &mut Report) {
        if self.waiting == 0 {
            return;
        }
        for slot in &mut self.sent {
            if slot.is_some_and(|sent| now.saturating_duration_since(sent) >= LOST) {
                *slot = None;
                self.waiting -= 1;
                report.lost += 1;
            }
        }
    }
}

/// A plain load without anything besides.
pub(crate) fn run(
    server: SocketAddr,
    queries: &[Vec<u8>],
    shape: Shape,
    length: Duration,
) -> Result<Report> {
    Client::new(server, queries)?.run(shape, length, || Ok(false))
}
