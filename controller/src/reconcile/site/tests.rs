use super::super::testing::World;
use super::*;

fn site(prefixes: &[&str]) -> Site {
    Site {
        name: "prod-1-lan".to_owned(),
        tailnet: "corp".to_owned(),
        prefixes: prefixes.iter().map(|text| text.parse().unwrap()).collect(),
        owner: None,
        description: None,
        advertised_by: Vec::new(),
    }
}

/// `status/reason` of the three, for a node changed so.
fn check(prefixes: &[&str], change: impl FnOnce(&mut Node), expected: [&str; 3]) {
    let world = World::settled();
    let mut node = world.snapshot.node().unwrap().clone();
    change(&mut node);
    let nodes = NodeList::new(vec![node]);
    let tailnet = world.snapshot.tailnet.as_ref().unwrap();
    let said = judge_site(&site(prefixes), tailnet, Ok(&nodes), None);
    let short = said.map(|said| format!("{}/{}", said.status, said.reason));
    assert_eq!(short, expected, "{prefixes:?}");
}

#[test]
fn a_site_is_ready_when_a_node_with_the_tag_serves_all_of_it() {
    let all = ["True/Advertised", "True/Approved", "True/Ready"];
    check(&["192.0.2.0/24"], |_| {}, all);
    // Part of what is advertised.
    check(&["192.0.2.128/25"], |_| {}, all);
    let nothing = [
        "False/NotAdvertised",
        "False/PendingApproval",
        "False/NotAdvertised",
    ];
    check(&["192.0.2.0/24", "203.0.113.0/24"], |_| {}, nothing);
    check(&["192.0.2.0/24"], |node| node.tags.clear(), nothing);
    check(
        &["192.0.2.0/24"],
        |node| node.approved.clear(),
        [
            "True/Advertised",
            "False/PendingApproval",
            "False/PendingApproval",
        ],
    );
    check(
        &["192.0.2.0/24"],
        |node| node.serving.clear(),
        ["True/Advertised", "True/Approved", "False/NotServing"],
    );
}

#[test]
fn without_headscale_nothing_is_known_and_an_overlap_is_told_first() {
    let world = World::settled();
    let tailnet = world.snapshot.tailnet.as_ref().unwrap();
    let said = judge_site(&site(&["192.0.2.0/24"]), tailnet, Err("away"), None);
    assert!(
        said.iter()
            .all(|said| said.status == "Unknown" && said.message.contains("away"))
    );
    let nodes = world.snapshot.nodes().unwrap();
    let other = Some("TailnetSite old has 192.0.2.0/25 too");
    let said = judge_site(&site(&["192.0.2.0/24"]), tailnet, Ok(nodes), other);
    assert_eq!(said[2].reason, "Overlaps");
    assert!(
        said[2].message.starts_with("TailnetSite old has"),
        "{}",
        said[2].message
    );
}
