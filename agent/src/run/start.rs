//! From arguments to a running loop: read, bind, start the tasks, say what is served.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tsunaro_dns::forward::{ForwardConfig, Forwarder};
use tsunaro_dns::metrics::DnsMetrics;
use tsunaro_dns::server::{Limits, Server};
use tsunaro_localapi::LocalApi;
use tsunaro_model::config::{Config, DnsConfig};
use tsunaro_model::report::UpstreamStatus;
use tsunaro_model::zone::{HostsInput, Snapshot};

use super::{MainLoop, Outputs, Pace};
use crate::cli::RunArgs;
use crate::event::{Event, KernelQuestion};
use crate::files::{self, read_capped};
use crate::heartbeat::Heartbeat;
use crate::http::{self, Readiness, Surface};
use crate::metrics::{AgentCounters, Metrics};
use crate::settings::{self, Listeners};
use crate::stop::{DRAIN_TIMEOUT, Stage};
use crate::tasks::{Delays, Tasks};
use crate::world::{ConfigState, ReportContext, World, first_lines, parse_config};
use crate::{apply, control_server, kernel, self_probe, tailnet, zone_builder};

/// Events on their way to the loop; watchers wait when it is full.
const EVENT_QUEUE: usize = 64;

/// A config is text that people write; more than this is a mistake.
const CONFIG_MAX: u64 = 1024 * 1024;

/// What else there is to start waits for the zone, but not longer than this.
const NAMES_FIRST: Duration = Duration::from_millis(200);

/// The DNS side as the loop sees it.
pub(super) struct Dns {
    zone: Arc<ArcSwap<Snapshot>>,
    forwarder: Arc<Forwarder>,
    counters: Arc<AgentCounters>,
    stop: CancellationToken,
    drained: Option<oneshot::Receiver<()>>,
}

impl Dns {
    /// Serves this snapshot from the next query on.
    pub(super) fn serve(&self, snapshot: Arc<Snapshot>) {
        self.forwarder.configure(&forward_config(&snapshot));
        self.zone.store(snapshot);
        self.counters.count_reload();
    }

    pub(super) fn count_reload_failure(&self) {
        self.counters.count_reload_failure();
    }

    /// The upstreams with their health.
    pub(super) fn upstreams(&self) -> Vec<UpstreamStatus> {
        let status = |upstream: tsunaro_dns::forward::UpstreamReport| UpstreamStatus {
            address: upstream.address.to_string(),
            healthy: upstream.up,
            consecutive_failures: upstream.consecutive_failures,
            smoothed_rtt_micros: upstream
                .smoothed_rtt
                .and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
        };
        self.forwarder.upstreams().into_iter().map(status).collect()
    }

    /// Closes the sockets and waits for what is in flight.
    pub(super) async fn close(&mut self) {
        self.stop.cancel();
        if let Some(drained) = self.drained.take()
            && tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err()
        {
            tracing::warn!("Some queries in flight were not answered before the end");
        }
    }
}

