//! `run`: the main loop. Watchers bring events, the world takes them in, plans come out, the
//! applier carries them out, reports go out.

mod log;
mod start;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tsunaro_model::plan::{Action, Next};
use tsunaro_model::report::{Phase, StatusReport, UpstreamStatus};
use tsunaro_model::tailnet::AuthKey;
use tsunaro_model::zone::HostsState;

use self::log::short;
use crate::cli::RunArgs;
use crate::event::{Event, KernelQuestion};
use crate::files::{FileSeen, Paths, Which};
use crate::heartbeat::{Heartbeat, TICK};
use crate::http::Readiness;
use crate::settings::{self, Listeners};
use crate::stop::{Signals, Stage};
use crate::tasks::{Delays, Ended, Tasks};
use crate::world::{ConfigChange, ReportContext, World};
use crate::zone_builder::{BuildInput, Built, HostsFile};

/// Exit code after a second signal: nothing was drained.
const EXIT_ABORTED: u8 = 130;

/// Where the loop's results go.
struct Outputs {
    paths: watch::Sender<Paths>,
    build: watch::Sender<Option<BuildInput>>,
    kernel: watch::Sender<KernelQuestion>,
    control_url: watch::Sender<Option<String>>,
    actions: mpsc::Sender<Action>,
    readiness: watch::Sender<Readiness>,
    report: watch::Sender<Arc<StatusReport>>,
    dns: start::Dns,
}

/// The loop's own state beside the world.
struct MainLoop {
    args: RunArgs,
    listeners: Listeners,
    world: World,
    outputs: Outputs,
    heartbeat: Heartbeat,
    stage: Stage,
    started: String,
    /// Something that the report shows may have changed.
    touched: bool,
    upstreams: Vec<UpstreamStatus>,
    loops: Vec<String>,
    pace: Pace,
}

/// Keeps writes one at a time, and the same write from being repeated in a tight loop.
struct Pace {
    busy: bool,
    /// When to plan again although nothing happened.
    wake: Option<Instant>,
    last: Option<Action>,
    not_before: Instant,
    delays: Delays,
}

/// Runs until a signal, or until a supervised task ends.
///
/// # Errors
/// What kept it from starting, or which task ended and why.
pub(crate) async fn run(args: RunArgs) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let mut tasks = Tasks::new();
    let (mut main_loop, mut events) = start::start(args, &mut tasks).await?;
    let mut tick = tokio::time::interval(TICK);
    let code = loop {
        main_loop.heartbeat.beat();
        let wake = main_loop.next_deadline();
        tokio::select! {
            Some(event) = events.recv() => main_loop.on_event(event),
            ended = tasks.next_ended() => match ended {
                Ended::Cancelled => {}
                Ended::Unexpectedly { task, error } => bail!("the task \"{task}\" ended: {error}"),
            },
            signal = signals.next() => {
                if main_loop.stage != Stage::Serving {
                    tracing::warn!(signal, "Second signal: ending at once");
                    break ExitCode::from(EXIT_ABORTED);
                }
                main_loop.leave(signal);
            }
            _ = tick.tick() => {}
            () = tokio::time::sleep_until(wake) => {}
        }
        main_loop.step();
        if main_loop.stage == Stage::Closing {
            tokio::select! {
                () = main_loop.close() => break ExitCode::SUCCESS,
                _ = signals.next() => break ExitCode::from(EXIT_ABORTED),
            }
        }
    };
    tokio::select! {
        () = tasks.stop() => Ok(code),
        _ = signals.next() => Ok(ExitCode::from(EXIT_ABORTED)),
    }
}

impl MainLoop {
    fn next_deadline(&self) -> Instant {
        let idle = Instant::now() + TICK;
        let pace = self.pace.wake.unwrap_or(idle);
        self.stage.deadline().unwrap_or(idle).min(pace).min(idle)
    }

    fn on_event(&mut self, event: Event) {
        self.touched = true;
        match event {
            Event::File(seen) => self.on_file(seen),
            Event::Built(built) => self.on_built(built),
            Event::Tailnet(seen) => {
                self.world.see_tailnet(seen);
                let url = self.world.control_url();
                self.outputs
                    .control_url
                    .send_if_modified(|old| replace_if_changed(old, url));
            }
            Event::ControlServer(addresses) => self.world.see_control_server(addresses),
            Event::Probed(deaf) => self.world.deaf = deaf,
            Event::Kernel(view) => {
                if let Err(error) = &view {
                    tracing::warn!(%error, "The kernel's routing state cannot be read");
                }
                self.world.see_kernel(view);
            }
            Event::Applied { action, result } => {
                self.pace.busy = false;
                let healings = self.world.healings();
                let said = log::Outcome::of(&result, self.world.refusal());
                self.world
                    .see_applied(&action, result, self.heartbeat.uptime());
                let healed = self.world.healings() > healings;
                log::applied(&action, &said, healed);
            }
        }
    }

