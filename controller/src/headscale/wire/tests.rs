use super::*;

#[test]
fn a_list_that_is_null_is_empty_and_one_that_is_missing_is_an_error() {
    let read = |json| serde_json::from_str::<NodesReply>(json).map(|reply| reply.nodes.len());
    assert_eq!(read(r#"{"nodes":[]}"#).unwrap(), 0);
    assert_eq!(read(r#"{"nodes":null}"#).unwrap(), 0);
    assert!(read("{}").is_err());
    assert!(read(r#"{"nodes":{}}"#).is_err());
}

#[test]
fn a_node_without_a_field_that_would_be_mistaken_is_an_error_that_names_it() {
    let whole = serde_json::json!({
        "id": "1", "name": "gw", "givenName": "gw", "ipAddresses": [], "online": true,
        "expiry": null, "tags": [], "availableRoutes": [], "approvedRoutes": [], "subnetRoutes": [],
        "someNewField": 1,
    });
    assert!(serde_json::from_value::<NodeReply>(whole.clone()).is_ok());
    for field in [
        "id",
        "name",
        "givenName",
        "ipAddresses",
        "online",
        "tags",
        "availableRoutes",
        "approvedRoutes",
        "subnetRoutes",
    ] {
        let mut without = whole.clone();
        without.as_object_mut().unwrap().remove(field);
        let error = serde_json::from_value::<NodeReply>(without)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(field), "{field}: {error}");
    }
}

#[test]
fn expirations_are_written_and_read_to_the_nanosecond() {
    let moment = "2026-12-02T01:02:03.123456789Z";
    let body = MintBody {
        reusable: false,
        ephemeral: false,
        expiration: moment.parse().unwrap(),
        acl_tags: vec!["tag:fabric"],
    };
    let json = serde_json::to_value(&body).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "reusable": false, "ephemeral": false, "expiration": moment, "aclTags": ["tag:fabric"],
        })
    );
}