/// Reads, binds, starts the tasks.
///
/// # Errors
/// Everything that a person must mend first: the config's findings, addresses that cannot be bound.
pub(super) async fn start(
    args: RunArgs,
    tasks: &mut Tasks,
) -> Result<(MainLoop, mpsc::Receiver<Event>)> {
    raise_open_files();
    let ipv6 = settings::host_has_ipv6();
    let (config, config_state, listeners) = first_config(&args, ipv6)?;
    let (events_in, events) = mpsc::channel(EVENT_QUEUE);
    let heartbeat = Heartbeat::new();
    let world = World::new(config, config_state, listeners.dns.clone());

    let hosts_wanted = settings::hosts_path(&args.files, &world.config).is_some();
    let before_hosts = if hosts_wanted {
        HostsInput::Unread
    } else {
        HostsInput::NotConfigured
    };
    let (first, _) = Snapshot::build(&world.config.dns, before_hosts, 0, unix_now());
    let forwarder = Arc::new(Forwarder::new(&forward_config(&first)));
    let zone = Arc::new(ArcSwap::from_pointee(first));
    let dns_metrics = Arc::new(DnsMetrics::default());
    let server = Server::bind(
        &listeners.dns,
        Arc::clone(&zone),
        Arc::clone(&forwarder),
        Arc::clone(&dns_metrics),
        Limits::default(),
    )?;
    let http_listener = TcpListener::bind(listeners.http).await.with_context(|| {
        format!(
            "cannot listen on {} for HTTP; choose another with --http-listen",
            listeners.http
        )
    })?;

    let stop = CancellationToken::new();
    let (drained_in, drained) = oneshot::channel();
    let counters = Arc::new(AgentCounters::default());
    let own_addresses = server.addresses();
    say_what_is_served(&world.config, &own_addresses, listeners.http, &args);
    let dns = Dns {
        zone,
        forwarder: Arc::clone(&forwarder),
        counters: Arc::clone(&counters),
        stop: stop.clone(),
        drained: Some(drained),
    };
    tasks.start("DNS server", async move {
        server.run(stop.clone()).await?;
        if !stop.is_cancelled() {
            bail!("it returned");
        }
        // The loop may have given up waiting; that is its choice.
        let _ = drained_in.send(());
        std::future::pending().await
    });

    let api = LocalApi::new(&args.tailscaled_socket);
    let (actions, actions_out) = mpsc::channel(1);
    let (paths, paths_out) = watch::channel(settings::paths(&args.files, &world.config));
    let (build, build_out) = watch::channel(None);
    let (kernel_question, kernel_out) = watch::channel(KernelQuestion::default());
    let (control_url, control_url_out) = watch::channel(None);
    let (readiness, readiness_out) =
        watch::channel(Readiness::NotReady("the zone is not loaded yet".to_owned()));
    tasks.start("file watcher", files::watch(paths_out, events_in.clone()));
    tasks.start(
        "zone builder",
        zone_builder::run(build_out, events_in.clone(), unix_now),
    );
    tasks.start(
        "tailscaled watcher",
        names_first(
            &readiness_out,
            tailnet::watch(api.clone(), events_in.clone()),
        ),
    );
    tasks.start(
        "tailscaled writer",
        names_first(
            &readiness_out,
            apply::run(api, actions_out, events_in.clone()),
        ),
    );
    tasks.start(
        "kernel watcher",
        names_first(&readiness_out, kernel::watch(kernel_out, events_in.clone())),
    );
    tasks.start(
        "control server's name",
        names_first(
            &readiness_out,
            control_server::watch(control_url_out, events_in.clone()),
        ),
    );
    tasks.start(
        "self-probe",
        names_first(
            &readiness_out,
            self_probe::run(own_addresses, Arc::clone(&dns.zone), events_in),
        ),
    );

    let started = jiff::Timestamp::now().to_string();
    let mut world = world;
    let upstreams = dns.upstreams();
    let first_report = world.report(&ReportContext {
        started: &started,
        now: &started,
        socket: &args.tailscaled_socket.display().to_string(),
        uptime: heartbeat.uptime(),
        upstreams: &upstreams,
    });
    // The first conditions are for the log of the first step.
    world.conditions.clear();
    let (report, report_out) = watch::channel(Arc::new(first_report));
    let surface = Surface {
        readiness: readiness_out,
        report: report_out,
        heartbeat: heartbeat.clone(),
        metrics: Arc::new(Metrics::new(dns_metrics, forwarder, counters)),
    };
    tasks.start("HTTP server", http::serve(http_listener, surface));

    let main_loop = MainLoop {
        args,
        listeners,
        world,
        outputs: Outputs {
            paths,
            build,
            kernel: kernel_question,
            control_url,
            actions,
            readiness,
            report,
            dns,
        },
        heartbeat,
        stage: Stage::Serving,
        started,
        touched: true,
        upstreams,
        loops: Vec::new(),
        pace: Pace {
            busy: false,
            wake: None,
            last: None,
            not_before: Instant::now(),
            delays: Delays::new(),
        },
    };
    main_loop.rebuild_unless_hosts_follow(hosts_wanted);
    main_loop.ask_kernel();
    Ok((main_loop, events))
}

