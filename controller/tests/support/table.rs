//! The table.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    #[allow(dead_code, reason = "for people who read the file")]
    about: String,
    examples: BTreeMap<String, Value>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) accepted: Vec<Accepted>,
    pub(crate) transitions: Vec<Transition>,
}

/// Changes of an example.
type Pointers = BTreeMap<String, Value>;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Refused {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) refused_by: By,
    pub(crate) field: String,
    #[serde(default)]
    set: Pointers,
    #[serde(default)]
    remove: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Accepted {
    pub(crate) name: String,
    pub(crate) kind: String,
    #[serde(default)]
    set: Pointers,
    #[serde(default)]
    remove: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Transition {
    pub(crate) name: String,
    /// The field that must not change. None: the change is allowed.
    pub(crate) field: Option<String>,
    #[serde(default)]
    live: Pointers,
    #[serde(default)]
    set: Pointers,
    #[serde(default)]
    remove: Vec<String>,
}

/// Who refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    Rule,
    Schema,
    Check,
}

/// What a case does to its example.
pub(crate) trait Case {
    fn parts(&self) -> (&str, &Pointers, &[String]);
}

impl Case for Refused {
    fn parts(&self) -> (&str, &Pointers, &[String]) {
        (&self.kind, &self.set, &self.remove)
    }
}

impl Case for Accepted {
    fn parts(&self) -> (&str, &Pointers, &[String]) {
        (&self.kind, &self.set, &self.remove)
    }
}

impl Table {
    pub(crate) fn read() -> Self {
        serde_json::from_str(include_str!("../cases/manifests.json")).unwrap()
    }

    pub(crate) fn object(&self, case: &impl Case) -> Value {
        let (kind, set, remove) = case.parts();
        let mut object = self.examples[kind].clone();
        change(&mut object, set, remove);
        object
    }

    /// The pinned live object, and the wanted one.
    pub(crate) fn transition(&self, case: &Transition) -> (Value, Value) {
        let mut live = self.examples["TailnetGateway"].clone();
        change(&mut live, &case.live, &[]);
        let mut wanted = live.clone();
        change(&mut wanted, &case.set, &case.remove);
        live["status"] = json!({ "pinned": true });
        wanted["status"] = json!({ "pinned": true });
        (live, wanted)
    }

    pub(crate) fn unpinned(live: &Value) -> Value {
        let mut live = live.clone();
        live["status"] = json!({ "observedGeneration": -1 });
        live
    }
}

fn change(object: &mut Value, set: &Pointers, remove: &[String]) {
    for (pointer, value) in set {
        let (parent, key) = split(object, pointer);
        parent.insert(key, value.clone());
    }
    for pointer in remove {
        let (parent, key) = split(object, pointer);
        assert!(parent.remove(&key).is_some(), "{pointer} is not there");
    }
}

fn split<'o>(
    object: &'o mut Value,
    pointer: &str,
) -> (&'o mut serde_json::Map<String, Value>, String) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    (parent, key.to_owned())
}
