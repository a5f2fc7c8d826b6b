//! One of the nine objects: as it should be and as it is.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::super::Kind;
use super::super::marks::{RENDERED, UID};

/// Lists whose entries the API server merges by a key, so that other writers may add entries of
/// their own (`x-kubernetes-list-type: map` of the built-in types). All other lists belong to one
/// writer as a whole.
const MERGED: [&str; 6] = [
    "containers",
    "initContainers",
    "env",
    "ports",
    "volumes",
    "volumeMounts",
];
/// The label that tells which controller wrote an object last. A controller of another version that
/// would write the same otherwise writes nothing.
const VERSION: &str = "app.kubernetes.io/version";

/// One of the nine objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// Which one.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// As it should be, with the marks of this gateway.
    pub desired: Value,
    /// As it is.
    pub live: Option<Value>,
}

/// Whose an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// It does not exist.
    Missing,
    /// This gateway's.
    Ours,
    /// Another gateway's of this UID, or nobody's that we know.
    Foreign(Option<String>),
}

impl Child {
    /// An object with the marks that prove whose it is and what it was rendered as.
    pub fn new(kind: Kind, mut desired: Value, uid: &str, live: Option<Value>) -> Self {
        let rendered = digest(&without_version(&desired));
        if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata
                .entry("annotations")
                .or_insert_with(|| Value::Object(serde_json::Map::new()));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(UID.to_owned(), uid.into());
                annotations.insert(RENDERED.to_owned(), rendered.into());
            }
        }
        let name = text(&desired, "/metadata/name").unwrap_or_default();
        Self {
            kind,
            name,
            desired,
            live,
        }
    }

    /// Whose it is.
    pub fn owner(&self, uid: &str) -> Owner {
        match &self.live {
            None => Owner::Missing,
            Some(live) => ours(live, uid),
        }
    }

    /// Whether a write would change it.
    pub fn is_drifted(&self) -> bool {
        self.live
            .as_ref()
            .is_none_or(|live| drifted(&self.desired, live))
    }

    /// Whether it is there and being deleted.
    pub fn is_going(&self) -> bool {
        self.live
            .as_ref()
            .is_some_and(|live| live.pointer("/metadata/deletionTimestamp").is_some())
    }

    /// The UID of the live object, for a deletion of that one only.
    pub fn live_uid(&self) -> Option<String> {
        self.live
            .as_ref()
            .and_then(|live| text(live, "/metadata/uid"))
    }
}

/// Whose an existing object is, by its label or its annotation.
pub fn ours(live: &Value, uid: &str) -> Owner {
    let marks: Vec<&str> = ["labels", "annotations"]
        .into_iter()
        .filter_map(|place| live.get("metadata")?.get(place)?.get(UID)?.as_str())
        .collect();
    if marks.contains(&uid) {
        return Owner::Ours;
    }
    Owner::Foreign(marks.first().map(|&uid| uid.to_owned()))
}

/// Whether something of `desired` is not so in `live`. What `live` has besides, as defaults of the
/// API server, does not count; that what we no longer want is gone is told by the annotation with
/// the digest.
pub fn drifted(desired: &Value, live: &Value) -> bool {
    !contains(live, desired, "")
}

/// A short digest of a value's JSON, whose maps are sorted.
pub fn digest(value: &Value) -> String {
    let hash = Sha256::digest(value.to_string().as_bytes());
    hash.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn contains(live: &Value, desired: &Value, field: &str) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, desired)| {
            key == VERSION
                || is_empty(desired)
                || live
                    .get(key)
                    .is_some_and(|live| contains(live, desired, key))
        }),
        (Value::Array(live), Value::Array(desired)) if MERGED.contains(&field) => {
            let mut rest = live.iter();
            desired
                .iter()
                .all(|wanted| rest.any(|entry| contains(entry, wanted, "")))
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len()
                && live
                    .iter()
                    .zip(desired)
                    .all(|(live, desired)| contains(live, desired, ""))
        }
        (live, desired) => live == desired,
    }
}

/// The API server drops empty maps and nulls.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn without_version(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(labels) = value
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(VERSION);
    }
    value
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
