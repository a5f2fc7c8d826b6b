use proptest::prelude::*;
use serde_json::{Value, json};
use tsunaro_model::name::DnsName;
use tsunaro_model::tailnet::{
    Backend, DaemonStatus, NodeStatus, Prefs, PrefsChange, TailnetDns, TailnetResolver,
};

use super::{
    DnsConfigReply, ErrorReply, Notify, PrefsPatch, PrefsReply, StatusReply, WarningReply,
};

/// Replies of tailscaled 1.102.4 to one node of a Headscale 0.29.2.
macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../tests/fixtures/", $name, ".json"))
    };
}

fn status(json: &str) -> DaemonStatus {
    let reply: StatusReply = serde_json::from_str(json).unwrap();
    reply.try_into().unwrap()
}

fn prefs(json: &str) -> Prefs {
    serde_json::from_str::<PrefsReply>(json).unwrap().into()
}

#[test]
fn before_the_first_login_there_is_no_node() {
    assert_eq!(
        status(recorded!("status-needs-login")),
        DaemonStatus {
            version: "1.102.4-ERR-BuildInfo".to_owned(),
            backend: Backend::NeedsLogin,
            have_node_key: false,
            addresses: Vec::new(),
            health: vec!["Tailscale is starting. Please wait.".to_owned()],
            auth_url: String::new(),
            node: None,
        }
    );
}

#[test]
fn a_running_node_has_addresses_and_tags() {
    assert_eq!(
        status(recorded!("status-running")),
        DaemonStatus {
            version: "1.102.4-ERR-BuildInfo".to_owned(),
            backend: Backend::Running,
            have_node_key: true,
            addresses: vec![
                "100.64.0.2".parse().unwrap(),
                "fd7a:115c:a1e0::2".parse().unwrap()
            ],
            health: Vec::new(),
            auth_url: String::new(),
            node: Some(NodeStatus {
                id: "2".to_owned(),
                hostname: "prod-1-gw".to_owned(),
                tags: vec!["tag:fabric".to_owned()],
                online: true,
                key_expiry: None,
                expired: false,
            }),
        }
    );
}

#[test]
fn an_expired_node_is_online_and_healthy_but_expired() {
    let status = status(recorded!("status-expired"));
    assert_eq!(status.backend, Backend::NeedsLogin);
    assert_eq!(status.addresses.len(), 2);
    let node = status.node.unwrap();
    assert!(node.online && node.expired);
    assert_eq!(node.key_expiry.as_deref(), Some("2026-12-02T00:19:34Z"));
}

#[test]
fn the_zero_time_of_go_is_no_expiry() {
    let json = recorded!("status-expired").replace("2026-12-02T00:19:34Z", "0001-01-01T00:00:00Z");
    assert_eq!(status(&json).node.unwrap().key_expiry, None);
}

#[test]
fn an_unknown_state_is_an_error() {
    let json = recorded!("status-running").replace("\"Running\"", "\"Resting\"");
    let reply: StatusReply = serde_json::from_str(&json).unwrap();
    assert_eq!(
        DaemonStatus::try_from(reply).unwrap_err(),
        "unknown BackendState \"Resting\""
    );
}

#[test]
fn prefs_are_read_before_and_after_the_login() {
    let before = Prefs {
        operator_user: "nobody".to_owned(),
        want_running: true,
        logged_out: true,
        control_url: "https://headscale.example.com".to_owned(),
        hostname: "prod-1-gw".to_owned(),
        ..Prefs::default()
    };
    assert_eq!(prefs(recorded!("prefs-needs-login")), before);
    let after = Prefs {
        advertise_routes: vec![
            "192.0.2.0/24".parse().unwrap(),
            "198.51.100.0/24".parse().unwrap(),
        ],
        logged_out: false,
        ..before
    };
    assert_eq!(prefs(recorded!("prefs-running")), after);
}

#[test]
fn advertised_entries_that_are_no_prefix_are_kept_apart() {
    let prefs = prefs(recorded!("prefs-odd-routes"));
    assert_eq!(prefs.unreadable_routes, [""]);
    assert_eq!(
        prefs.advertise_routes,
        [
            "::ffff:192.0.2.0/120".parse().unwrap(),
            "192.0.2.0/24".parse().unwrap()
        ]
    );
}

#[test]
fn an_exit_node_is_known_by_its_id_or_else_by_its_address() {
    fn check(id: &str, address: &str, expected: &str) {
        let mut json: Value = serde_json::from_str(recorded!("prefs-running")).unwrap();
        json["ExitNodeID"] = id.into();
        json["ExitNodeIP"] = address.into();
        assert_eq!(prefs(&json.to_string()).exit_node, expected);
    }
    check("", "", "");
    check("n1", "", "n1");
    check("", "100.64.0.9", "100.64.0.9");
    check("n1", "100.64.0.9", "n1");
}

#[test]
fn an_object_of_another_kind_is_no_prefs() {
    for json in [
        "{}",
        "[]",
        "null",
        r#"{"Error":"no"}"#,
        recorded!("status-running"),
    ] {
        assert!(serde_json::from_str::<PrefsReply>(json).is_err(), "{json}");
    }
}

