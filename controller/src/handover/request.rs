//! A person's request for a handover, and the controller's answer: a ConfigMap, so that it needs no
//! right and no port of its own, and so that one process alone plans approvals.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::record::{LABEL, REQUEST};
use super::{Outcome, Record};
use crate::cluster::Context;
use crate::cluster::failure::words;
use crate::reconcile::marks::MANAGER;

/// The key with the request's JSON.
const ASKED: &str = "request.json";
/// The key with the answer's JSON.
const ANSWERED: &str = "answer.json";
/// The key with how many seconds the asker waits.
const PATIENCE: &str = "patienceSeconds";
/// For clocks that differ.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(30);

/// Who is to be handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// A gateway.
    Gateway(String),
    /// A router that need not be a gateway of ours.
    Node {
        /// Its tailnet.
        tailnet: String,
        /// Its name at Headscale.
        name: String,
    },
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// It was carried out.
    Done {
        /// The node's name and id.
        node: String,
        /// What moved and what did not.
        outcome: Outcome,
        /// Milliseconds from the first approval taken to all of them given back.
        took_ms: u64,
    },
    /// It was not.
    Refused(String),
}

impl Request {
    /// The ConfigMap of this request of somebody who waits for so long.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_config_map(&self, patience: Duration) -> Result<ConfigMap, serde_json::Error> {
        serde_json::from_value(json!({
            "metadata": { "generateName": "tsunaro-handover-request-", "labels": { LABEL: REQUEST } },
            "data": {
                ASKED: serde_json::to_string(self)?,
                PATIENCE: patience.as_secs().to_string(),
            },
        }))
    }
}

impl Answer {
    /// The answer in a request's ConfigMap, if it is there.
    pub fn of(map: &ConfigMap) -> Option<Self> {
        serde_json::from_str(map.data.as_ref()?.get(ANSWERED)?).ok()
    }
}

impl Outcome {
    /// What moved and what did not, for people.
    pub fn sentence(&self) -> String {
        let mut by_node: std::collections::BTreeMap<&str, Vec<String>> = Default::default();
        for (prefix, to) in &self.moved {
            by_node.entry(to).or_default().push(prefix.to_string());
        }
        let mut parts: Vec<String> = by_node
            .iter()
            .map(|(to, prefixes)| format!("moved {} to {to}", prefixes.join(", ")))
            .collect();
        if !self.kept.is_empty() {
            let kept: Vec<String> = self.kept.iter().map(ToString::to_string).collect();
            parts.push(format!(
                "no approved standby for {}, which stayed",
                kept.join(", ")
            ));
        }
        if parts.is_empty() {
            return "it carries no traffic that could move".to_owned();
        }
        parts.join("; ")
    }

    /// For a metric.
    pub(super) fn label(&self) -> &'static str {
        match (self.moved.is_empty(), self.kept.is_empty()) {
            (false, true) => "moved",
            (false, false) => "moved_in_part",
            (true, false) => "kept",
            (true, true) => "nothing",
        }
    }
}

/// A request that nobody has answered.
#[derive(Debug, PartialEq)]
pub(super) struct Open {
    /// The name of its ConfigMap.
    pub(super) name: String,
    /// None if it cannot be read.
    pub(super) request: Option<Request>,
    /// The asker has gone: what is done now would be done behind a person's back.
    pub(super) late: bool,
}

/// Requests that nobody has answered.
pub(super) fn open(context: &Context) -> Vec<Open> {
    let maps = context.stores.config_maps(LABEL, REQUEST);
    let now = Timestamp::now();
    maps.iter().filter_map(|map| read(map, now)).collect()
}

