use serde_json::json;

use super::super::super::testing::{UID, World, world};
use super::*;

#[test]
fn defaults_of_the_api_server_and_entries_of_others_are_no_drift() {
    let desired = json!({
        "spec": { "containers": [{ "name": "agent", "env": [{ "name": "A", "value": "1" }], "resources": {} }] },
    });
    let live = json!({
        "spec": {
            "dnsPolicy": "ClusterFirst",
            "containers": [
                { "name": "injected" },
                { "name": "agent", "imagePullPolicy": "Always",
                  "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }] },
            ],
        },
    });
    assert!(!drifted(&desired, &live));
}

#[test]
fn a_changed_value_and_another_entry_of_a_list_that_is_ours_are_drift() {
    let role = json!({ "rules": [{ "verbs": ["get", "update"] }] });
    for live in [
        json!({ "rules": [{ "verbs": ["get"] }] }),
        json!({ "rules": [{ "verbs": ["get", "update", "list"] }] }),
        json!({ "rules": [{ "verbs": ["get", "update"] }, { "verbs": ["*"] }] }),
        json!({ "rules": [] }),
        json!({}),
    ] {
        assert!(drifted(&role, &live), "{live}");
    }
    let binding = json!({ "subjects": [{ "name": "a" }] });
    assert!(drifted(
        &binding,
        &json!({ "subjects": [{ "name": "a" }, { "name": "intruder" }] })
    ));
}

#[test]
fn what_is_no_longer_rendered_is_seen_by_the_digest() {
    let mut world = World::settled();
    let child = world.child(Kind::Service).clone();
    let mut rendered = child.desired.clone();
    rendered["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("io.cilium/lb-pool")
        .unwrap();
    rendered["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    let changed = Child::new(Kind::Service, rendered, UID, child.live);
    assert!(changed.is_drifted());
}

#[test]
fn a_controller_of_another_version_that_would_write_the_same_writes_nothing() {
    let mut world = World::settled();
    for kind in Kind::ALL {
        let child = world.child(kind);
        child.live.as_mut().unwrap()["metadata"]["labels"]["app.kubernetes.io/version"] =
            json!("9.9.9");
        assert!(!child.is_drifted(), "{kind:?}");
    }
}

#[test]
fn an_object_is_ours_by_its_label_or_its_annotation() {
    let mut world = world();
    let child = world.child(Kind::Role);
    assert_eq!(child.owner(UID), Owner::Missing);
    for (metadata, expected) in [
        (
            json!({ "labels": { super::super::super::marks::UID: UID } }),
            Owner::Ours,
        ),
        (
            json!({ "annotations": { super::super::super::marks::UID: UID } }),
            Owner::Ours,
        ),
        (
            json!({ "labels": { super::super::super::marks::UID: "another" } }),
            Owner::Foreign(Some("another".to_owned())),
        ),
        (json!({}), Owner::Foreign(None)),
    ] {
        child.live = Some(json!({ "metadata": metadata }));
        assert_eq!(child.owner(UID), expected);
    }
}
