//! All that the agent knows: what is wanted, what was observed, what was tried.

mod hints;
mod report;
mod sources;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::Ipv4Net;
use tsunaro_model::config::{self, Config, Listen};
use tsunaro_model::kernel::KernelView;
use tsunaro_model::kernel::checks::Opinions;
use tsunaro_model::plan::{self, Action, Desired, Memory, Next, Observed, Refusal};
use tsunaro_model::report::{Condition, Phase};
use tsunaro_model::routes;
use tsunaro_model::split_dns::{self, SplitDns};
use tsunaro_model::tailnet::{AuthKey, Backend, DaemonStatus, Prefs, TailnetDns};
use tsunaro_model::verdict::TailnetView;
use tsunaro_model::verdict::kernel::KernelReport;
use tsunaro_model::verdict::steady::Steady;
use tsunaro_model::zone::HostsState;

use crate::event::TailnetSeen;
use crate::zone_builder::{Built, HostsFile};

pub(crate) use report::ReportContext;
pub(crate) use sources::{ConfigChange, ConfigState, first_lines, parse_config};

/// The state behind every decision; changed by the main loop only.
pub(crate) struct World {
    /// The listen addresses of the config at the start, which stay in force.
    started_with: Listen,
    /// Where DNS listens.
    listeners: Vec<SocketAddr>,
    /// The config in use, and what there is to say about its file.
    pub(crate) config: Arc<Config>,
    /// What it wants to advertise; None: routes are not ours.
    wanted: Option<Vec<Ipv4Net>>,
    pub(crate) config_state: ConfigState,
    pub(crate) hosts_file: HostsFile,
    key: Option<AuthKey>,
    /// The snapshot being served, with its census; None before the first build.
    pub(crate) built: Option<Built>,
    tailnet: Tailnet,
    kernel: Option<Result<KernelView, String>>,
    /// What the checks made of it; None when something that they look at has changed since.
    kernel_report: Option<KernelReport>,
    hints: hints::Hints,
    /// Upstreams that are this gateway itself, as remarks.
    loops: Vec<String>,
    /// Where the process is in its life.
    pub(crate) phase: Phase,
    /// Set when the routes are to be withdrawn before the end.
    pub(crate) withdrawing: bool,
    /// Listening addresses that did not answer the agent's own question, with the reason.
    pub(crate) deaf: Vec<String>,
    steady: Steady,
    /// The conditions as reported last.
    pub(crate) conditions: Vec<Condition>,
}

/// tailscaled as far as it was seen.
#[derive(Default)]
struct Tailnet {
    lost: Option<String>,
    status: Option<DaemonStatus>,
    observed: Option<Observed>,
    memory: Memory,
    dns: Option<TailnetDns>,
    refused: Option<Refusal>,
    opinions: Opinions,
}

impl World {
    pub(crate) fn new(
        config: Config,
        config_state: ConfigState,
        listeners: Vec<SocketAddr>,
    ) -> Self {
        Self {
            started_with: config.listen.clone(),
            listeners,
            wanted: config.routes.as_ref().map(routes::wanted),
            config: Arc::new(config),
            config_state,
            hosts_file: HostsFile::NotConfigured,
            key: None,
            built: None,
            tailnet: Tailnet::default(),
            kernel: None,
            kernel_report: None,
            hints: hints::Hints::default(),
            loops: Vec::new(),
            phase: Phase::Starting,
            withdrawing: false,
            deaf: Vec::new(),
            steady: Steady::default(),
            conditions: Vec::new(),
        }
    }

    fn use_config(&mut self, config: Config) {
        self.wanted = config.routes.as_ref().map(routes::wanted);
        self.config = Arc::new(config);
        self.kernel_report = None;
        // What it holds back speaks of what was wanted before.
        self.steady = Steady::default();
        self.find_loops();
    }

    /// The prefixes to advertise while the process is not on its way out.
    pub(crate) fn wanted(&self) -> Option<&[Ipv4Net]> {
        self.wanted.as_deref()
    }

