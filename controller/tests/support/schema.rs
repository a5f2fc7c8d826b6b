//! What an API server with our definitions says of an object: the structural schema by the few
//! keywords that our schemas use, the rules by an implementation of CEL.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::{CompiledSchema, Validator, apply_defaults, compile_schema};
use serde_json::{Value, json};
use tsunaro_controller::crd::crds;

/// Why an object is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The schema, with the field's path.
    Schema(String),
    /// A rule, with its message.
    Rule(String),
}

impl Refusal {
    pub(crate) fn as_rule(&self) -> Option<&str> {
        match self {
            Self::Rule(message) => Some(message),
            Self::Schema(_) => None,
        }
    }

    pub(crate) fn as_schema(&self) -> Option<&str> {
        match self {
            Self::Schema(path) => Some(path),
            Self::Rule(_) => None,
        }
    }
}

struct Schema {
    kind: String,
    schema: Value,
    compiled: CompiledSchema,
}

thread_local! {
    static SCHEMAS: Vec<Schema> = crds().into_iter().map(Schema::new).collect();
}

impl Schema {
    fn new(crd: CustomResourceDefinition) -> Self {
        let schema = crd.spec.versions[0].schema.clone().unwrap();
        let schema = serde_json::to_value(schema.open_api_v3_schema.unwrap()).unwrap();
        let compiled = compile_schema(&schema);
        let errors = compiled.compilation_errors();
        assert!(errors.is_empty(), "{errors:?}");
        Self {
            kind: crd.spec.names.kind,
            schema,
            compiled,
        }
    }
}

/// Every rule's kind and message.
pub(crate) fn all_rules() -> Vec<(String, String)> {
    SCHEMAS.with(|schemas| {
        let rules = |schema: &Schema| {
            let kind = schema.kind.clone();
            let rules = schema.schema["x-kubernetes-validations"]
                .as_array()
                .unwrap()
                .clone();
            rules
                .into_iter()
                .map(move |rule| (kind.clone(), rule["message"].as_str().unwrap().to_owned()))
        };
        schemas.iter().flat_map(rules).collect()
    })
}

/// All refusals of an object, or of an update from `old` to it. As in an API server, rules are asked
/// only when the schema is satisfied.
pub(crate) fn check(kind: &str, object: &Value, old: Option<&Value>) -> Vec<Refusal> {
    SCHEMAS.with(|schemas| {
        let Schema {
            schema, compiled, ..
        } = schemas.iter().find(|schema| schema.kind == kind).unwrap();
        let object = apply_defaults(schema, object);
        let old = old.map(|old| apply_defaults(schema, old));
        let mut refusals = Vec::new();
        structure(schema, &object, "", &mut refusals);
        if refusals.is_empty()
            && let Err(errors) = Validator::new().validate_compiled(compiled, &object, old.as_ref())
        {
            refusals.extend(
                errors
                    .iter()
                    .map(|error| Refusal::Rule(error.message.clone())),
            );
        }
        refusals
    })
}

fn structure(schema: &Value, value: &Value, path: &str, refusals: &mut Vec<Refusal>) {
    let known = |value: &Value| match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        None => true,
        other => panic!("{path}: the type {other:?} is new to this test"),
    };
    let fits = known(value)
        && size(schema, value)
        && choice(schema, value)
        && pattern(schema, value)
        && distinct(schema, value);
    if !fits {
        refusals.push(Refusal::Schema(path.to_owned()));
        return;
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            for required in schema["required"].as_array().into_iter().flatten() {
                let name = required.as_str().unwrap();
                if !fields.contains_key(name) {
                    refusals.push(Refusal::Schema(join(path, name)));
                }
            }
            for (name, value) in fields {
                // What every object has is in no schema of a custom resource.
                if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                    continue;
                }
                let values = &schema["additionalProperties"];
                match schema["properties"].get(name) {
                    Some(property) => structure(property, value, &join(path, name), refusals),
                    None if values.is_object() => {
                        structure(values, value, &join(path, name), refusals);
                    }
                    None => refusals.push(Refusal::Schema(join(path, name))),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                structure(
                    &schema["items"],
                    item,
                    &format!("{path}[{index}]"),
                    refusals,
                );
            }
        }
        _ => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn size(schema: &Value, value: &Value) -> bool {
    let within = |size: usize, least: &str, most: &str| {
        let size = size as u64;
        schema[least].as_u64().is_none_or(|least| size >= least)
            && schema[most].as_u64().is_none_or(|most| size <= most)
    };
    match value {
        Value::String(text) => within(text.chars().count(), "minLength", "maxLength"),
        Value::Array(items) => within(items.len(), "minItems", "maxItems"),
        Value::Object(fields) => within(fields.len(), "minProperties", "maxProperties"),
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            schema["minimum"]
                .as_f64()
                .is_none_or(|least| number >= least)
                && schema["maximum"].as_f64().is_none_or(|most| number <= most)
        }
        Value::Null | Value::Bool(_) => true,
    }
}

fn choice(schema: &Value, value: &Value) -> bool {
    schema["enum"]
        .as_array()
        .is_none_or(|choices| choices.contains(value))
}

fn pattern(schema: &Value, value: &Value) -> bool {
    let Some(pattern) = schema["pattern"].as_str() else {
        return true;
    };
    let rule = json!({ "type": "string", "x-kubernetes-validations": [{ "rule": format!("self.matches('{pattern}')") }] });
    Validator::new().validate(&rule, value, None).is_ok()
}

/// `x-kubernetes-list-type`: no equal entries in a set, no equal keys in a map.
fn distinct(schema: &Value, value: &Value) -> bool {
    let Some(items) = value.as_array() else {
        return true;
    };
    let key = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(item.clone()),
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().unwrap();
            Some(
                keys.iter()
                    .map(|key| item[key.as_str().unwrap()].clone())
                    .collect(),
            )
        }
        _ => None,
    };
    let mut seen = Vec::new();
    items.iter().filter_map(key).all(|key| {
        let new = !seen.contains(&key);
        seen.push(key);
        new
    })
}
