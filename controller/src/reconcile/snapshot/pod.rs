//! The Pod and the StatefulSet, as far as a verdict needs them.

use k8s_openapi::api::core::v1;
use serde_json::Value;

use super::super::marks::MOUNTS;

/// The label by which a StatefulSet's controller says which template a Pod was made from.
const REVISION: &str = "controller-revision-hash";

/// The Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its address.
    pub address: Option<String>,
    /// It is ready.
    pub ready: bool,
    /// It is being deleted.
    pub going: bool,
    /// Why it does not run, in words.
    pub trouble: Option<String>,
    /// The revision of the template that it was made from.
    pub revision: Option<String>,
    /// The digest of mounts that it was last told.
    pub mounts: Option<String>,
}

/// The StatefulSet's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The revision of the newest template; None while its controller has not looked at it yet.
    pub revision: Option<String>,
}

/// Reads a Pod.
pub fn pod(pod: &v1::Pod) -> Pod {
    let status = pod.status.as_ref();
    let condition = |kind: &str| {
        status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == kind)
    };
    let annotations = pod.metadata.annotations.as_ref();
    let labels = pod.metadata.labels.as_ref();
    let unscheduled = condition("PodScheduled")
        .filter(|condition| condition.status == "False")
        .and_then(|condition| condition.message.clone());
    Pod {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        address: status.and_then(|status| status.pod_ip.clone()),
        ready: condition("Ready").is_some_and(|condition| condition.status == "True"),
        going: pod.metadata.deletion_timestamp.is_some(),
        trouble: unscheduled.or_else(|| waiting(status?)),
        revision: labels.and_then(|labels| labels.get(REVISION).cloned()),
        mounts: annotations.and_then(|annotations| annotations.get(MOUNTS).cloned()),
    }
}

/// The first container that waits for something worth telling.
fn waiting(status: &v1::PodStatus) -> Option<String> {
    let all = [&status.init_container_statuses, &status.container_statuses];
    all.into_iter().flatten().flatten().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        if matches!(reason, "PodInitializing" | "ContainerCreating") {
            return None;
        }
        // kubelet says the two in turn.
        let reason = match reason {
            "ErrImagePull" => "ImagePullBackOff",
            reason => reason,
        };
        Some(format!("container {} waits: {reason}", container.name))
    })
}

/// Reads a StatefulSet.
pub fn workload(live: &Value) -> Workload {
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_i64);
    let seen = number("/status/observedGeneration");
    let current = seen.is_some() && seen == number("/metadata/generation");
    let revision = live
        .pointer("/status/updateRevision")
        .and_then(Value::as_str);
    Workload {
        revision: revision.filter(|_| current).map(str::to_owned),
    }
}