fn read(map: &Value, now: Timestamp) -> Option<Open> {
    let text = |key: &str| map.get("data")?.get(key)?.as_str();
    if text(ANSWERED).is_some() {
        return None;
    }
    let name = map.pointer("/metadata/name")?.as_str()?.to_owned();
    let asked_at = map.pointer("/metadata/creationTimestamp");
    let asked_at: Option<Timestamp> = asked_at.and_then(|at| at.as_str()?.parse().ok());
    let patience = text(PATIENCE).and_then(|seconds| seconds.parse().ok());
    let patience = SignedDuration::from_secs(patience.map_or(0, |seconds: u32| seconds.into()));
    Some(Open {
        name,
        request: text(ASKED).and_then(|asked| serde_json::from_str(asked).ok()),
        late: asked_at.is_none_or(|at| now.duration_since(at) > patience + TOLERANCE),
    })
}

/// Puts the answer into the request. A request that is gone is nobody's any more.
pub(super) async fn answer(context: &Context, name: &str, answer: &Answer) {
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &context.settings.namespace);
    let Ok(text) = serde_json::to_string(answer) else {
        return;
    };
    let patch = Patch::Merge(json!({ "data": { ANSWERED: text } }));
    let by_us = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match api.patch(name, &by_us, &patch).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => {
            tracing::warn!(config_map = name, error = %words(&error), "The answer to a request for a handover could not be written");
        }
    }
}

/// Sends a request and waits for its answer; takes the request away in the end.
///
/// # Errors
/// The API server refused, or nobody answered within `patience`.
pub async fn ask(
    client: kube::Client,
    namespace: &str,
    request: &Request,
    patience: Duration,
) -> anyhow::Result<Answer> {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let failed =
        |error: &kube::Error| anyhow::anyhow!("ConfigMap in {namespace}: {}", words(error));
    let map = api
        .create(&Default::default(), &request.to_config_map(patience)?)
        .await
        .map_err(|error| failed(&error))?;
    let name = map.name_any();
    let waiting = async {
        loop {
            if let Some(answer) = Answer::of(&api.get(&name).await?) {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let waited: Result<Result<Answer, kube::Error>, _> =
        tokio::time::timeout(patience, waiting).await;
    let taken = api.delete(&name, &DeleteParams::default()).await;
    match waited {
        Ok(Ok(answer)) => {
            taken.map_err(|error| failed(&error))?;
            Ok(answer)
        }
        Ok(Err(error)) => Err(failed(&error)),
        Err(_) => anyhow::bail!(
            "no controller answered within {} s: is one running in {namespace}, and does Headscale answer it?",
            patience.as_secs()
        ),
    }
}

impl Record {
    /// The node's name and id.
    pub(super) fn who(&self) -> String {
        format!("{} (id {})", self.name, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_outlives_its_asker_by_the_difference_of_clocks_only() {
        let asked = Request::Gateway("prod-1-gw".to_owned());
        let map = asked.to_config_map(Duration::from_secs(60)).unwrap();
        let mut map = serde_json::to_value(map).unwrap();
        map["metadata"]["name"] = "tsunaro-handover-request-x".into();
        map["metadata"]["creationTimestamp"] = "2026-12-02T10:00:00Z".into();
        let late = |map: &Value, at: &str| read(map, at.parse().unwrap()).unwrap().late;
        let cases = [
            ("2026-12-02T09:59:50Z", false),
            ("2026-12-02T10:00:01Z", false),
            ("2026-12-02T10:01:29Z", false),
            ("2026-12-02T10:01:31Z", true),
            ("2026-12-03T10:00:00Z", true),
        ];
        for (at, is_late) in cases {
            assert_eq!(late(&map, at), is_late, "{at}");
        }
        let now = "2026-12-02T10:00:01Z".parse().unwrap();
        assert_eq!(read(&map, now).unwrap().request, Some(asked));
        map["data"][PATIENCE] = "soon".into();
        assert!(!late(&map, "2026-12-02T10:00:20Z"));
        assert!(late(&map, "2026-12-02T10:00:40Z"));
        map["data"][ANSWERED] = "{}".into();
        assert_eq!(read(&map, now), None);
    }
}
