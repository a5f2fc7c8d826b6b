//! All that the agent knows: what is wanted, what was observed, what was tried.

mod report;
mod sources;

use std::sync::Arc;
use std::time::Duration;

use tsunaro_model::config::{Config, Listen};
use tsunaro_model::kernel::KernelView;
use tsunaro_model::plan::{self, Action, Desired, Memory, Next, Observed};
use tsunaro_model::report::{Condition, Phase};
use tsunaro_model::routes;
use tsunaro_model::split_dns::{self, SplitDns};
use tsunaro_model::tailnet::{AuthKey, Backend, DaemonStatus, Prefs, TailnetDns};
use tsunaro_model::verdict::TailnetView;
use tsunaro_model::zone::HostsState;

use crate::event::TailnetSeen;
use crate::zone_builder::{Built, HostsFile};

pub(crate) use report::ReportContext;
pub(crate) use sources::{ConfigChange, ConfigState, first_lines, parse_config};

/// The state behind every decision; changed by the main loop only.
pub(crate) struct World {
    /// The listen addresses of the config at the start, which stay in force.
    started_with: Listen,
    /// The config in use, and what there is to say about its file.
    pub(crate) config: Arc<Config>,
    pub(crate) config_state: ConfigState,
    pub(crate) hosts_file: HostsFile,
    key: Option<AuthKey>,
    /// The snapshot being served, with its census; None before the first build.
    pub(crate) built: Option<Built>,
    tailnet: Tailnet,
    kernel: Option<Result<KernelView, String>>,
    /// Where the process is in its life.
    pub(crate) phase: Phase,
    /// Set when the routes are to be withdrawn before the end.
    pub(crate) withdrawing: bool,
    /// Listening addresses that did not answer the agent's own question, with the reason.
    pub(crate) deaf: Vec<String>,
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
    refused: Option<String>,
}

impl World {
    pub(crate) fn new(config: Config, config_state: ConfigState) -> Self {
        Self {
            started_with: config.listen.clone(),
            config: Arc::new(config),
            config_state,
            hosts_file: HostsFile::NotConfigured,
            key: None,
            built: None,
            tailnet: Tailnet::default(),
            kernel: None,
            phase: Phase::Starting,
            withdrawing: false,
            deaf: Vec::new(),
            conditions: Vec::new(),
        }
    }

    /// What the config, the key file and the stage of life ask of tailscaled.
    pub(crate) fn desired(&self) -> Desired {
        let routes = self.config.routes.as_ref().map(|config| {
            if self.withdrawing {
                Vec::new()
            } else {
                routes::wanted(config)
            }
        });
        Desired {
            routes,
            key: self.key.clone(),
        }
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
            lost: None,
            ..
        } = &mut self.tailnet
        else {
            return Next::Nothing;
        };
        memory.observe(&desired, observed, now);
        plan::plan(&desired, observed, memory, now)
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
            } => {
                status.health = status.health.into_iter().map(clean).collect();
                let before = self.tailnet.observed.take();
                let observed = Observed {
                    backend: status.backend,
                    prefs: *prefs,
                    health: status.health.clone(),
                    expired: status.node.as_ref().is_some_and(|node| node.expired),
                    login_error: before
                        .and_then(|before| before.login_error)
                        .filter(|_| status.backend == Backend::NeedsLogin),
                };
                self.tailnet.lost = None;
                self.tailnet.dns = dns;
                self.tailnet.observed = Some(observed);
                self.tailnet.status = Some(*status);
            }
        }
    }

    /// Takes in the end of a write.
    pub(crate) fn see_applied(
        &mut self,
        action: &Action,
        result: Result<Option<Prefs>, String>,
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

    /// Takes in a reading of the kernel.
    pub(crate) fn see_kernel(&mut self, view: Result<KernelView, String>) {
        self.kernel = Some(view);
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
        } = &self.tailnet;
        match (lost, observed) {
            (Some(why), _) => TailnetView::Unreachable(why.clone()),
            (None, None) => TailnetView::Unseen,
            (None, Some(observed)) => TailnetView::Seen {
                observed: Box::new(observed.clone()),
                login: plan::login_state(&self.desired(), observed, &memory.login),
                refused: refused.clone(),
                foreign_routes: memory.routes.is_foreign(),
            },
        }
    }
}