    /// What the config, the key file and the stage of life ask of tailscaled.
    pub(crate) fn desired(&self) -> Desired {
        let routes = self.wanted.as_ref().map(|wanted| {
            if self.withdrawing {
                Vec::new()
            } else {
                wanted.clone()
            }
        });
        Desired {
            routes,
            snat: self.snat(),
            key: self.key.clone(),
        }
    }

    fn snat(&self) -> bool {
        self.config.routes.as_ref().is_none_or(|routes| routes.snat)
    }

    /// Whether the config asks anything of tailscaled.
    pub(crate) fn uses_tailscaled(&self) -> bool {
        self.config.routes.is_some() || self.config.tailnet.auth_key_file.is_some()
    }

    /// The next write to tailscaled; `now` is the time since the agent's start.
    pub(crate) fn plan(&mut self, now: Duration) -> Next {
        let desired = self.desired();
        let Tailnet {
            observed: Some(observed),
            memory,
            refused,
            lost: None,
            ..
        } = &mut self.tailnet
        else {
            return Next::Nothing;
        };
        memory.observe(&desired, observed, now);
        let next = plan::plan(&desired, observed, memory, now);
        if next == Next::Nothing {
            // What was refused is wanted no more, or was done by somebody else.
            *refused = None;
        }
        next
    }

    /// What the plan remembers and the report shows; it changes with time alone, too.
    pub(crate) fn marks(&self) -> impl PartialEq + use<> {
        let Tailnet {
            memory, refused, ..
        } = &self.tailnet;
        (
            self.healings(),
            memory.routes.is_foreign(),
            memory.saved.is_unsaved(),
            memory.is_offline(),
            memory.login.clone(),
            refused.clone(),
        )
    }

    /// Takes in a reading of tailscaled.
    pub(crate) fn see_tailnet(&mut self, seen: TailnetSeen) {
        // tailscaled may repeat a key that it was given.
        let key = self.key.clone();
        let clean = |text: String| key.as_ref().map_or(text.clone(), |key| key.redact(&text));
        match seen {
            TailnetSeen::Lost(why) => {
                self.tailnet.lost = Some(why);
                self.tailnet.memory.lost();
            }
            TailnetSeen::LoginRefused(why) => {
                if let Some(observed) = &mut self.tailnet.observed {
                    observed.login_error = Some(clean(why));
                }
            }
            TailnetSeen::Read {
                mut status,
                prefs,
                dns,
                opinions,
            } => {
                status.health = status.health.into_iter().map(clean).collect();
                let before = self.tailnet.observed.take();
                let observed = Observed {
                    backend: status.backend,
                    prefs: *prefs,
                    health: status.health.clone(),
                    online: status.node.as_ref().is_none_or(|node| node.online),
                    expired: status.node.as_ref().is_some_and(|node| node.expired),
                    login_error: before
                        .and_then(|before| before.login_error)
                        .filter(|_| status.backend == Backend::NeedsLogin),
                };
                let known = self.tailnet.status.as_ref();
                if self.tailnet.opinions != opinions
                    || known.is_none_or(|known| known.addresses != status.addresses)
                {
                    self.kernel_report = None;
                }
                self.tailnet.lost = None;
                self.tailnet.dns = dns;
                self.tailnet.opinions = opinions;
                self.tailnet.observed = Some(observed);
                self.tailnet.status = Some(*status);
            }
        }
    }

    /// Takes in the end of a write.
    pub(crate) fn see_applied(
        &mut self,
        action: &Action,
        result: Result<Option<Prefs>, Refusal>,
        now: Duration,
    ) {
        if result.is_ok() {
            self.tailnet.memory.written(action, now);
            if let (Action::LogIn(_) | Action::LogInAgain(_), Some(observed)) =
                (action, &mut self.tailnet.observed)
            {
                observed.login_error = None;
            }
        }
        match result {
            Ok(prefs) => {
                self.tailnet.refused = None;
                if let (Some(prefs), Some(observed)) = (prefs, &mut self.tailnet.observed) {
                    observed.prefs = prefs;
                }
            }
            Err(why) => self.tailnet.refused = Some(why),
        }
    }