    fn on_file(&mut self, seen: FileSeen) {
        let FileSeen {
            which,
            path,
            content,
        } = seen;
        // It may have been read while the config that no longer names it was on its way.
        if !self.outputs.paths.borrow().name(which, &path) {
            return;
        }
        match which {
            Which::Config => match self.world.see_config(&content, &self.listeners.dns) {
                ConfigChange::None => {}
                ConfigChange::Accepted { listen_differs } => self.on_config(listen_differs),
                ConfigChange::Refused(lines) => {
                    for finding in lines {
                        tracing::error!("{finding}");
                    }
                    tracing::error!("The new config is not used; the one before stays in force");
                }
            },
            Which::Hosts => {
                self.world.hosts_file = HostsFile::Seen(path.display().to_string(), content);
                self.rebuild();
            }
            Which::Key => {
                let key = match &content {
                    Ok(content) => {
                        AuthKey::from_file_content(&String::from_utf8_lossy(&content.bytes))
                    }
                    Err(fault) => {
                        tracing::info!(file = %path.display(), "No pre-auth key: {fault}");
                        None
                    }
                };
                self.world.see_key(key);
            }
            Which::Resolvers => {
                let text = content.as_ref().map(|content| content.bytes.as_slice());
                self.world.see_resolvers(text.unwrap_or_default());
            }
        }
    }

    fn on_config(&mut self, listen_differs: bool) {
        for finding in &self.world.config_state.findings {
            tracing::warn!("{finding}");
        }
        if listen_differs {
            tracing::warn!(
                "The listen addresses of the config changed; they need a restart, all else is in force"
            );
        }
        tracing::info!(
            generation = self.world.config_state.generation,
            hash = %short(&self.world.config_state.hash),
            "Config reloaded"
        );
        let paths = settings::paths(&self.args.files, &self.world.config);
        if paths.key.is_none() {
            self.world.see_key(None);
        }
        if paths.hosts.is_none() {
            self.world.hosts_file = HostsFile::NotConfigured;
        }
        self.outputs
            .paths
            .send_if_modified(|old| replace_if_changed(old, paths));
        self.rebuild();
        self.ask_kernel();
    }

    fn rebuild(&self) {
        let dns = Arc::new(self.world.config.dns.clone());
        self.outputs.build.send_replace(Some(BuildInput {
            dns,
            hosts: self.world.hosts_file.clone(),
        }));
    }

    fn ask_kernel(&self) {
        let question = KernelQuestion {
            read: self.world.needs_kernel(),
            prefixes: self.world.wanted().unwrap_or_default().to_vec(),
        };
        self.outputs
            .kernel
            .send_if_modified(|old| replace_if_changed(old, question));
    }

    fn on_built(&mut self, built: Built) {
        let before = self.world.built.as_ref();
        let error_before = before.and_then(|built| built.hosts.error.as_ref());
        match (&built.hosts.error, error_before) {
            (Some(error), before) if Some(error) != before => {
                if built.snapshot.hosts() == HostsState::Unread {
                    tracing::error!("{error}; until then only static names are served");
                } else {
                    tracing::error!("{error}; the last good names stay in force");
                }
                self.outputs.dns.count_reload_failure();
            }
            (None, Some(_)) => tracing::info!("The hosts file is good again"),
            _ => {}
        }
        if before.is_none_or(|before| before.snapshot.generation() != built.snapshot.generation()) {
            for finding in &built.hosts.findings {
                tracing::warn!("{finding}");
            }
            if !built.census.shadowed.is_empty() {
                let names = built.census.shadowed.len();
                let first: Vec<String> = built
                    .census
                    .shadowed
                    .iter()
                    .take(3)
                    .map(ToString::to_string)
                    .collect();
                let first = first.join(", ");
                tracing::warn!(names, %first, "Names of the hosts file are hidden by static records");
            }
            tracing::info!(
                generation = built.snapshot.generation(),
                serial = built.snapshot.serial(),
                static_names = built.census.static_names,
                dynamic_names = built.census.dynamic_names,
                overrides = built.census.overrides,
                skipped = built.hosts.skipped,
                hosts_hash = %short(&built.hosts.hash),
                "Zone loaded"
            );
            self.outputs.dns.serve(Arc::clone(&built.snapshot));
        }
        self.world.built = Some(built);
    }

