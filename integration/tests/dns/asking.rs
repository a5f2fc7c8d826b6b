//! Asks, in each of the ways that a step can name.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tsunaro_integration::wire::{Connection, Frame, Load, Query, Reply, Seen, udp};

use crate::action::{Ask, Server, Via};
use crate::gateway::Gateway;
use crate::hosts_dir::{Edit, Stamp};
use crate::observation::{Got, Observation};

/// How long a reply may take: more than the agent's own budget.
pub(crate) const REPLY: Duration = Duration::from_secs(4);
/// How long nothing must come where nothing may come.
const SILENCE: Duration = Duration::from_secs(1);
/// More than any idle time that a server should have.
const IDLE: Duration = Duration::from_secs(15);

/// Whether a reply is awaited, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaits {
    Reply,
    Silence,
}

/// Asks all repetitions once.
pub(crate) fn ask(gateway: &mut Gateway, ask: &Ask, awaits: Awaits) -> Result<Observation> {
    let server = server(gateway, ask.server)?;
    let before: Vec<usize> = gateway
        .upstreams()
        .iter()
        .map(|upstream| upstream.seen().len())
        .collect();
    let mut seen = Observation::default();
    match ask.via {
        Via::Udp => over_udp(server, ask, awaits, &mut seen)?,
        Via::UdpFire => fire(server, ask)?,
        Via::UdpLoad { rate, swaps } => under_load(
            gateway,
            server,
            ask,
            &Load {
                server,
                query: ask.query(0),
                rate,
                total: ask.times,
            },
            swaps,
            &mut seen,
        )?,
        Via::Tcp | Via::TcpHalfClose | Via::TcpIdle => {
            for repetition in 0..ask.times {
                let query = ask.query(repetition);
                over_tcp(server, ask.via, query, &mut seen)?;
            }
        }
        Via::TcpOneWrite => pipelined(server, ask, &mut seen)?,
    }
    let names: Vec<String> = (0..ask.times.min(1000))
        .map(|repetition| ask.query(repetition).name)
        .collect();
    for (upstream, before) in gateway.upstreams().iter().zip(before) {
        let ours = |seen: &Seen| {
            names
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&seen.name()))
        };
        seen.upstream
            .extend(upstream.seen().into_iter().skip(before).filter(ours));
    }
    Ok(seen)
}

fn server(gateway: &Gateway, server: Server) -> Result<SocketAddr> {
    Ok(match server {
        Server::Agent => gateway.dns(),
        Server::AgentAt(ip) => SocketAddr::new(ip, gateway.dns().port()),
        Server::CoreDns => gateway.coredns()?,
    })
}

/// Ids that differ from repetition to repetition, and are none of the small ones.
fn id(repetition: u32) -> u16 {
    u16::try_from(0x4d2 + repetition % 0x8000).unwrap_or(0x4d2)
}

fn over_udp(server: SocketAddr, ask: &Ask, awaits: Awaits, seen: &mut Observation) -> Result<()> {
    let timeout = if awaits == Awaits::Silence {
        SILENCE
    } else {
        REPLY
    };
    for repetition in 0..ask.times {
        if let Some(pause) = ask.every.filter(|_| repetition > 0) {
            wait(pause);
        }
        let query = ask.query(repetition);
        let Some(datagram) = udp(server, &query.encode(id(repetition))?, timeout)? else {
            seen.missing += 1;
            continue;
        };
        let reply = decode(&datagram.octets)?;
        ensure!(reply.id == id(repetition), "a reply with another id");
        ensure!(reply.has(0x8000), "a reply without QR");
        seen.got.push(Got {
            query,
            reply,
            after: datagram.after,
            server,
            from: datagram.from,
        });
    }
    Ok(())
}

fn decode(octets: &[u8]) -> Result<Reply> {
    Reply::decode(octets).with_context(|| format!("a reply that cannot be decoded: {octets:02x?}"))
}

fn fire(server: SocketAddr, ask: &Ask) -> Result<()> {
    for repetition in 0..ask.times {
        udp(
            server,
            &ask.query(repetition).encode(id(repetition))?,
            Duration::from_millis(1),
        )?;
    }
    Ok(())
}

