//! The agent as a process on loopback, with its files, its upstreams, and what asks it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tsunaro_integration::lab::{Process, Signal};
use tsunaro_integration::peers::Peers;
use tsunaro_integration::wire::{Behaviour, Upstream, free_port};
use tsunaro_integration::{Wait, agent_binary, spawn_local};

use crate::fixture::{self, U1_ADDRESS, U2_ADDRESS};
use crate::hosts_dir::{Edit, HostsDir, Stamp};
use crate::http::{self, HttpSeen};
use crate::observation::CheckSeen;
use crate::reference;
use crate::setup::{Bind, Front, HostsKind, Peer, Setup};
use crate::text::ZONE;

/// How long a start may take, on a machine that is busy building.
const START: Duration = Duration::from_secs(20);
/// Another process may take a port between its choice and its use.
const START_ATTEMPTS: u32 = 3;

/// What answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The agent.
    Agent,
    /// CoreDNS with the nearest config that it has.
    CoreDns,
    /// NSD with a zone file of the same names.
    Nsd,
}

/// A running agent, or what it is compared with, with all that belongs to a setup. Dropping it ends everything.
pub(crate) struct Gateway {
    server: Process,
    dns: SocketAddr,
    http: SocketAddr,
    upstreams: Vec<Upstream>,
    hosts: HostsDir,
    coredns: Option<(Process, SocketAddr)>,
    dir: TempDir,
}

/// An address of 127/8 that other runs of these tests do not use at the same time.
pub(crate) fn own_loopback() -> IpAddr {
    let [high, low] = u16::try_from(std::process::id() & 0xffff)
        .unwrap_or(0)
        .to_be_bytes();
    Ipv4Addr::new(127, 64 | (high >> 6), high & 0x3f, low.clamp(1, 254)).into()
}