#[test]
fn a_change_names_only_what_it_changes_and_masks_it() {
    fn check(change: &PrefsChange, expected: &Value) {
        let json = serde_json::to_value(PrefsPatch::from(change)).unwrap();
        assert_eq!(&json, expected);
    }
    check(&PrefsChange::default(), &json!({}));
    check(
        &PrefsChange {
            advertise_routes: Some(vec!["192.0.2.0/24".parse().unwrap()]),
            ..PrefsChange::default()
        },
        &json!({"AdvertiseRoutes": ["192.0.2.0/24"], "AdvertiseRoutesSet": true}),
    );
    check(
        &PrefsChange {
            advertise_routes: Some(Vec::new()),
            want_running: Some(true),
            route_all: Some(false),
            corp_dns: Some(false),
            shields_up: Some(false),
            no_exit_node: true,
            no_snat: Some(true),
        },
        &json!({
            "AdvertiseRoutes": [], "AdvertiseRoutesSet": true,
            "WantRunning": true, "WantRunningSet": true,
            "RouteAll": false, "RouteAllSet": true,
            "CorpDNS": false, "CorpDNSSet": true,
            "ShieldsUp": false, "ShieldsUpSet": true,
            "ExitNodeID": "", "ExitNodeIDSet": true,
            "ExitNodeIP": "", "ExitNodeIPSet": true,
            "NoSNAT": true, "NoSNATSet": true,
        }),
    );
}

#[test]
fn split_dns_routes_are_read_with_their_resolvers() {
    let reply: DnsConfigReply = serde_json::from_str(recorded!("dns-config")).unwrap();
    let dns = TailnetDns::from(reply);
    let zone = |name: &str| dns.routes.get(&DnsName::parse_host(name).unwrap());
    assert!(dns.magic_dns);
    assert_eq!(
        zone("prod-1.tailnet.example.internal"),
        Some(&vec![TailnetResolver::Plain(
            "198.51.100.17:53".parse().unwrap()
        )])
    );
    assert_eq!(zone("corp.example").map(Vec::len), Some(2));
    assert_eq!(zone("64.100.in-addr.arpa"), Some(&Vec::new()));
    assert_eq!(zone("other.example"), None);
}

#[test]
fn resolvers_and_zones_of_all_kinds_are_kept() {
    let json = r#"{"Routes":{
        "a.example.": [{"Addr":"[2001:db8::1]:5353"},{"Addr":"https://dns.example/q"},{}],
        "b..example": null, "c.example": null}}"#;
    let dns = TailnetDns::from(serde_json::from_str::<DnsConfigReply>(json).unwrap());
    assert_eq!(dns.unreadable_zones, ["b..example"]);
    assert!(!dns.magic_dns);
    assert_eq!(
        dns.routes.get(&DnsName::parse_host("a.example").unwrap()),
        Some(&vec![
            TailnetResolver::Plain("[2001:db8::1]:5353".parse().unwrap()),
            TailnetResolver::Other("https://dns.example/q".to_owned()),
            TailnetResolver::Other(String::new()),
        ])
    );
    assert_eq!(dns.routes.len(), 2);
}

/// JSON of any shape that uses the field names that we read.
fn arbitrary_json() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "Version",
        "BackendState",
        "HaveNodeKey",
        "AuthURL",
        "TailscaleIPs",
        "Self",
        "Health",
        "ID",
        "HostName",
        "Tags",
        "Online",
        "KeyExpiry",
        "ControlURL",
        "RouteAll",
        "CorpDNS",
        "WantRunning",
        "LoggedOut",
        "Hostname",
        "AdvertiseRoutes",
        "OperatorUser",
        "Routes",
        "Proxied",
        "Addr",
        "SessionID",
        "ErrMessage",
        "State",
        "Prefs",
        "Warnings",
        "Text",
        "Warning",
        "Error",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["Running", "192.0.2.0/24", "192.0.2.1", ""])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 12, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..12)
                .prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

fn decode_everything(json: &[u8]) {
    let _ = serde_json::from_slice::<StatusReply>(json).map(DaemonStatus::try_from);
    let _ = serde_json::from_slice::<PrefsReply>(json).map(Prefs::from);
    let _ = serde_json::from_slice::<DnsConfigReply>(json).map(TailnetDns::from);
    let _ = serde_json::from_slice::<WarningReply>(json).map(WarningReply::into_warning);
    let _ = serde_json::from_slice::<Notify>(json).map(Notify::into_events);
    let _ = serde_json::from_slice::<ErrorReply>(json);
}

proptest! {
    #[test]
    fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        decode_everything(&bytes);
    }

    #[test]
    fn no_json_makes_decoding_panic(json in arbitrary_json()) {
        decode_everything(json.to_string().as_bytes());
    }

    /// One field of a real reply replaced by anything.
    #[test]
    fn no_wrong_field_makes_decoding_panic(
        which in 0usize..3,
        field in any::<prop::sample::Index>(),
        value in arbitrary_json(),
    ) {
        let replies = [
            recorded!("status-running"), recorded!("prefs-running"), recorded!("dns-config"),
        ];
        let mut json: serde_json::Map<String, Value> = serde_json::from_str(replies[which]).unwrap();
        let names: Vec<String> = json.keys().cloned().collect();
        json.insert(names[field.index(names.len())].clone(), value);
        decode_everything(Value::Object(json).to_string().as_bytes());
    }
}
