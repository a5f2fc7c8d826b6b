//! The StatefulSet.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};

use super::{Input, Names, meta, pod};

pub(super) fn stateful_set(input: &Input<'_>) -> StatefulSet {
    let names = Names::of(input.gateway);
    StatefulSet {
        metadata: meta::object(input, &names.gateway),
        spec: Some(StatefulSetSpec {
            // One node identity, one process.
            replicas: Some(1),
            service_name: Some(names.headless_service),
            selector: meta::selector(input.gateway),
            template: pod::template(input),
            // A new template waits until a person deletes the Pod.
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".to_owned()),
                ..StatefulSetUpdateStrategy::default()
            }),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}
