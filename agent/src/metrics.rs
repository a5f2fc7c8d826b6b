//! Metrics in the OpenMetrics text format. Label sets are closed; no names or client addresses.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tsunaro_dns::forward::Forwarder;
use tsunaro_dns::metrics::DnsMetrics;
use tsunaro_model::report::{StatusReport, Tri};

use crate::version;

/// Counters of the agent itself.
#[derive(Debug, Default)]
pub(crate) struct AgentCounters {
    reloads: AtomicU64,
    reload_failures: AtomicU64,
}

impl AgentCounters {
    pub(crate) fn count_reload(&self) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_reload_failure(&self) {
        self.reload_failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    dns: Arc<DnsMetrics>,
    forwarder: Arc<Forwarder>,
    counters: Arc<AgentCounters>,
}

impl Metrics {
    pub(crate) fn new(
        dns: Arc<DnsMetrics>,
        forwarder: Arc<Forwarder>,
        counters: Arc<AgentCounters>,
    ) -> Self {
        Self {
            dns,
            forwarder,
            counters,
        }
    }

    /// The text of `/metrics`.
    ///
    /// # Errors
    /// Never in practice; the encoder writes to a string.
    pub(crate) fn encode(self: &Arc<Self>, report: &StatusReport) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("tsunaro_agent");
        registry.register_collector(Box::new(Reading {
            metrics: Arc::clone(self),
            report: report.clone(),
        }));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// One scrape.
#[derive(Debug)]
struct Reading {
    metrics: Arc<Metrics>,
    report: StatusReport,
}

type Labels = Vec<(&'static str, String)>;

impl Collector for Reading {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut out = Out(encoder);
        self.about_itself(&mut out)?;
        self.dns(&mut out)?;
        self.forwarding(&mut out)?;
        self.gateway(&mut out)
    }
}

impl Reading {
    fn about_itself(&self, out: &mut Out<'_>) -> fmt::Result {
        let labels = vec![
            ("version", version::VERSION.to_owned()),
            ("commit", version::COMMIT.to_owned()),
        ];
        out.gauges(
            "build_info",
            "Version and commit, always 1",
            vec![(labels, 1.0)],
        )?;
        let counters = &self.metrics.counters;
        out.counter(
            "zone_loads",
            "Zone snapshots put into service",
            counters.reloads.load(Ordering::Relaxed),
        )?;
        let failures = counters.reload_failures.load(Ordering::Relaxed);
        out.counter(
            "hosts_reload_failures",
            "Hosts contents that could not be used",
            failures,
        )?;
        let stale = self
            .report
            .hosts
            .as_ref()
            .is_some_and(|hosts| hosts.error.is_some());
        out.gauge(
            "hosts_stale",
            "1 while an older hosts content is in use than the file's",
            number(stale),
        )?;
        out.gauge(
            "config_stale",
            "1 while an older config is in use than the file's",
            number(self.report.config.error.is_some()),
        )?;
        let zone = &self.report.zone;
        out.gauge(
            "zone_serial",
            "SOA serial of the zone",
            f64::from(zone.serial),
        )?;
        let hash = self
            .report
            .hosts
            .as_ref()
            .map(|hosts| hosts.hash.clone())
            .unwrap_or_default();
        let info = vec![("config", self.report.config.hash.clone()), ("hosts", hash)];
        out.gauges(
            "content_info",
            "SHA-256 of the config and hosts contents in use, always 1",
            vec![(info, 1.0)],
        )?;
        let names = [
            ("static", zone.static_names),
            ("dynamic", zone.dynamic_names),
            ("override", zone.overrides),
        ];
        let names = names
            .into_iter()
            .map(|(source, count)| (vec![("source", source.to_owned())], as_f64(count)));
        out.gauges("zone_names", "Names served, by source", names.collect())?;
        out.gauge(
            "zone_shadowed_names",
            "Hosts names hidden by static records",
            as_f64(zone.shadowed_names.len()),
        )
    }

