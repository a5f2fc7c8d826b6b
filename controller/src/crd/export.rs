//! The CRDs as files.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::json;

use super::{Tailnet, TailnetEgress, TailnetGateway, TailnetIngress, TailnetSite, rules};

/// A label's value (Kubernetes API conventions).
const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
/// Longest value of a label.
const MAX_LABEL_VALUE: i64 = 63;

/// All definitions, with rules and defaults, ready to be applied.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        Tailnet::crd(),
        TailnetGateway::crd(),
        TailnetEgress::crd(),
        TailnetIngress::crd(),
        TailnetSite::crd(),
    ]
    .into_iter()
    .map(finish)
    .collect()
}

/// Any object as a YAML document, without a separator.
///
/// # Errors
/// A value that YAML cannot hold; Kubernetes objects have none.
pub fn to_yaml(object: &impl Serialize) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(object)
}

fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let kind = crd.spec.names.kind.clone();
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        let Some(root) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        tidy(root);
        root.x_kubernetes_validations = Some(rules::of_kind(&kind));
        let properties = root.properties.get_or_insert_default();
        if let Some(status) = properties.get_mut("status") {
            // Tools that wait for readiness see that nobody has looked at the object yet.
            status.default = Some(JSON(json!({ "observedGeneration": -1 })));
        }
        if let Some(labels) = properties
            .get_mut("spec")
            .and_then(|spec| inner(spec, "service"))
            .and_then(|service| inner(service, "poolLabels"))
            && let Some(JSONSchemaPropsOrBool::Schema(value)) = &mut labels.additional_properties
        {
            value.pattern = Some(LABEL_VALUE.to_owned());
            value.max_length = Some(MAX_LABEL_VALUE);
        }
    }
    crd
}

fn inner<'s>(schema: &'s mut JSONSchemaProps, name: &str) -> Option<&'s mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

/// Makes descriptions flow, and null no value: a field that is absent is left out.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(description) = &mut schema.description {
        *description = flowing(description);
    }
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|map| map.values_mut())
    {
        tidy(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tidy(items),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => all.iter_mut().for_each(tidy),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy(values);
    }
}

/// Single line breaks become spaces; blank lines stay.
fn flowing(text: &str) -> String {
    let paragraphs: Vec<String> = text
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    paragraphs.join("\n\n")
}
