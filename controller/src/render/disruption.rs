//! The PodDisruptionBudget.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Input, meta};

/// Draining a node waits for a person to delete the Pod, as every restart of a gateway does. A Pod
/// that is not ready serves nobody and may go.
pub(super) fn disruption_budget(input: &Input<'_>) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: meta::object(input, &input.gateway.name),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(1)),
            selector: Some(meta::selector(input.gateway)),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}
