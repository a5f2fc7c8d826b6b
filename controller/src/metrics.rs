//! The controller's metrics, `tsunaro_controller_*`, with closed label sets.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Outcome {
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StepLabel {
    pub(crate) step: &'static str,
}

/// What a condition of a gateway is now.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ConditionLabels {
    gateway: String,
    condition: String,
    status: String,
    reason: String,
}

impl ConditionLabels {
    fn new(gateway: &str, condition: &Condition) -> Self {
        Self {
            gateway: gateway.to_owned(),
            condition: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TailnetLabel {
    pub(crate) tailnet: String,
}

/// All metrics.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    pub(crate) passes: Family<Outcome, Counter>,
    pub(crate) duration: Histogram,
    pub(crate) steps: Family<StepLabel, Counter>,
    pub(crate) status_writes: Counter,
    pub(crate) node_lists: Counter,
    pub(crate) keys_minted: Counter,
    pub(crate) handovers: Family<Outcome, Counter>,
    pub(crate) handover_duration: Histogram,
    pub(crate) gateways: Gauge,
    pub(crate) leading: Gauge,
    pub(crate) reachable: Family<TailnetLabel, Gauge>,
    conditions: Family<ConditionLabels, Gauge>,
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let passes = Family::default();
        let duration = Histogram::new(exponential_buckets(0.005, 2.0, 13));
        let steps = Family::default();
        let status_writes = Counter::default();
        let node_lists = Counter::default();
        let keys_minted = Counter::default();
        let handovers = Family::default();
        let handover_duration = Histogram::new(exponential_buckets(0.1, 2.0, 10));
        let gateways = Gauge::default();
        let leading = Gauge::default();
        let reachable = Family::default();
        let conditions = Family::default();
        let mut registry = Registry::with_prefix("tsunaro_controller");
        registry.register(
            "passes",
            "Passes over a gateway, by how they ended",
            passes.clone(),
        );
        registry.register(
            "pass_duration_seconds",
            "How long a pass took",
            duration.clone(),
        );
        registry.register("steps", "Steps carried out, by kind", steps.clone());
        registry.register("status_writes", "Writes of a status", status_writes.clone());
        registry.register(
            "headscale_node_lists",
            "Lists of nodes asked of Headscale",
            node_lists.clone(),
        );
        registry.register(
            "keys_minted",
            "Pre-auth keys minted, for first and for lost logins",
            keys_minted.clone(),
        );
        registry.register(
            "handovers",
            "Handovers of routers that leave, by what moved",
            handovers.clone(),
        );
        registry.register(
            "handover_duration_seconds",
            "From the order to the approvals as they were",
            handover_duration.clone(),
        );
        registry.register(
            "leading",
            "1 while this process holds the lease and works",
            leading.clone(),
        );
        registry.register("gateways", "Gateways that exist", gateways.clone());
        registry.register(
            "headscale_reachable",
            "Whether Headscale gave the last list that was asked of it, by Tailnet",
            reachable.clone(),
        );
        registry.register(
            "gateway_condition",
            "1 for what each condition of a gateway is now",
            conditions.clone(),
        );
        Self {
            registry: Arc::new(registry),
            passes,
            duration,
            steps,
            status_writes,
            node_lists,
            keys_minted,
            handovers,
            handover_duration,
            gateways,
            leading,
            reachable,
            conditions,
        }
    }

    /// Shows what is said about a gateway now in place of what was said before.
    pub(crate) fn say(&self, gateway: &str, before: &[Condition], now: &[Condition]) {
        for old in before {
            self.conditions.remove(&ConditionLabels::new(gateway, old));
        }
        for new in now {
            self.conditions
                .get_or_create(&ConditionLabels::new(gateway, new))
                .set(1);
        }
    }

    /// Says nothing any more of what another controller looks after now.
    pub(crate) fn forget(&self) {
        self.conditions.clear();
        self.reachable.clear();
        self.gateways.set(0);
    }

    /// The OpenMetrics text.
    ///
    /// # Errors
    /// None that is known: writing to a string does not fail.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