    fn dns(&self, out: &mut Out<'_>) -> fmt::Result {
        let dns = self.metrics.dns.snapshot();
        let queries = [("udp", dns.udp_queries), ("tcp", dns.tcp_queries)];
        let queries = queries
            .into_iter()
            .map(|(transport, count)| (vec![("transport", transport.to_owned())], count));
        out.counters("dns_queries", "Messages received", queries.collect())?;
        let replies =
            dns.replies
                .iter()
                .filter(|(_, _, count)| *count > 0)
                .map(|(zone, rcode, count)| {
                    (
                        vec![
                            ("zone", zone.name().to_owned()),
                            ("rcode", rcode.name().to_owned()),
                        ],
                        *count,
                    )
                });
        out.counters(
            "dns_replies",
            "Replies by kind of zone and response code",
            replies.collect(),
        )?;
        let dropped = [
            ("malformed", Some(dns.dropped_malformed)),
            ("overload", Some(dns.dropped_overload)),
            ("kernel", dns.dropped_by_kernel),
        ];
        let dropped = dropped
            .into_iter()
            .filter_map(|(reason, count)| Some((reason, count?)))
            .map(|(reason, count)| (vec![("reason", reason.to_owned())], count));
        out.counters("dns_dropped", "Messages without a reply", dropped.collect())?;
        out.counter(
            "dns_truncated",
            "UDP replies cut short with TC",
            dns.truncated,
        )?;
        out.counter(
            "dns_panics",
            "Panics contained in one query; any is a bug",
            dns.panics,
        )?;
        out.gauge(
            "dns_in_flight",
            "Queries that wait for upstreams",
            as_f64(dns.in_flight),
        )?;
        out.gauge(
            "dns_tcp_connections",
            "Open TCP connections",
            as_f64(dns.tcp_connections),
        )
    }

    fn forwarding(&self, out: &mut Out<'_>) -> fmt::Result {
        let counts = self.metrics.forwarder.metrics().snapshot();
        out.counter(
            "forward_questions",
            "Questions for extra zones",
            counts.questions,
        )?;
        out.counter(
            "forward_cache_hits",
            "Answered from the cache",
            counts.cache_hits,
        )?;
        out.counter(
            "forward_joined",
            "Waited for another client's same question",
            counts.joined,
        )?;
        out.counter(
            "forward_stale",
            "Answered with an expired answer",
            counts.stale,
        )?;
        let failed = [
            ("timeout", counts.timeouts),
            ("network", counts.network_errors),
            ("upstream", counts.upstream_errors),
            ("overload", counts.overloaded),
            ("no_socket", counts.no_socket),
        ];
        let failed = failed
            .into_iter()
            .map(|(reason, count)| (vec![("reason", reason.to_owned())], count));
        out.counters(
            "forward_failures",
            "Questions answered with SERVFAIL",
            failed.collect(),
        )?;
        out.gauge(
            "forward_cached",
            "Questions in the cache",
            as_f64(self.metrics.forwarder.cached()),
        )?;
        let upstreams = self.metrics.forwarder.upstreams();
        let label = |address: std::net::SocketAddr| vec![("upstream", address.to_string())];
        let up = upstreams
            .iter()
            .map(|upstream| (label(upstream.address), number(upstream.up)));
        out.gauges(
            "upstream_up",
            "0 after three failures in a row",
            up.collect(),
        )?;
        let queries = upstreams
            .iter()
            .map(|upstream| (label(upstream.address), upstream.queries));
        out.counters(
            "upstream_queries",
            "Queries to an upstream",
            queries.collect(),
        )?;
        let failures = upstreams
            .iter()
            .map(|upstream| (label(upstream.address), upstream.failures));
        out.counters(
            "upstream_failures",
            "Queries that an upstream failed",
            failures.collect(),
        )?;
        let rtts = upstreams
            .iter()
            .filter_map(|up| Some((label(up.address), up.smoothed_rtt?.as_secs_f64())));
        out.gauges_of(
            "upstream_rtt",
            "Smoothed round-trip time",
            Some(&Unit::Seconds),
            rtts.collect(),
        )
    }

