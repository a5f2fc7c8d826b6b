//! The world as a status report.

use std::time::Duration;

use tsunaro_model::kernel::checks::{self, Duty, KernelInputs};
use tsunaro_model::report::{
    API_VERSION, AgentInfo, Condition, ExtraZoneStatus, FileStatus, RouteTruth, StatusReport,
    TailnetReport, UpstreamStatus, ZoneStatus, carry_transitions,
};
use tsunaro_model::tailnet::DaemonStatus;
use tsunaro_model::verdict::kernel::KernelReport;
use tsunaro_model::verdict::{self, Facts, TailnetView};

use super::World;
use crate::version;
use crate::zone_builder::HostsFile;

/// Names shown at most of those that a static record hides.
const MAX_SHADOWED: usize = 100;

/// What a report needs beside the world.
pub(crate) struct ReportContext<'a> {
    /// RFC 3339 time of the process's start.
    pub(crate) started: &'a str,
    /// RFC 3339 time of the report.
    pub(crate) now: &'a str,
    /// The LocalAPI's socket.
    pub(crate) socket: &'a str,
    /// Time since the process's start.
    pub(crate) uptime: Duration,
    /// Health of the upstreams by address.
    pub(crate) upstreams: &'a [UpstreamStatus],
}

impl World {
    /// The report of this moment; remembers its conditions for their transition times.
    pub(crate) fn report(&mut self, context: &ReportContext<'_>) -> StatusReport {
        let view = self.tailnet_view();
        if self.kernel_report.is_none() {
            self.kernel_report = self.kernel_report_now();
        }
        let (routes, conditions) = self.verdicts(&view);
        let mut conditions = self.steady.show(conditions, context.uptime);
        carry_transitions(&mut conditions, &self.conditions, context.now);
        self.conditions.clone_from(&conditions);
        let KernelReport { checks, links, .. } = self.kernel_report.clone().unwrap_or_default();
        StatusReport {
            api_version: API_VERSION.to_owned(),
            kind: "GatewayStatus".to_owned(),
            agent: AgentInfo {
                version: version::VERSION.to_owned(),
                commit: version::COMMIT.to_owned(),
                started: context.started.to_owned(),
            },
            phase: self.phase,
            config: self.config_status(),
            hosts: self.hosts_status(),
            zone: self.zone_status(),
            extra_zones: self.extra_zone_statuses(context),
            tailnet: self.tailnet_report(&view, context),
            routes,
            kernel_checks: checks,
            links,
            conditions,
        }
    }

    /// Whether the end of a fault is held back, so that time alone changes the report.
    pub(crate) fn holds_back(&self) -> bool {
        self.steady.holds_back()
    }

    fn verdicts(&self, view: &TailnetView) -> (Vec<RouteTruth>, Vec<Condition>) {
        let hosts_error = self
            .built
            .as_ref()
            .and_then(|built| built.hosts.error.clone());
        let refused = self.config.routes.as_ref().map(|routes| &routes.refused);
        let facts = Facts {
            listening: true,
            hosts: self.hosts_state(),
            stale: self
                .config_state
                .error
                .iter()
                .cloned()
                .chain(hosts_error)
                .collect(),
            tailnet: view,
            split_dns: &self.split_dns(),
            deaf: &self.deaf,
            wanted: self.wanted(),
            refused: refused.map(Vec::as_slice).unwrap_or_default(),
            snat: self.snat(),
            loops: &self.loops,
            kernel: self.kernel_report.as_ref(),
        };
        let routes = verdict::routes(&facts);
        let conditions = verdict::conditions(&facts, &routes);
        (routes, conditions)
    }

    fn kernel_report_now(&self) -> Option<KernelReport> {
        let wanted = self.wanted()?;
        let view = self.kernel.as_ref()?.as_ref().ok()?;
        let inputs = KernelInputs {
            duty: Duty::Router,
            wanted: wanted.to_vec(),
            tailnet_addresses: self
                .tailnet
                .status
                .iter()
                .flat_map(|status| status.addresses.clone())
                .collect(),
            resolvers: self.hints.resolvers.clone(),
            control_server: self.hints.control_server.clone(),
            opinions: self.tailnet.opinions.clone(),
        };
        Some(verdict::kernel::report(view, checks::check(view, &inputs)))
    }