    /// What tailscaled refused last, while it is still wanted.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.tailnet.refused.as_ref()
    }

    /// Takes in a reading of the kernel.
    pub(crate) fn see_kernel(&mut self, view: Result<KernelView, String>) {
        if self.kernel.as_ref() != Some(&view) {
            self.kernel = Some(view);
            self.kernel_report = None;
            self.find_loops();
        }
    }

    /// Takes in the content of resolv.conf.
    pub(crate) fn see_resolvers(&mut self, text: &[u8]) {
        self.hints.resolvers = sources::resolvers(text);
        self.kernel_report = None;
    }

    /// Takes in the addresses of the control server.
    pub(crate) fn see_control_server(&mut self, addresses: Vec<IpAddr>) {
        self.hints.control_server = Some(addresses);
        self.kernel_report = None;
    }

    /// The control server's URL, if anything is to be known of it.
    pub(crate) fn control_url(&self) -> Option<String> {
        self.wanted.as_ref()?;
        let observed = self.tailnet.observed.as_ref()?;
        Some(observed.prefs.control_url.clone()).filter(|url| !url.is_empty())
    }

    /// Whether the kernel's state is of any use: for routes, or to know an upstream that is this
    /// host itself.
    pub(crate) fn needs_kernel(&self) -> bool {
        let everywhere = self
            .listeners
            .iter()
            .any(|listener| listener.ip().is_unspecified());
        self.wanted.is_some() || (everywhere && !self.config.dns.extra_zones.is_empty())
    }

    /// The remarks on upstreams that are this gateway itself and were not told before.
    pub(crate) fn new_loops(&self, told: &mut Vec<String>) -> Vec<String> {
        let new = self.loops.iter().filter(|remark| !told.contains(*remark));
        let new = new.cloned().collect();
        told.clone_from(&self.loops);
        new
    }

    fn find_loops(&mut self) {
        let Some(Ok(view)) = &self.kernel else { return };
        self.loops = config::loops(&self.config, &self.listeners, &view.own_addresses());
    }

    /// Takes in the key file's content.
    pub(crate) fn see_key(&mut self, key: Option<AuthKey>) {
        self.key = key;
    }

    /// True once nothing of ours is advertised, or nothing can be done about it any more.
    pub(crate) fn is_withdrawn(&self) -> bool {
        let Some(observed) = &self.tailnet.observed else {
            return true;
        };
        self.config.routes.is_none()
            || self.tailnet.lost.is_some()
            || self.tailnet.refused.is_some()
            || observed.backend != Backend::Running
            || observed.prefs.advertise_routes.is_empty()
    }

    /// Whether dynamic names are known to the snapshot being served.
    pub(crate) fn hosts_state(&self) -> HostsState {
        self.built
            .as_ref()
            .map_or(HostsState::Unread, |built| built.snapshot.hosts())
    }

    /// Times that what another writer changed was put right.
    pub(crate) fn healings(&self) -> u64 {
        self.tailnet.memory.routes.healings() + self.tailnet.memory.prefs.healings()
    }

    /// Whether clients of the tailnet are told to ask us.
    fn split_dns(&self) -> SplitDns {
        let dns = &self.config.dns;
        let zones: Vec<_> = std::iter::once(&dns.zone)
            .chain(dns.extra_zones.iter().map(|zone| &zone.zone))
            .collect();
        let told = self
            .tailnet
            .dns
            .as_ref()
            .filter(|_| self.tailnet.lost.is_none());
        split_dns::compare(&zones, &dns.addresses, told)
    }

    fn tailnet_view(&self) -> TailnetView {
        if !self.uses_tailscaled() {
            return TailnetView::NotConfigured;
        }
        let Tailnet {
            lost,
            observed,
            memory,
            refused,
            status: _,
            dns: _,
            opinions: _,
        } = &self.tailnet;
        match (lost, observed) {
            (Some(why), _) => TailnetView::Unreachable(why.clone()),
            (None, None) => TailnetView::Unseen,
            (None, Some(observed)) => TailnetView::Seen {
                observed: Box::new(observed.clone()),
                login: plan::login_state(&self.desired(), observed, &memory.login),
                refused: refused.clone(),
                foreign_routes: memory.routes.is_foreign(),
                unsaved: memory.saved.is_unsaved(),
                offline: memory.is_offline(),
            },
        }
    }
}
