use super::*;
use crate::headscale::wire::{KeysReply, NodesReply};

/// As 0.29.2 lists them, shortened: a primary, its standby, and one with nonsense.
const NODES: &str = r#"{"nodes":[
 {"id":"18446744073709551615","machineKey":"mkey:0","name":"gw-a","user":{"id":"2147455555","name":"tagged-devices"},
  "ipAddresses":["100.64.0.2","fd7a:115c:a1e0::2"],"lastSeen":"2026-12-02T00:00:00.5Z","expiry":null,
  "preAuthKey":{"user":null,"id":"3","key":"hskey-auth-abc-***","used":true},"createdAt":"2026-12-01T00:00:00Z",
  "registerMethod":"REGISTER_METHOD_AUTH_KEY","givenName":"gw-a","online":true,
  "approvedRoutes":["192.0.2.0/24","198.51.100.0/24"],"availableRoutes":["192.0.2.0/24"],
  "subnetRoutes":["192.0.2.0/24"],"tags":["tag:fabric"]},
 {"id":"2","name":"GW-A","user":null,"ipAddresses":[],"lastSeen":null,"expiry":"0001-01-01T00:00:00Z",
  "preAuthKey":null,"createdAt":null,"givenName":"gw-a-1","online":false,
  "approvedRoutes":[],"availableRoutes":["invalid Prefix","192.0.2.0/24"],"subnetRoutes":null,"tags":[]},
 {"id":"3","name":"peer","user":{"id":"1","name":"ann"},"ipAddresses":[],"expiry":"2026-12-02T00:00:00.000000001Z",
  "givenName":"peer","online":true,"approvedRoutes":[],"availableRoutes":[],"subnetRoutes":[],"tags":[]}]}"#;

fn nodes() -> NodeList {
    let reply: NodesReply = serde_json::from_str(NODES).unwrap();
    NodeList::new(reply.nodes.into_iter().map(Node::from).collect())
}

fn set(prefixes: &[&str]) -> BTreeSet<IpNet> {
    prefixes.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_listed_node_is_read_whole() {
    let nodes = nodes();
    let node = nodes.get("18446744073709551615".parse().unwrap()).unwrap();
    assert_eq!(node.hostname, "gw-a");
    assert_eq!(node.user.as_deref(), Some("tagged-devices"));
    assert_eq!(node.addresses.len(), 2);
    assert_eq!(node.expiry, Expiry::Never);
    assert_eq!(node.key, Some("3".parse().unwrap()));
    assert_eq!(
        node.last_seen,
        Some("2026-12-02T00:00:00.5Z".parse().unwrap())
    );
    assert!(node.online && node.tags.contains("tag:fabric"));
    assert_eq!(node.advertised, set(&["192.0.2.0/24"]));
    assert_eq!(node.approved, set(&["192.0.2.0/24", "198.51.100.0/24"]));
    assert_eq!(node.serving, set(&["192.0.2.0/24"]));
}

#[test]
fn nonsense_that_a_node_advertises_is_put_aside() {
    let nodes = nodes();
    let node = nodes.get("2".parse().unwrap()).unwrap();
    assert_eq!(node.advertised, set(&["192.0.2.0/24"]));
    assert_eq!(node.unreadable_routes, ["invalid Prefix"]);
    assert_eq!(node.expiry, Expiry::Never);
    assert!(node.serving.is_empty() && node.user.is_none() && node.key.is_none());
}

#[test]
fn nodes_are_found_by_id_and_by_the_name_they_gave() {
    let nodes = nodes();
    let ids = |name| {
        nodes
            .with_hostname(name)
            .map(|node| node.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("gw-a"), ["2", "18446744073709551615"]);
    assert_eq!(ids("gw-a-1"), [""; 0]);
    assert!(nodes.get("9".parse().unwrap()).is_none());
    assert_eq!(
        (nodes.len(), nodes.is_empty(), nodes.iter().count()),
        (3, false, 3)
    );
    assert!(NodeList::default().is_empty());
}

#[test]
fn a_listed_key_is_usable_until_it_is_used_or_expired() {
    let json = r#"{"preAuthKeys":[
      {"id":"1","key":"hskey-auth-a-***","used":false,"reusable":false,"expiration":"2026-12-02T00:00:00.123456789Z","aclTags":["tag:fabric"]},
      {"id":"2","used":true,"reusable":false,"expiration":null,"aclTags":null},
      {"id":"3","used":true,"reusable":true,"expiration":null,"aclTags":[]},
      {"id":"4","used":false,"reusable":false,"expiration":"0001-01-01T00:00:00Z","aclTags":[]}]}"#;
    let reply: KeysReply = serde_json::from_str(json).unwrap();
    let keys: Vec<ListedKey> = reply
        .pre_auth_keys
        .into_iter()
        .map(ListedKey::from)
        .collect();
    let usable = |now: &str| {
        let now = now.parse().unwrap();
        keys.iter()
            .map(|key| key.is_usable(now))
            .collect::<Vec<_>>()
    };
    assert_eq!(usable("2026-12-02T00:00:00Z"), [true, false, true, false]);
    assert_eq!(
        usable("2026-12-02T00:00:00.123456789Z"),
        [false, false, true, false]
    );
}

#[test]
fn a_key_is_found_by_its_expiration_even_if_the_database_rounds_to_microseconds() {
    fn check(stored: Option<&str>, found: bool) {
        let key = ListedKey {
            id: "1".parse().unwrap(),
            used: false,
            reusable: false,
            expiration: Expiry::of_key(stored.map(|text| text.parse().unwrap())),
            created: None,
            tags: BTreeSet::new(),
        };
        let intended = "2026-12-02T00:00:00.123456789Z".parse().unwrap();
        assert_eq!(key.was_minted_for(intended), found, "{stored:?}");
    }
    check(Some("2026-12-02T00:00:00.123456789Z"), true);
    check(Some("2026-12-02T00:00:00.123457Z"), true);
    check(Some("2026-12-02T00:00:00.123456Z"), true);
    check(Some("2026-12-02T00:00:00.123458Z"), false);
    check(Some("2026-12-02T00:00:00.123455Z"), false);
    check(None, false);
}

#[test]
fn a_minted_key_never_shows_its_text() {
    let reply = NewKeyReply {
        id: "5".parse().unwrap(),
        key: "hskey-auth-s3cret".to_owned(),
        expiration: None,
        acl_tags: vec!["tag:fabric".to_owned()],
    };
    let minted = MintedKey::from_reply(reply).unwrap();
    assert_eq!(minted.key.secret(), "hskey-auth-s3cret");
    assert!(!format!("{minted:?}").contains("s3cret"));
}

#[test]
fn a_version_has_numbers_unless_it_is_built_from_a_checkout() {
    fn check(text: &str, expected: Option<(u32, u32)>) {
        let version = ServerVersion {
            text: text.to_owned(),
            commit: String::new(),
        };
        assert_eq!(version.numbers(), expected, "{text}");
    }
    check("v0.29.2", Some((0, 29)));
    check("0.28.0-beta.1", Some((0, 28)));
    check("v1.0.0", Some((1, 0)));
    check("dev", None);
    check("", None);
}