    fn leave(&mut self, signal: &'static str) {
        self.touched = true;
        self.stage = Stage::leave(Instant::now(), self.args.lame_duck);
        self.world.phase = Phase::Leaving;
        tracing::info!(signal, lame_duck = ?self.args.lame_duck, "Leaving: still serving, then the routes are withdrawn");
    }

    /// Plan, apply, report.
    fn step(&mut self) {
        let now = Instant::now();
        let keep = self.args.keep_routes;
        let withdrawn =
            keep || (self.world.withdrawing && !self.pace.busy && self.world.is_withdrawn());
        self.stage = self.stage.advance(now, withdrawn);
        let withdrawing = !keep && matches!(self.stage, Stage::Withdrawing(_) | Stage::Closing);
        self.touched |= withdrawing != self.world.withdrawing;
        self.world.withdrawing = withdrawing;
        let marks = self.world.marks();
        self.plan(now);
        self.touched |= marks != self.world.marks();
        self.publish();
    }

    fn plan(&mut self, now: Instant) {
        self.pace.wake = None;
        if self.pace.busy {
            return;
        }
        let action = match self.world.plan(self.heartbeat.uptime()) {
            Next::Nothing => return,
            Next::Later(at) => {
                self.pace.wake = Some(now + at.saturating_sub(self.heartbeat.uptime()));
                return;
            }
            Next::Write(action) => action,
        };
        let again = self.pace.last.as_ref() == Some(&action);
        if again && now < self.pace.not_before {
            self.pace.wake = Some(self.pace.not_before);
            return;
        }
        if !again {
            self.pace.delays.reset();
        }
        // The applier takes one action at a time and the loop sends none while it is busy.
        if self.outputs.actions.try_send(action.clone()).is_ok() {
            self.pace.busy = true;
            self.pace.last = Some(action);
            self.pace.not_before = now + self.pace.delays.next();
        }
    }

    fn publish(&mut self) {
        if self.world.phase == Phase::Starting && self.world.hosts_state() != HostsState::Unread {
            self.world.phase = Phase::Serving;
            self.touched = true;
        }
        let readiness = self.readiness();
        self.outputs
            .readiness
            .send_if_modified(|old| replace_if_changed(old, readiness));
        let upstreams = self.outputs.dns.upstreams();
        // A report of thousands of prefixes is no work to do for nothing.
        if !self.touched && !self.world.holds_back() && upstreams == self.upstreams {
            return;
        }
        self.touched = false;
        self.upstreams = upstreams;
        let before = self.world.conditions.clone();
        let now = jiff::Timestamp::now().to_string();
        let report = self.world.report(&ReportContext {
            started: &self.started,
            now: &now,
            socket: &self.args.tailscaled_socket.display().to_string(),
            uptime: self.heartbeat.uptime(),
            upstreams: &self.upstreams,
        });
        for remark in self.world.new_loops(&mut self.loops) {
            tracing::warn!("{remark}");
        }
        log::transitions(&before, &report.conditions);
        self.outputs
            .report
            .send_if_modified(|old| replace_if_changed(old, Arc::new(report)));
    }

    fn readiness(&self) -> Readiness {
        match &self.world.built {
            None => Readiness::NotReady("the zone is not loaded yet".to_owned()),
            Some(built) if built.snapshot.hosts() == HostsState::Unread => {
                let why = built
                    .hosts
                    .error
                    .clone()
                    .unwrap_or_else(|| "the hosts file was not read yet".to_owned());
                Readiness::NotReady(why)
            }
            Some(_) => Readiness::Ready,
        }
    }

    async fn close(&mut self) {
        self.outputs
            .readiness
            .send_replace(Readiness::NotReady("the DNS sockets are closed".to_owned()));
        self.outputs.dns.close().await;
        tracing::info!("Stopped");
    }
}

/// Replaces a watched value; true when it differs.
fn replace_if_changed<T: PartialEq>(old: &mut T, new: T) -> bool {
    let changed = *old != new;
    *old = new;
    changed
}
