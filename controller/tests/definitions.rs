//! The definitions of the custom resources as files and as documentation.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

use std::path::Path;

use serde_json::Value;
use tsunaro_controller::crd::{crds, to_yaml};

#[test]
fn the_files_in_deploy_are_current() {
    for crd in crds() {
        let name = crd.metadata.name.clone().unwrap();
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../deploy/crds/{name}.yaml"));
        let file = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            file,
            to_yaml(&crd).unwrap(),
            "{name}: run `cargo xtask crds`"
        );
    }
}

#[test]
fn every_field_has_a_description_and_every_optional_one_says_its_default() {
    let mut faults = Vec::new();
    for crd in crds() {
        let schema = crd.spec.versions[0]
            .schema
            .clone()
            .unwrap()
            .open_api_v3_schema
            .unwrap();
        let schema = serde_json::to_value(schema).unwrap();
        let kind = crd.spec.names.kind;
        described(
            &schema["properties"]["spec"],
            &format!("{kind}.spec"),
            true,
            &mut faults,
        );
        described(
            &schema["properties"]["status"],
            &format!("{kind}.status"),
            false,
            &mut faults,
        );
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

fn described(schema: &Value, path: &str, defaults: bool, faults: &mut Vec<String>) {
    let text = schema["description"].as_str().unwrap_or_default();
    if text.is_empty() {
        faults.push(format!("{path} has no description"));
    }
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        described(property, &path, defaults, faults);
        let text = property["description"].as_str().unwrap_or_default();
        let scalar = ["string", "integer"].contains(&property["type"].as_str().unwrap_or_default());
        let refused = text.starts_with("Refused:");
        if defaults && !refused {
            if !required.contains(&name.as_str())
                && !text.contains("efault")
                && !text.contains("Either")
                && property["properties"].is_null()
            {
                faults.push(format!("{path} is optional and says no default"));
            }
            if required.contains(&name.as_str()) && scalar && !text.contains("Example:") {
                faults.push(format!("{path} has no example"));
            }
        }
    }
    if schema["items"].is_object() && schema["items"]["properties"].is_object() {
        described(&schema["items"], &format!("{path}[]"), defaults, faults);
    }
}

#[test]
fn the_columns_of_a_gateway_are_what_people_look_for() {
    let crd = crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == "TailnetGateway")
        .unwrap();
    let columns = crd.spec.versions[0]
        .additional_printer_columns
        .clone()
        .unwrap();
    let shown = |wide: bool| -> Vec<String> {
        columns
            .iter()
            .filter(|column| (column.priority == Some(1)) == wide)
            .map(|column| column.name.to_uppercase())
            .collect()
    };
    assert_eq!(
        shown(false),
        ["HOSTNAME", "SUSPENDED", "READY", "REASON", "ROUTES", "AGE"]
    );
    assert_eq!(
        shown(true),
        ["TAILNET-IP", "SERVICE-IP", "NODE-ID", "ZONE", "MESSAGE"]
    );
    assert_eq!(crd.spec.scope, "Cluster");
    assert_eq!(crd.spec.names.short_names.unwrap(), ["tngw", "tgw"]);
}

#[test]
fn schemas_have_no_nulls_and_a_status_that_nobody_wrote_yet_says_so() {
    for crd in crds() {
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        assert!(
            !schema.to_string().contains("nullable"),
            "{}",
            crd.spec.names.kind
        );
        let status = &schema["openAPIV3Schema"]["properties"]["status"];
        assert_eq!(
            status["default"]["observedGeneration"], -1,
            "{}",
            crd.spec.names.kind
        );
    }
}