fn over_tcp(server: SocketAddr, via: Via, query: Query, seen: &mut Observation) -> Result<()> {
    let mut connection = Connection::open(server)?;
    let started = Instant::now();
    connection.send(&[query.encode(id(0))?])?;
    if via == Via::TcpHalfClose {
        connection.half_close()?;
    }
    let frame = connection.read(REPLY)?;
    let Frame::Message(octets) = frame else {
        seen.missing += 1;
        if frame == Frame::Closed {
            seen.closed_after = Some(started.elapsed());
        }
        return Ok(());
    };
    let after = started.elapsed();
    let reply = decode(&octets)?;
    ensure!(reply.id == id(0), "a reply with another id");
    seen.got.push(Got {
        query,
        reply,
        after,
        server,
        from: server,
    });
    if via == Via::TcpIdle {
        let replied = Instant::now();
        match connection.read(IDLE)? {
            Frame::Closed => seen.closed_after = Some(replied.elapsed()),
            Frame::Nothing => {}
            Frame::Message(_) => bail!("a second reply to one query"),
        }
    }
    Ok(())
}

/// All queries in one write; the replies may come in any order.
fn pipelined(server: SocketAddr, ask: &Ask, seen: &mut Observation) -> Result<()> {
    let mut connection = Connection::open(server)?;
    let mut waiting: Vec<(u16, Query)> = (0..ask.times)
        .map(|repetition| (id(repetition), ask.query(repetition)))
        .collect();
    let messages: Result<Vec<Vec<u8>>> = waiting
        .iter()
        .map(|(id, query)| query.encode(*id))
        .collect();
    let started = Instant::now();
    connection.send(&messages?)?;
    while !waiting.is_empty() {
        let Frame::Message(octets) = connection.read(REPLY)? else {
            break;
        };
        let reply = decode(&octets)?;
        let position = waiting.iter().position(|(id, _)| *id == reply.id);
        let (_, query) =
            waiting.swap_remove(position.context("a reply to no query, or a second one")?);
        seen.got.push(Got {
            query,
            reply,
            after: started.elapsed(),
            server,
            from: server,
        });
    }
    seen.missing = waiting.len();
    Ok(())
}

/// Queries at a rate, while hosts files are swapped and readiness is looked at.
fn under_load(
    gateway: &mut Gateway,
    server: SocketAddr,
    ask: &Ask,
    load: &Load,
    swaps: u32,
    seen: &mut Observation,
) -> Result<()> {
    let done = AtomicBool::new(false);
    let (report, swapped) = std::thread::scope(|scope| {
        let loading = scope.spawn(|| {
            let report = load.run();
            done.store(true, Ordering::SeqCst);
            report
        });
        let mut swapped = 0_u32;
        let mut beside = || -> Result<()> {
            while !done.load(Ordering::SeqCst) {
                if swaps == 0 {
                    wait(Duration::from_millis(20));
                    continue;
                }
                let edit = Edit::Put(
                    format!("192.0.2.{}", swapped % 250 + 1),
                    "load.example.org".to_owned(),
                );
                gateway.swap(&edit, Stamp::New)?;
                swapped += 1;
                seen.readyz.push(gateway.get("/readyz")?);
                wait(Duration::from_secs(1) / swaps);
            }
            Ok(())
        };
        let beside = beside();
        let report = loading
            .join()
            .map_err(|_| anyhow::anyhow!("the load panicked"));
        beside.and(Ok((report??, swapped)))
    })?;
    let seconds = report.took.as_secs_f64();
    let rate = f64::from(report.sent) / seconds;
    let mut times: Vec<Duration> = report.replies.values().map(|(_, after)| *after).collect();
    times.sort();
    let at = |percent: usize| {
        times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)))
    };
    tsunaro_integration::say(&format!(
        "{} queries for {} in {seconds:.1} s ({rate:.0}/s), {swapped} swaps; replies: {}, median {:?}, 99 % {:?}, slowest {:?}",
        report.sent,
        ask.query(0).name,
        times.len(),
        at(50),
        at(99),
        at(100),
    ));
    // A load that was not put on says nothing.
    ensure!(
        rate > f64::from(load.rate) * 0.8,
        "the sender reached only {rate:.0} queries a second"
    );
    seen.missing = usize::try_from(report.sent)? - report.replies.len();
    seen.got
        .extend(report.replies.into_values().map(|(reply, after)| Got {
            query: load.query.clone(),
            reply,
            after,
            server,
            from: server,
        }));
    Ok(())
}

/// A pause that the case itself asks for.
pub(crate) fn wait(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        std::thread::park_timeout(left);
    }
}
