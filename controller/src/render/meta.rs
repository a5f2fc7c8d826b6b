//! Labels, and what every object has in common.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use tsunaro_model::gateway::Gateway;

use super::Input;

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
/// The UID of the gateway's object: with the name it proves whose an object is.
pub(crate) const UID: &str = "tsunaro.io/gateway-uid";

/// Name, namespace and labels of an object.
pub(super) fn object(input: &Input<'_>, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(input.namespace.to_owned()),
        labels: Some(labels(input.gateway)),
        ..ObjectMeta::default()
    }
}

/// The labels of every object.
pub(super) fn labels(gateway: &Gateway) -> BTreeMap<String, String> {
    let mut labels = pod_labels(gateway);
    labels.extend([pair("app.kubernetes.io/version", env!("CARGO_PKG_VERSION"))]);
    labels.extend(gateway.uid.as_deref().map(|uid| pair(UID, uid)));
    labels
}

/// The labels of the Pod: without a version, so that a new controller alone does not make the running
/// Pod stale, and without the UID, for the same reason after a restore.
pub(super) fn pod_labels(gateway: &Gateway) -> BTreeMap<String, String> {
    let mut labels = selector_labels(gateway);
    labels.extend([
        pair("app.kubernetes.io/component", "gateway"),
        pair("app.kubernetes.io/part-of", "tsunaro"),
        pair("app.kubernetes.io/managed-by", "tsunaro-controller"),
    ]);
    labels
}

/// The labels that select the Pod.
pub(super) fn selector_labels(gateway: &Gateway) -> BTreeMap<String, String> {
    BTreeMap::from([pair(NAME, "tsunaro-gateway"), pair(INSTANCE, &gateway.name)])
}

/// The same, as a selector.
pub(super) fn selector(gateway: &Gateway) -> LabelSelector {
    LabelSelector {
        match_labels: Some(selector_labels(gateway)),
        ..LabelSelector::default()
    }
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}
