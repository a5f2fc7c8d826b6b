//! A person's request for a handover, and the controller's answer: a ConfigMap, so that it needs no
//! right and no port of its own, and so that one process alone plans approvals.

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
    /// The ConfigMap of this request.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_config_map(&self) -> Result<ConfigMap, serde_json::Error> {
        serde_json::from_value(json!({
            "metadata": { "generateName": "tsunaro-handover-request-", "labels": { LABEL: REQUEST } },
            "data": { ASKED: serde_json::to_string(self)? },
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

/// Requests that nobody has answered, by the names of their ConfigMaps.
pub(super) fn open(context: &Context) -> Vec<(String, Option<Request>)> {
    context
        .stores
        .config_maps(LABEL, REQUEST)
        .iter()
        .filter(|map| {
            map.pointer("/data")
                .and_then(|data| data.get(ANSWERED))
                .is_none()
        })
        .filter_map(|map| {
            let name = map.pointer("/metadata/name")?.as_str()?.to_owned();
            let asked = map
                .get("data")
                .and_then(|data| data.get(ASKED))
                .and_then(Value::as_str);
            Some((
                name,
                asked.and_then(|asked| serde_json::from_str(asked).ok()),
            ))
        })
        .collect()
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
    patience: std::time::Duration,
) -> anyhow::Result<Answer> {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let failed =
        |error: &kube::Error| anyhow::anyhow!("ConfigMap in {namespace}: {}", words(error));
    let map = api
        .create(&Default::default(), &request.to_config_map()?)
        .await
        .map_err(|error| failed(&error))?;
    let name = map.name_any();
    let waiting = async {
        loop {
            if let Some(answer) = Answer::of(&api.get(&name).await?) {
                return Ok(answer);
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
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
