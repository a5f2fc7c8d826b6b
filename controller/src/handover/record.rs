//! The ConfigMaps of handovers: records of those under way, and requests of people.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use super::Record;
use crate::cluster::Context;
use crate::cluster::failure::words;
use crate::headscale::NodeId;
use crate::reconcile::marks::{MANAGED_BY, MANAGER};

/// Label of these ConfigMaps.
pub(crate) const LABEL: &str = "tsunaro.io/handover";
/// Its value on a record.
pub(super) const RECORD: &str = "record";
/// Its value on a request.
pub(super) const REQUEST: &str = "request";
/// The key of the record's JSON.
const DATA: &str = "record.json";

/// The records that the watch knows of.
pub(super) fn known(context: &Context) -> Vec<Record> {
    let maps = context.stores.config_maps(LABEL, RECORD);
    maps.iter().filter_map(read).collect()
}

/// The nodes of a tailnet that are being handed over.
pub(crate) fn busy(context: &Context, tailnet: &str) -> BTreeSet<NodeId> {
    let mut busy = context.handovers.under_way(tailnet);
    let records = known(context).into_iter();
    busy.extend(
        records
            .filter(|record| record.tailnet == tailnet)
            .map(|record| record.node),
    );
    busy
}

fn read(map: &Value) -> Option<Record> {
    let text = map.get("data")?.get(DATA)?.as_str()?;
    match serde_json::from_str(text) {
        Ok(record) => Some(record),
        Err(error) => {
            let name = map.pointer("/metadata/name").and_then(Value::as_str);
            tracing::warn!(config_map = name, %error, "This record of a handover cannot be read; restore the approvals that it lists by hand and delete it");
            None
        }
    }
}

fn name(tailnet: &str, node: NodeId) -> String {
    format!("tsunaro-handover-{tailnet}-{node}")
}

fn maps(context: &Context) -> Api<ConfigMap> {
    Api::namespaced(context.client.clone(), &context.settings.namespace)
}

/// The record of this node, as the API server has it now.
pub(super) async fn find(
    context: &Context,
    tailnet: &str,
    node: NodeId,
) -> Result<Option<Record>, String> {
    let name = name(tailnet, node);
    let map = maps(context)
        .get_opt(&name)
        .await
        .map_err(|error| format!("ConfigMap {name}: {}", words(&error)))?;
    Ok(map
        .and_then(|map| serde_json::to_value(map).ok())
        .as_ref()
        .and_then(read))
}

pub(super) async fn write(context: &Context, record: &Record) -> Result<(), String> {
    let name = name(&record.tailnet, record.node);
    let failed = |why: String| format!("ConfigMap {name}: {why}");
    let text = serde_json::to_string(record).map_err(|error| failed(error.to_string()))?;
    let map = json!({
        "metadata": { "name": name, "labels": { MANAGED_BY: MANAGER, LABEL: RECORD } },
        "data": { DATA: text },
    });
    let map = serde_json::from_value(map).map_err(|error| failed(error.to_string()))?;
    let by_us = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    maps(context)
        .create(&by_us, &map)
        .await
        .map(drop)
        .map_err(|error| failed(words(&error)))
}

pub(super) async fn delete(context: &Context, record: &Record) -> Result<(), String> {
    let name = name(&record.tailnet, record.node);
    match maps(context).delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(format!("ConfigMap {name}: {}", words(&error))),
        Ok(_) => Ok(()),
    }
}