impl Gateway {
    pub(crate) fn start(setup: &Setup, engine: Engine) -> Result<Self> {
        let mut attempt = 1;
        loop {
            match Self::try_start(setup, engine) {
                Err(error)
                    if attempt < START_ATTEMPTS && format!("{error:#}").contains("in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn try_start(setup: &Setup, engine: Engine) -> Result<Self> {
        let ip = own_loopback();
        let listen_ip = match setup.bind {
            Bind::One => ip,
            Bind::Any => Ipv4Addr::UNSPECIFIED.into(),
            Bind::Any6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let dir = tempfile::Builder::new().prefix("tsunaro-dns-").tempdir()?;
        let dns = SocketAddr::new(listen_ip, free_port(listen_ip)?);
        let http = SocketAddr::new(ip, free_port(ip)?);
        let mut upstreams = Vec::new();
        let mut addresses = Vec::new();
        for (peer, address) in [(setup.u1, U1_ADDRESS), (setup.u2, U2_ADDRESS)] {
            let behaviour = match peer {
                Peer::Good => Behaviour::Answer(address),
                Peer::Bad(bad) => bad.behaviour(address),
                Peer::Loop => Behaviour::ForwardTo(dns),
                Peer::Closed => {
                    addresses.push(SocketAddr::new(ip, free_port(ip)?));
                    continue;
                }
                Peer::None => continue,
            };
            let upstream = Upstream::start(ip, behaviour)?;
            addresses.push(upstream.address());
            upstreams.push(upstream);
        }
        let hosts = HostsDir::lay(&dir.path().join("mount"), fixture::hosts(setup.hosts))?;
        let server = match engine {
            Engine::Agent => {
                let config = dir.path().join("gateway.yaml");
                std::fs::write(&config, fixture::config(setup, &addresses))?;
                spawn_local(
                    &agent_binary()?,
                    run_args(&config, dns, http),
                    &dir.path().join("agent.log"),
                )?
            }
            Engine::CoreDns => reference::coredns(setup, dir.path(), dns, &addresses)?,
            Engine::Nsd => reference::nsd(setup, dir.path(), dns)?,
        };
        let mut gateway = Self {
            server,
            dns,
            http,
            upstreams,
            hosts,
            coredns: None,
            dir,
        };
        match engine {
            Engine::Agent => gateway.wait_until_it_serves(setup.hosts)?,
            Engine::CoreDns | Engine::Nsd => reference::wait_until_it_serves(&gateway.server, dns)?,
        }
        if setup.front == Front::CoreDns {
            gateway.coredns = Some(start_coredns(gateway.dir.path(), ip, dns)?);
        }
        Ok(gateway)
    }

    fn wait_until_it_serves(&self, hosts: HostsKind) -> Result<()> {
        let wanted = if hosts == HostsKind::Missing {
            503
        } else {
            200
        };
        Wait::new("the agent to serve", START)
            .every(Duration::from_millis(10))
            .logs([self.server.log_path().to_owned()])
            .until(|| {
                if let Some(status) = self.server.try_wait()? {
                    return Ok(Some(Some(status)));
                }
                match self.get("/readyz")? {
                    HttpSeen::Reply { status, .. } if status == wanted => Ok(Some(None)),
                    other => bail!("{other:?}"),
                }
            })?
            .map_or(Ok(()), |status| {
                bail!("the agent has ended: {status}: {}", self.server.log())
            })
    }

    /// Where the agent answers DNS.
    pub(crate) fn dns(&self) -> SocketAddr {
        self.dns
    }

    /// Where its CoreDNS answers.
    pub(crate) fn coredns(&self) -> Result<SocketAddr> {
        let (_, address) = self.coredns.as_ref().context("this setup has no CoreDNS")?;
        Ok(*address)
    }

    pub(crate) fn upstreams(&self) -> &[Upstream] {
        &self.upstreams
    }

    pub(crate) fn silence_upstreams(&self) {
        for upstream in &self.upstreams {
            upstream.set(Behaviour::Silent);
        }
    }

    pub(crate) fn get(&self, path: &str) -> Result<HttpSeen> {
        http::get(self.http, path)
    }

    /// The value of one metric, with the labels as they are written there.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let HttpSeen::Reply { status: 200, body } = self.get("/metrics")? else {
            bail!("no metrics");
        };
        let start = format!("tsunaro_agent_{name} ");
        let value = body.lines().find_map(|line| line.strip_prefix(&start));
        let value = value.with_context(|| format!("no metric {name} in /metrics:\n{body}"))?;
        Ok(value.trim().parse()?)
    }

    pub(crate) fn swap(&mut self, edit: &Edit, stamp: Stamp) -> Result<()> {
        self.hosts.swap(edit, stamp)
    }

    pub(crate) fn terminate(&self) -> Result<()> {
        self.server.kill(Signal::SIGTERM)
    }

    /// The exit code, once it has ended; of a death by signal, an error.
    pub(crate) fn exit_code(&self) -> Result<Option<i32>> {
        match self.server.try_wait()? {
            None => Ok(None),
            Some(status) => Ok(Some(status.code().with_context(|| format!("{status}"))?)),
        }
    }

    /// The end of the agent's log, for a report.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.server.log();
        let lines: Vec<&str> = log.lines().collect();
        lines
            .iter()
            .skip(lines.len().saturating_sub(12))
            .map(|line| format!("    | {line}\n"))
            .collect()
    }
}

fn run_args(config: &Path, dns: SocketAddr, http: SocketAddr) -> Vec<String> {
    let socket = config.with_file_name("no-tailscaled.sock");
    [
        "run".to_owned(),
        format!("--config={}", config.display()),
        format!("--dns-listen={dns}"),
        format!("--http-listen={http}"),
        format!("--tailscaled-socket={}", socket.display()),
    ]
    .into()
}

/// CoreDNS as a cluster has it: it forwards the zone to the agent and caches.
fn start_coredns(dir: &Path, ip: IpAddr, agent: SocketAddr) -> Result<(Process, SocketAddr)> {
    let coredns = Peers::ensure()?.coredns;
    let address = SocketAddr::new(ip, free_port(ip)?);
    let corefile = dir.join("Corefile");
    let text = format!(
        "{zone}:{port} {{\n  bind {ip}\n  errors\n  forward . {agent} {{\n    prefer_udp\n  }}\n  cache 30\n}}\n",
        zone = ZONE.trim_end_matches('.'),
        port = address.port(),
    );
    std::fs::write(&corefile, text)?;
    let args: [PathBuf; 2] = ["-conf".into(), corefile];
    let process = spawn_local(&coredns, args, &dir.join("coredns.log"))?;
    // A name that it refuses by itself, so that the agent sees nothing of this.
    reference::wait_for_reply(&process, address, "example.org.")?;
    Ok((process, address))
}

/// What the agent makes of a config that it should refuse.
pub(crate) fn check(setup: &Setup) -> Result<CheckSeen> {
    let ip = own_loopback();
    let dir = tempfile::Builder::new().prefix("tsunaro-dns-").tempdir()?;
    let config = dir.path().join("gateway.yaml");
    let upstream = SocketAddr::new(Ipv4Addr::new(198, 51, 100, 53).into(), 53);
    std::fs::write(&config, fixture::config(setup, &[upstream]))?;
    let agent = agent_binary()?;
    let args = ["check".to_owned(), format!("--config={}", config.display())];
    let checked = spawn_local(&agent, args, &dir.path().join("check.log"))?;
    let check_code = checked.wait(START)?.code();
    let dns = SocketAddr::new(ip, free_port(ip)?);
    let http = SocketAddr::new(ip, free_port(ip)?);
    let running = spawn_local(
        &agent,
        run_args(&config, dns, http),
        &dir.path().join("agent.log"),
    )?;
    // It ends, or it serves.
    let run_code = Wait::new("the agent to end or to serve", START)
        .every(Duration::from_millis(10))
        .until(|| match (running.try_wait()?, http::get(http, "/livez")?) {
            (Some(status), _) => Ok(Some(status.code())),
            (None, HttpSeen::Reply { .. }) => Ok(Some(None)),
            (None, HttpSeen::Refused) => Ok(None),
        })?;
    Ok(CheckSeen {
        check_code,
        text: checked.log(),
        run_code,
    })
}