    fn gateway(&self, out: &mut Out<'_>) -> fmt::Result {
        let conditions = self.report.conditions.iter().map(|condition| {
            (
                vec![("type", condition.kind.clone())],
                tri(condition.status),
            )
        });
        out.gauges(
            "condition",
            "1 true, 0 false, -1 unknown",
            conditions.collect(),
        )?;
        let checks = self
            .report
            .kernel_checks
            .iter()
            .map(|check| (vec![("check", check.name.clone())], tri(check.status)));
        out.gauges(
            "kernel_check",
            "1 passes, 0 fails, -1 cannot be seen",
            checks.collect(),
        )?;
        let warnings = self
            .report
            .kernel_checks
            .iter()
            .filter(|check| check.status == Tri::True)
            .map(|check| {
                let warns = number(!check.message.is_empty());
                (vec![("check", check.name.clone())], warns)
            });
        out.gauges(
            "kernel_warning",
            "1 while a check passes with a warning",
            warnings.collect(),
        )?;
        let routes = &self.report.routes;
        let count = |of: fn(&tsunaro_model::report::RouteTruth) -> bool| {
            as_f64(routes.iter().filter(|truth| of(truth)).count())
        };
        let steps = [
            ("wanted", count(|truth| truth.wanted)),
            (
                "advertised",
                count(|truth| truth.wanted && truth.advertised),
            ),
            (
                "kernel",
                count(|truth| truth.wanted && truth.advertised && truth.kernel == Tri::True),
            ),
        ];
        let steps = steps
            .into_iter()
            .map(|(step, count)| (vec![("step", step.to_owned())], count));
        out.gauges("routes", "Prefixes that got this far", steps.collect())?;
        let healings = self
            .report
            .tailnet
            .as_ref()
            .map_or(0, |tailnet| tailnet.healings);
        out.counter(
            "drift_healings",
            "Changes of another writer put right",
            healings,
        )?;
        let online = self
            .report
            .tailnet
            .as_ref()
            .is_some_and(|tailnet| tailnet.online);
        out.gauge(
            "control_online",
            "1 while tailscaled is connected to the control server",
            number(online),
        )
    }
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, vec![(Vec::new(), value)])
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, vec![(Vec::new(), value)])
    }

    fn counters(&mut self, name: &str, help: &str, values: Vec<(Labels, u64)>) -> fmt::Result {
        self.family(
            name,
            help,
            None,
            values
                .into_iter()
                .map(|(labels, value)| (labels, ConstCounter::new(value))),
        )
    }

    fn gauges(&mut self, name: &str, help: &str, values: Vec<(Labels, f64)>) -> fmt::Result {
        self.gauges_of(name, help, None, values)
    }

    fn gauges_of(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: Vec<(Labels, f64)>,
    ) -> fmt::Result {
        self.family(
            name,
            help,
            unit,
            values
                .into_iter()
                .map(|(labels, value)| (labels, ConstGauge::new(value))),
        )
    }

    fn family<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl Iterator<Item = (Labels, M)>,
    ) -> fmt::Result {
        let mut values = values.peekable();
        let Some((_, first)) = values.peek() else {
            return Ok(());
        };
        let mut metric = self
            .0
            .encode_descriptor(name, help, unit, first.metric_type())?;
        for (labels, value) in values {
            value.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn number(flag: bool) -> f64 {
    if flag { 1.0 } else { 0.0 }
}

fn tri(status: Tri) -> f64 {
    match status {
        Tri::True => 1.0,
        Tri::False => 0.0,
        Tri::Unknown => -1.0,
    }
}

/// Counts stay far below 2⁵³.
fn as_f64(count: impl TryInto<u32>) -> f64 {
    count.try_into().map_or(f64::INFINITY, f64::from)
}
