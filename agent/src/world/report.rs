//! The world as a status report.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;
use tsunaro_model::kernel::checks::{self, CheckState, Duty, KernelCheck, KernelInputs};
use tsunaro_model::report::{
    API_VERSION, AgentInfo, CheckReport, ExtraZoneStatus, FileStatus, StatusReport, TailnetReport,
    Tri, UpstreamStatus, ZoneStatus, carry_transitions,
};
use tsunaro_model::routes;
use tsunaro_model::tailnet::DaemonStatus;
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
    /// Resolvers of this host.
    pub(crate) resolvers: &'a [std::net::IpAddr],
    /// Health of the upstreams by address.
    pub(crate) upstreams: &'a [UpstreamStatus],
}

impl World {
    /// The report of this moment; remembers its conditions for their transition times.
    pub(crate) fn report(&mut self, context: &ReportContext<'_>) -> StatusReport {
        let view = self.tailnet_view();
        let wanted = self.config.routes.as_ref().map(routes::wanted);
        let checks = self.kernel_checks(wanted.as_deref().unwrap_or_default(), context);
        let paths = checks
            .iter()
            .flatten()
            .filter_map(|(prefix, check)| Some(((*prefix)?, check.clone())))
            .collect();
        let check_reports: Option<Vec<CheckReport>> =
            checks.map(|all| all.into_iter().map(|(_, check)| check).collect());
        let (routes, mut conditions) =
            self.verdicts(&view, wanted.as_deref(), check_reports.as_deref(), &paths);
        carry_transitions(&mut conditions, &self.conditions, context.now);
        self.conditions.clone_from(&conditions);
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
            kernel_checks: check_reports.unwrap_or_default(),
            conditions,
        }
    }

    fn verdicts(
        &self,
        view: &TailnetView,
        wanted: Option<&[Ipv4Net]>,
        kernel: Option<&[CheckReport]>,
        paths: &BTreeMap<Ipv4Net, CheckReport>,
    ) -> (
        Vec<tsunaro_model::report::RouteTruth>,
        Vec<tsunaro_model::report::Condition>,
    ) {
        let hosts_error = self
            .built
            .as_ref()
            .and_then(|built| built.hosts.error.clone());
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
            wanted,
            kernel,
            paths,
        };
        (verdict::routes(&facts), verdict::conditions(&facts))
    }

    fn kernel_checks(
        &self,
        wanted: &[Ipv4Net],
        context: &ReportContext<'_>,
    ) -> Option<Vec<(Option<Ipv4Net>, CheckReport)>> {
        self.config.routes.as_ref()?;
        let view = self.kernel.as_ref()?.as_ref().ok()?;
        let inputs = KernelInputs {
            duty: if self.config.routes.is_some() {
                Duty::Router
            } else {
                Duty::DnsOnly
            },
            wanted: wanted.to_vec(),
            tailnet_addresses: self
                .tailnet
                .status
                .iter()
                .flat_map(|status| status.addresses.clone())
                .collect(),
            resolvers: context.resolvers.to_vec(),
        };
        Some(
            checks::check(view, &inputs)
                .into_iter()
                .map(check_report)
                .collect(),
        )
    }

    fn config_status(&self) -> FileStatus {
        let super::ConfigState {
            path,
            generation,
            hash,
            findings,
            error,
        } = self.config_state.clone();
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

fn check_report(check: KernelCheck) -> (Option<Ipv4Net>, CheckReport) {
    let KernelCheck {
        name,
        prefix,
        state,
    } = check;
    let (status, reason, message) = match state {
        CheckState::Ok => (Tri::True, "Ok".to_owned(), String::new()),
        CheckState::Failed { reason, message } => (Tri::False, reason.to_string(), message),
        CheckState::Unknown { reason, command } => {
            (Tri::Unknown, reason.to_string(), format!("see: {command}"))
        }
    };
    let name = prefix.map_or_else(|| name.to_string(), |prefix| format!("{name}/{prefix}"));
    (
        prefix,
        CheckReport {
            name,
            status,
            reason,
            message,
        },
    )
}
