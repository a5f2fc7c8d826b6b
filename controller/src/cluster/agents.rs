//! The reports of the agents: one stream per Pod, all driven by one task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tsunaro_model::report::StatusReport;

use super::Trigger;
use crate::reconcile::Agent;

/// The port of the agent's HTTP side.
const PORT: u16 = 9181;
/// Name resolution is not needed; a SYN and its answer take milliseconds.
const CONNECT: Duration = Duration::from_secs(5);
/// A stream tells of changes only. After this silence it is begun anew, which shows at once whether
/// the agent is there.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest report.
const MAX_REPORT: usize = 8 << 20;

/// All agents.
#[derive(Debug, Clone)]
pub struct Agents {
    seats: Arc<Mutex<HashMap<String, Seat>>>,
    begin: mpsc::Sender<Follow>,
}

#[derive(Debug)]
struct Seat {
    address: String,
    agent: Agent,
    stop: CancellationToken,
}

/// Streams that wait to begin; they are taken at once, so more than a few are never there.
const ORDERS: usize = 1024;

/// A stream that is to begin.
#[derive(Debug)]
pub struct Follow {
    gateway: String,
    address: String,
    stop: CancellationToken,
}

impl Agents {
    /// No agent yet, and the orders for [`drive`](Self::drive).
    pub fn new() -> (Self, mpsc::Receiver<Follow>) {
        let (begin, orders) = mpsc::channel(ORDERS);
        let seats = Arc::default();
        (Self { seats, begin }, orders)
    }

    /// What the agent at this address says; asks it if nobody does.
    pub(super) fn follow(&self, gateway: &str, address: &str) -> Agent {
        let mut seats = self.seats();
        if let Some(seat) = seats.get(gateway)
            && seat.address == address
        {
            return seat.agent.clone();
        }
        let stop = CancellationToken::new();
        let order = Follow {
            gateway: gateway.to_owned(),
            address: address.to_owned(),
            stop: stop.clone(),
        };
        if self.begin.try_send(order).is_err() {
            // Without a seat the next pass asks again.
            return Agent::Connecting;
        }
        let seat = Seat {
            address: address.to_owned(),
            agent: Agent::Connecting,
            stop,
        };
        if let Some(old) = seats.insert(gateway.to_owned(), seat) {
            old.stop.cancel();
        }
        Agent::Connecting
    }

    /// What the agent of a gateway said last, if anybody asks it.
    pub(crate) fn heard(&self, gateway: &str) -> Option<Agent> {
        self.seats().get(gateway).map(|seat| seat.agent.clone())
    }

    /// Stops asking.
    pub(super) fn forget(&self, gateway: &str) {
        if let Some(seat) = self.seats().remove(gateway) {
            seat.stop.cancel();
        }
    }

    /// Asks nobody any more.
    pub(super) fn forget_all(&self) {
        for (_, seat) in self.seats().drain() {
            seat.stop.cancel();
        }
    }

    /// Drives all streams for ever.
    ///
    /// # Errors
    /// Only when the orders end.
    pub async fn drive(self, mut orders: mpsc::Receiver<Follow>, trigger: Trigger) -> Result<()> {
        let mut streams = FuturesUnordered::new();
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => streams.push(self.one(order, &trigger)),
                    None => bail!("nobody can ask for a stream any more"),
                },
                Some(()) = streams.next() => {}
            }
        }
    }

    async fn one(&self, order: Follow, trigger: &Trigger) {
        let stop = order.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.again_and_again(&order, trigger) => {}
        }
    }

    async fn again_and_again(&self, order: &Follow, trigger: &Trigger) {
        let pauses = || {
            ExponentialBuilder::default()
                .with_min_delay(Duration::from_millis(300))
                .with_max_delay(Duration::from_secs(5))
                .without_max_times()
                .with_jitter()
                .build()
        };
        let mut pause = pauses();
        loop {
            let mut reported = false;
            let ended = self.stream(order, trigger, &mut reported).await;
            if reported {
                pause = pauses();
            }
            if let Err(error) = ended {
                self.set(order, trigger, Agent::Unreachable(format!("{error:#}")))
                    .await;
                tokio::time::sleep(pause.next().unwrap_or(Duration::from_secs(5))).await;
            }
        }
    }

    /// One connection, until it ends or is silent for long.
    async fn stream(&self, order: &Follow, trigger: &Trigger, reported: &mut bool) -> Result<()> {
        let at = (order.address.as_str(), PORT);
        let tcp = timeout(CONNECT, TcpStream::connect(at))
            .await
            .context("no connection in 5 s")??;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await?;
        let request = Request::get("/status?watch")
            .header("Host", format!("{}:{PORT}", order.address))
            .body(Empty::<Bytes>::new())?;
        let reading = async {
            let response = timeout(CONNECT, sender.send_request(request))
                .await
                .context("no answer in 5 s")??;
            if !response.status().is_success() {
                bail!("it answers {}", response.status());
            }
            let mut body = response.into_body();
            let mut line = Vec::new();
            loop {
                let Ok(frame) = timeout(SILENCE, body.frame()).await else {
                    return Ok(());
                };
                let Some(frame) = frame else {
                    bail!("it ended the stream");
                };
                let Ok(data) = frame?.into_data() else {
                    continue;
                };
                line.extend_from_slice(&data);
                if line.len() > MAX_REPORT {
                    bail!("a report is longer than {MAX_REPORT} bytes");
                }
                while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                    let rest = line.split_off(end + 1);
                    let report: StatusReport = serde_json::from_slice(&line)
                        .context("its report is not of this version")?;
                    line = rest;
                    *reported = true;
                    self.set(order, trigger, Agent::Reported(Arc::new(report)))
                        .await;
                }
            }
        };
        tokio::select! {
            ended = reading => ended,
            ended = connection => {
                ended?;
                bail!("it closed the connection")
            }
        }
    }

    /// Keeps it, and asks for a pass if that may say something else now.
    async fn set(&self, order: &Follow, trigger: &Trigger, agent: Agent) {
        let news = {
            let mut seats = self.seats();
            let Some(seat) = seats
                .get_mut(&order.gateway)
                .filter(|seat| seat.address == order.address)
            else {
                return;
            };
            let news = differs(&seat.agent, &agent);
            seat.agent = agent;
            news
        };
        if news {
            trigger.gateway(&order.gateway).await;
        }
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<String, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a verdict may differ: counters and round-trip times do not matter.
fn differs(before: &Agent, now: &Agent) -> bool {
    match (before, now) {
        (Agent::Reported(before), Agent::Reported(now)) => {
            let said = |report: &StatusReport| {
                let conditions: Vec<_> = report
                    .conditions
                    .iter()
                    .map(|c| {
                        (
                            c.kind.clone(),
                            c.status,
                            c.reason.clone(),
                            c.message.clone(),
                        )
                    })
                    .collect();
                let state = report
                    .tailnet
                    .as_ref()
                    .map(|tailnet| tailnet.backend_state.clone());
                (report.phase, conditions, report.routes.clone(), state)
            };
            said(before) != said(now)
        }
        (Agent::Unreachable(_), Agent::Unreachable(_)) => false,
        _ => true,
    }
}