impl MainLoop {
    /// Without a hosts file the zone is complete now; with one, its first reading builds it.
    fn rebuild_unless_hosts_follow(&self, hosts_wanted: bool) {
        if !hosts_wanted {
            self.rebuild();
        }
    }
}

/// Runs a task once the zone is served, which clients wait for; on one core, everything that starts
/// before takes that time from them.
fn names_first<F: Future>(
    readiness: &watch::Receiver<Readiness>,
    task: F,
) -> impl Future<Output = F::Output> + use<F> {
    let mut readiness = readiness.clone();
    async move {
        let served = readiness.wait_for(|readiness| *readiness == Readiness::Ready);
        // Without a zone the rest has to work all the same.
        let _ = tokio::time::timeout(NAMES_FIRST, served).await;
        task.await
    }
}

fn first_config(args: &RunArgs, ipv6: bool) -> Result<(Config, ConfigState, Listeners)> {
    let path = args.files.config.display().to_string();
    let content = read_capped(&args.files.config, CONFIG_MAX)
        .map_err(|fault| anyhow::anyhow!("{path}: {fault}"))?;
    let listeners_of = |config: &Config| settings::listeners(args, &config.listen, ipv6);
    // Which listeners there are is in the file itself, unless flags say otherwise.
    let (config, _) = parse_config(&content.bytes, &[]);
    let listeners = config.as_ref().map(listeners_of);
    let dns = listeners
        .as_ref()
        .map(|listeners| listeners.dns.clone())
        .unwrap_or_default();
    let (config, findings) = parse_config(&content.bytes, &dns);
    let lines = first_lines(&findings, &path);
    let (Some(config), Some(listeners)) = (config, listeners) else {
        bail!("the config cannot be used:\n{}", lines.join("\n"));
    };
    for finding in &lines {
        tracing::warn!("{finding}");
    }
    let state = ConfigState {
        path,
        generation: 1,
        hash: content.hash,
        findings: lines,
        error: None,
    };
    Ok((config, state, listeners))
}

fn say_what_is_served(config: &Config, dns: &[SocketAddr], http: SocketAddr, args: &RunArgs) {
    let Config {
        dns:
            DnsConfig {
                zone,
                wildcard_address,
                extra_zones,
                ..
            },
        routes,
        ..
    } = config;
    let addresses: Vec<String> = dns.iter().map(ToString::to_string).collect();
    tracing::info!(
        "Serving the zone {zone} on {} over UDP and TCP",
        addresses.join(", ")
    );
    if let Some(address) = wildcard_address {
        tracing::info!("Names of the zone that do not exist get the wildcard address {address}");
    }
    for extra in extra_zones {
        let upstreams: Vec<String> = extra.upstreams.iter().map(ToString::to_string).collect();
        tracing::info!(
            "Forwarding {} to {}, names in the hosts file excepted",
            extra.zone,
            upstreams.join(", ")
        );
    }
    match routes {
        None => tracing::info!("No routes section: DNS only, tailscaled's routes are left alone"),
        Some(routes) => {
            tracing::info!(
                "Advertising {} through {}",
                super::log::some(&tsunaro_model::routes::wanted(routes)),
                args.tailscaled_socket.display()
            );
        }
    }
    tracing::info!("Probes, status and metrics on http://{http}/readyz, /livez, /status, /metrics");
}

fn forward_config(snapshot: &Snapshot) -> ForwardConfig {
    let zones = snapshot
        .extra_zones()
        .iter()
        .map(|zone| (zone.apex.clone(), zone.upstreams.clone()))
        .collect();
    ForwardConfig {
        primary: snapshot.apex().clone(),
        zones,
    }
}

/// A query to an upstream holds a socket, a client over TCP another: the soft limit of open files
/// (often 1024) is raised to the hard one.
fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "The limit of open files could not be raised");
    }
}

/// Seconds since 1970, modulo 2³², as SOA serials count.
fn unix_now() -> u32 {
    let seconds = jiff::Timestamp::now().as_second();
    u32::try_from(seconds.rem_euclid(1 << 32)).unwrap_or(0)
}
