//! Changes of gateways that the controller has begun to create.

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tsunaro_model::gateway::{Gateway, Object, PINNED_FIELDS, changed_pinned_fields, parse};

use crate::Named;
use crate::cluster::Cluster;
use crate::table::Table;

pub(crate) const TESTS: &[Named] = &[
    (
        "the_api_server_and_our_validation_refuse_the_same_changes_of_a_pinned_gateway",
        changes,
    ),
    (
        "what_is_pinned_cannot_be_removed_and_added_again_in_two_steps",
        two_steps,
    ),
    (
        "an_unpinned_gateway_may_change_all_of_it",
        changes_before_the_pin,
    ),
];

/// A gateway of the table under a name of its own, without the status, as a person writes it.
fn written(object: &Value, name: &str) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        fields.insert("metadata".to_owned(), json!({ "name": name }));
    }
    object
}

/// A status as the controller writes it, alone.
fn status_of(name: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "tsunaro.io/v1alpha1",
        "kind": "TailnetGateway",
        "metadata": { "name": name },
        "status": status,
    })
}

/// Creates the gateways and pins them.
fn create_pinned(cluster: &Cluster, gateways: &[Value]) -> Result<()> {
    let created = cluster.apply(&[], gateways)?;
    ensure!(created.accepted() == gateways.len(), "{}", created.all());
    let statuses: Vec<Value> = gateways
        .iter()
        .map(|gateway| status_of(&name_of(gateway), &json!({ "pinned": true })))
        .collect();
    let as_controller = [
        "--server-side",
        "--subresource=status",
        "--field-manager=controller",
    ];
    let pinned = cluster.apply(&as_controller, &statuses)?;
    ensure!(pinned.accepted() == gateways.len(), "{}", pinned.all());
    Ok(())
}

fn name_of(gateway: &Value) -> String {
    let name = gateway.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}

fn gateway(object: &Value) -> Result<Gateway> {
    let parsed = parse(&object.to_string());
    let object = parsed.objects.into_iter().next();
    match object.map(|located| located.object) {
        Some(Object::Gateway(gateway)) => Ok(*gateway),
        _ => anyhow::bail!("no gateway: {:?}", parsed.findings),
    }
}

fn changes(cluster: &Cluster) -> Result<()> {
    let table = Table::read();
    let name = |index: usize| format!("change-{index}");
    let pairs: Vec<(Value, Value)> = table
        .transitions
        .iter()
        .map(|case| table.transition(case))
        .collect();
    let named = |pick: fn(&(Value, Value)) -> &Value| -> Vec<Value> {
        let objects = pairs.iter().enumerate();
        objects
            .map(|(index, pair)| written(pick(pair), &name(index)))
            .collect()
    };
    create_pinned(cluster, &named(|(live, _)| live))?;
    let applied = cluster.apply(&[], &named(|(_, wanted)| wanted))?;
    for (index, (case, (live, wanted))) in table.transitions.iter().zip(&pairs).enumerate() {
        let refusal = applied.refusal(index);
        let ours = changed_pinned_fields(&gateway(live)?, &gateway(wanted)?);
        let name = &case.name;
        match &case.field {
            Some(field) => {
                ensure!(ours == [field.as_str()], "{name}: ours: {ours:?}");
                ensure!(
                    refusal.contains(&format!("{field}: it is part of the gateway's identity"))
                        && refusal.contains("put the old value back"),
                    "{name}: {refusal:?}"
                );
                let others = PINNED_FIELDS.iter().filter(|other| *other != field);
                for other in others {
                    let told = format!("{other}: it is part");
                    ensure!(!refusal.contains(&told), "{name}: {refusal}");
                }
            }
            None => {
                ensure!(ours.is_empty(), "{name}: ours: {ours:?}");
                ensure!(refusal.is_empty(), "{name}: {refusal}");
            }
        }
    }
    Ok(())
}