    fn config_status(&self) -> FileStatus {
        let super::ConfigState {
            path,
            generation,
            hash,
            mut findings,
            error,
        } = self.config_state.clone();
        let loops = self.loops.iter();
        findings.extend(loops.map(|remark| format!("{path}: warning: {remark}")));
        FileStatus {
            path,
            generation,
            hash,
            error,
            findings,
        }
    }

    fn hosts_status(&self) -> Option<FileStatus> {
        let HostsFile::Seen(path, _) = &self.hosts_file else {
            return None;
        };
        let hosts = self
            .built
            .as_ref()
            .map(|built| built.hosts.clone())
            .unwrap_or_default();
        Some(FileStatus {
            path: path.clone(),
            generation: hosts.generation,
            hash: hosts.hash,
            error: hosts.error,
            findings: hosts.findings,
        })
    }

    fn zone_status(&self) -> ZoneStatus {
        let Some(built) = &self.built else {
            return ZoneStatus {
                name: self.config.dns.zone.to_string(),
                ..ZoneStatus::default()
            };
        };
        ZoneStatus {
            name: built.snapshot.apex().to_string(),
            generation: built.snapshot.generation(),
            serial: built.snapshot.serial(),
            static_names: built.census.static_names,
            dynamic_names: built.census.dynamic_names,
            overrides: built.census.overrides,
            foreign_entries: built.census.foreign_entries,
            skipped: built.hosts.skipped,
            shadowed_names: built
                .census
                .shadowed
                .iter()
                .take(MAX_SHADOWED)
                .map(ToString::to_string)
                .collect(),
        }
    }

    fn extra_zone_statuses(&self, context: &ReportContext<'_>) -> Vec<ExtraZoneStatus> {
        let status_of = |address: String| {
            let known = context
                .upstreams
                .iter()
                .find(|upstream| upstream.address == address);
            known.cloned().unwrap_or(UpstreamStatus {
                address,
                healthy: true,
                consecutive_failures: 0,
                smoothed_rtt_micros: None,
            })
        };
        let zones = &self.config.dns.extra_zones;
        zones
            .iter()
            .map(|zone| ExtraZoneStatus {
                zone: zone.zone.to_string(),
                upstreams: zone
                    .upstreams
                    .iter()
                    .map(|address| status_of(address.to_string()))
                    .collect(),
            })
            .collect()
    }

    fn tailnet_report(
        &self,
        view: &TailnetView,
        context: &ReportContext<'_>,
    ) -> Option<TailnetReport> {
        if *view == TailnetView::NotConfigured {
            return None;
        }
        let login = match view {
            TailnetView::Seen { login, .. } => format!("{login:?}"),
            TailnetView::NotConfigured | TailnetView::Unseen | TailnetView::Unreachable(_) => {
                "Unknown".to_owned()
            }
        };
        let error = match view {
            TailnetView::Unreachable(why) => Some(why.clone()),
            TailnetView::NotConfigured | TailnetView::Unseen | TailnetView::Seen { .. } => None,
        };
        let base = TailnetReport {
            socket: context.socket.to_owned(),
            error,
            login,
            healings: self.healings(),
            ..TailnetReport::default()
        };
        let Some(DaemonStatus {
            version,
            backend,
            have_node_key: _,
            addresses,
            health,
            auth_url: _,
            node,
        }) = &self.tailnet.status
        else {
            return Some(TailnetReport {
                backend_state: "Unknown".to_owned(),
                ..base
            });
        };
        let node = node.clone().unwrap_or_default();
        Some(TailnetReport {
            backend_state: format!("{backend:?}"),
            version: version.clone(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            hostname: node.hostname,
            tags: node.tags,
            online: node.online,
            key_expiry: node.key_expiry,
            health: health.clone(),
            ..base
        })
    }
}