/// For each pinned field: first without it, then with another value of it.
fn two_steps(cluster: &Cluster) -> Result<()> {
    let table = Table::read();
    let everything = table
        .accepted
        .iter()
        .find(|case| case.name == "everything")
        .context("the table has a gateway with all fields")?;
    let mut everything = table.object(everything);
    // Removed tags come back as the default, which would be no change.
    parent_insert(&mut everything, "spec.tags", json!(["tag:router"]))?;
    let name = |index: usize| format!("steps-{index}");
    let mut live = Vec::new();
    let mut without = Vec::new();
    let mut changed = Vec::new();
    for (index, path) in PINNED_FIELDS.iter().enumerate() {
        let original = written(&everything, &name(index));
        let mut removed = original.clone();
        let (parent, key) = parent(&mut removed, path)?;
        parent
            .remove(&key)
            .with_context(|| format!("{path} is not in the example"))?;
        without.push(removed.clone());
        parent_insert(&mut removed, path, other_value(path)?)?;
        changed.push(removed);
        live.push(original);
    }
    create_pinned(cluster, &live)?;
    for (step, objects) in [("removed", &without), ("added again", &changed)] {
        let applied = cluster.apply(&[], objects)?;
        for (index, path) in PINNED_FIELDS.iter().enumerate() {
            let refusal = applied.refusal(index);
            ensure!(refusal.contains(path), "{path} {step}: {refusal:?}");
        }
        ensure!(applied.accepted() == 0, "{step}: {}", applied.all());
    }
    for (index, original) in live.iter().enumerate() {
        let now = cluster.get(&["tailnetgateway", &name(index)])?;
        ensure!(
            changed_pinned_fields(&gateway(&now)?, &gateway(original)?).is_empty(),
            "{now}"
        );
    }
    Ok(())
}

fn parent<'o>(object: &'o mut Value, path: &str) -> Result<(&'o mut Map<String, Value>, String)> {
    let (parent, key) = path.rsplit_once('.').context("a path has a parent")?;
    let pointer = format!("/{}", parent.replace('.', "/"));
    let parent = object.pointer_mut(&pointer).and_then(Value::as_object_mut);
    Ok((parent.context("the parent is there")?, key.to_owned()))
}

fn parent_insert(object: &mut Value, path: &str, value: Value) -> Result<()> {
    let (parent, key) = parent(object, path)?;
    parent.insert(key, value);
    Ok(())
}

/// A valid value that the example does not have.
fn other_value(path: &str) -> Result<Value> {
    Ok(match path {
        "spec.tailnetRef" | "spec.stateSecretRef" => json!({ "name": "another" }),
        "spec.hostname" => json!("another"),
        "spec.tags" => json!(["tag:another"]),
        "spec.service.loadBalancerIP" => json!("198.51.100.99"),
        "spec.service.loadBalancerClass" => json!("example.org/another"),
        "spec.dns.zone" => json!("another.example.internal"),
        "spec.dns.serviceName" => json!("another-dns"),
        "spec.dns.serviceClusterIP" => json!("10.96.0.99"),
        "spec.dns.extraZones" => {
            json!([{ "zone": "another.example", "upstreams": ["198.51.100.53"] }])
        }
        _ => anyhow::bail!("{path} is new to this test"),
    })
}

fn changes_before_the_pin(cluster: &Cluster) -> Result<()> {
    let table = Table::read();
    let name = |index: usize| format!("free-{index}");
    let (mut live, mut wanted) = (Vec::new(), Vec::new());
    for (index, case) in table.transitions.iter().enumerate() {
        let (from, to) = table.transition(case);
        live.push(written(&from, &name(index)));
        wanted.push(written(&to, &name(index)));
    }
    for objects in [live, wanted] {
        let applied = cluster.apply(&[], &objects)?;
        ensure!(applied.accepted() == objects.len(), "{}", applied.all());
    }
    Ok(())
}
