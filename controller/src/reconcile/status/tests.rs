use jiff::SignedDuration;
use serde_json::json;

use super::super::testing::{NOW, World, running_pod, world};
use super::super::{Agent, Block, Control, Kind, StateSecret, Unresolved};
use super::*;
use crate::crd::RouteStatus;
use crate::headscale::Expiry;

fn judge_at(world: &World, outcome: &Outcome, memory: &mut Memory, seconds: i64) -> Verdict {
    judge(
        &Judgement {
            snapshot: &world.snapshot,
            outcome,
            namespace: "tsunaro-system",
            now: NOW + SignedDuration::from_secs(seconds),
        },
        memory,
    )
}

fn verdict(world: &World) -> Verdict {
    let outcome = Outcome::Rest(world.clone().run().1);
    judge_at(world, &outcome, &mut Memory::default(), 0)
}

fn of<'v>(verdict: &'v Verdict, kind: &str) -> &'v Condition {
    verdict
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind)
        .unwrap()
}

fn short(verdict: &Verdict, kind: &str) -> String {
    let condition = of(verdict, kind);
    format!("{}/{}", condition.status, condition.reason)
}

#[test]
fn a_gateway_that_runs_says_what_the_contract_shows() {
    let verdict = verdict(&World::settled());
    let all: Vec<String> = verdict
        .status
        .conditions
        .iter()
        .map(|c| format!("{}={}/{}", c.type_, c.status, c.reason))
        .collect();
    assert_eq!(
        all,
        [
            "Ready=True/FreshRuntimeReady",
            "Accepted=True/Accepted",
            "ResolvedRefs=True/Resolved",
            "RoutesInSync=True/Approved",
            "WorkloadCurrent=True/PodCurrent",
            "ServiceReady=True/LoadBalancerAssigned",
            "DNSReady=Unknown/NoPod",
            "ClusterDNSForward=Unknown/ExternallyManaged",
            "StaleNodes=Unknown/ExternallyManaged",
        ]
    );
    let status = &verdict.status;
    assert_eq!(status.node_id.as_deref(), Some("42"));
    assert_eq!(status.ipv4.as_deref(), Some("100.64.0.17"));
    assert_eq!(status.service_ip.as_deref(), Some("198.51.100.17"));
    assert_eq!(status.routes_serving.as_deref(), Some("3/3"));
    assert!(
        status
            .conditions
            .iter()
            .all(|c| c.observed_generation == Some(1))
    );
    assert!(!verdict.unsettled);
}

#[test]
fn what_was_said_is_said_again_byte_by_byte_and_tells_no_event() {
    let mut world = World::settled();
    let first = verdict(&world);
    world.snapshot.subject.before = first.status.clone();
    let outcome = Outcome::Rest(Rest::Settled);
    let later = judge_at(&world, &outcome, &mut Memory::default(), 3600);
    assert_eq!(later.status, first.status);
    assert_eq!(later.transitions, []);
}

#[test]
fn each_trouble_has_its_reason() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, &str, &str); 13] = [
        (
            "no Pod",
            |world| world.snapshot.pod = None,
            "Ready",
            "False/NoPod",
        ),
        (
            "Pod not ready",
            |world| world.snapshot.pod.as_mut().unwrap().ready = false,
            "Ready",
            "False/PodNotReady",
        ),
        (
            "node gone",
            |world| {
                world.snapshot.subject.before.node_id = Some("42".to_owned());
                world.list(Vec::new());
            },
            "Ready",
            "False/NodeDeleted",
        ),
        (
            "node not there yet",
            |world| world.list(Vec::new()),
            "Ready",
            "False/Registering",
        ),
        (
            "node offline",
            |world| world.change_node("42".parse().unwrap(), |node| node.online = false),
            "Ready",
            "False/NodeOffline",
        ),
        (
            "node expired",
            |world| {
                world.change_node("42".parse().unwrap(), |node| {
                    node.online = false;
                    node.expiry = Expiry::At(NOW);
                });
            },
            "Ready",
            "False/NodeExpired",
        ),
        (
            "not advertised",
            |world| world.change_node("42".parse().unwrap(), |node| node.advertised.clear()),
            "RoutesInSync",
            "False/NotAdvertised",
        ),
        (
            "more advertised than wanted",
            |world| {
                world.change_node("42".parse().unwrap(), |node| {
                    node.advertised.insert("203.0.113.0/24".parse().unwrap());
                });
            },
            "RoutesInSync",
            "False/UnwantedAdvertised",
        ),
        (
            "not approved",
            |world| world.change_node("42".parse().unwrap(), |node| node.approved.clear()),
            "RoutesInSync",
            "False/PendingApproval",
        ),
        (
            "not served",
            |world| world.change_node("42".parse().unwrap(), |node| node.serving.clear()),
            "RoutesInSync",
            "False/NotServing",
        ),
        (
            "template changed",
            |world| {
                world.child(Kind::StatefulSet).live.as_mut().unwrap()["status"]["updateRevision"] =
                    json!("r2");
            },
            "WorkloadCurrent",
            "False/PodTemplateStale",
        ),
        (
            "no load balancer",
            |world| world.child(Kind::Service).live.as_mut().unwrap()["status"] = json!({}),
            "ServiceReady",
            "False/LBPending",
        ),
        (
            "agent away",
            |world| world.snapshot.agent = Agent::Unreachable("timed out".to_owned()),
            "DNSReady",
            "Unknown/AgentUnreachable",
        ),
    ];
    for (name, change, kind, expected) in cases {
        let mut world = World::settled();
        change(&mut world);
        assert_eq!(short(&verdict(&world), kind), expected, "{name}");
    }
}

#[test]
fn a_standby_whose_routes_are_approved_is_approved() {
    let mut world = World::settled();
    let ours = world.snapshot.node().unwrap().clone();
    let mut primary = ours.clone();
    primary.id = "41".parse().unwrap();
    primary.given_name = "prod-1-old".to_owned();
    primary.hostname = "prod-1-old".to_owned();
    primary.key = None;
    let mut standby = ours;
    standby.serving.clear();
    world.list(vec![primary, standby]);
    let verdict = verdict(&world);
    assert_eq!(short(&verdict, "RoutesInSync"), "True/Approved");
    let route = &verdict.status.routes[0];
    assert!(!route.serving);
    assert_eq!(route.served_by.as_deref(), Some("prod-1-old"));
}

#[test]
fn missing_lines_of_the_policy_are_in_the_condition() {
    let mut world = World::settled();
    world.change_node("42".parse().unwrap(), |node| node.approved.clear());
    let policy = json!({ "tagOwners": { "tag:fabric": [] } });
    world.snapshot.policy = Some(std::sync::Arc::new(policy));
    let verdict = verdict(&world);
    let message = &of(&verdict, "RoutesInSync").message;
    assert!(
        message.contains(r#"{"autoApprovers":{"routes":{"10.0.10.20/32":["tag:fabric"],"192.0.2.0/24":["tag:fabric"],"#),
        "{message}"
    );
    assert!(!message.contains("tagOwners"), "{message}");
}

#[test]
fn before_its_creation_the_reason_is_why_it_does_not_begin() {
    let rests = [
        (Rest::Suspended, "False/Suspended"),
        (
            Rest::Unresolved(Unresolved::NoTailnet),
            "False/TailnetNotFound",
        ),
        (
            Rest::Unresolved(Unresolved::NoApiKey("x".to_owned())),
            "False/APIKeyInvalid",
        ),
        (
            Rest::Unresolved(Unresolved::Unreachable("x".to_owned())),
            "False/HeadscaleUnreachable",
        ),
        (
            Rest::Blocked(Block::Key { owner: None }),
            "False/FreshBlocked",
        ),
        (Rest::MintLimit(NOW), "False/MintLimit"),
    ];
    for (rest, expected) in rests {
        let outcome = Outcome::Rest(rest);
        let verdict = judge_at(&world(), &outcome, &mut Memory::default(), 0);
        assert_eq!(short(&verdict, "Ready"), expected);
        assert_eq!(verdict.status.routes_serving, None);
    }
}

#[test]
fn a_failed_write_shows_in_ready_before_and_in_the_workload_after_the_creation() {
    let outcome = Outcome::Failed(Failure {
        of: FailureOf::Kubernetes,
        message: "Service prod-1-gw-dns: provided IP is already allocated".to_owned(),
    });
    let mut memory = Memory::default();
    let before = judge_at(&world(), &outcome, &mut memory, 0);
    assert_eq!(short(&before, "Ready"), "False/ApplyFailed");
    let after = judge_at(&World::settled(), &outcome, &mut memory, 0);
    assert_eq!(short(&after, "Ready"), "True/FreshRuntimeReady");
    assert_eq!(short(&after, "WorkloadCurrent"), "False/ApplyFailed");
}

#[test]
fn a_reconnect_is_no_outage_and_an_outage_is_told_after_its_grace() {
    let mut world = World::settled();
    world.snapshot.subject.before = verdict(&world).status;
    world.change_node("42".parse().unwrap(), |node| node.online = false);
    let outcome = Outcome::Rest(Rest::Settled);
    let mut memory = Memory::default();
    let at =
        |world: &World, memory: &mut Memory, seconds| judge_at(world, &outcome, memory, seconds);
    let first = at(&world, &mut memory, 100);
    assert_eq!(short(&first, "Ready"), "True/FreshRuntimeReady");
    assert_eq!(first.again, Some(Duration::from_secs(30)));
    assert_eq!(
        short(&at(&world, &mut memory, 129), "Ready"),
        "True/FreshRuntimeReady"
    );
    assert_eq!(
        short(&at(&world, &mut memory, 130), "Ready"),
        "False/NodeOffline"
    );
    // A good moment begins the wait again.
    memory = Memory::default();
    at(&world, &mut memory, 200);
    let good = World::settled();
    let mut good_again = good;
    good_again.snapshot.subject.before = world.snapshot.subject.before.clone();
    at(&good_again, &mut memory, 210);
    assert_eq!(
        short(&at(&world, &mut memory, 235), "Ready"),
        "True/FreshRuntimeReady"
    );
}

#[test]
fn after_a_change_of_the_spec_nothing_old_is_kept_as_true() {
    let mut world = World::settled();
    world.snapshot.subject.before = verdict(&world).status;
    world.snapshot.subject.generation = 2;
    world.change_node("42".parse().unwrap(), |node| node.advertised.clear());
    let outcome = Outcome::Rest(Rest::Settled);
    let verdict = judge_at(&world, &outcome, &mut Memory::default(), 0);
    assert_eq!(short(&verdict, "Ready"), "False/NotAdvertised");
    assert_eq!(verdict.status.observed_generation, Some(2));
    assert!(verdict.unsettled);
}

#[test]
fn headscale_away_leaves_ready_to_what_the_cluster_shows() {
    let mut world = World::settled();
    world.snapshot.subject.before = verdict(&world).status;
    world.snapshot.control = Control::Unreachable("connection refused".to_owned());
    let outcome = Outcome::Rest(Rest::Settled);
    let mut memory = Memory::default();
    judge_at(&world, &outcome, &mut memory, 0);
    let verdict = judge_at(&world, &outcome, &mut memory, 61);
    assert_eq!(short(&verdict, "Ready"), "True/FreshRuntimeReady");
    assert_eq!(
        short(&verdict, "RoutesInSync"),
        "Unknown/HeadscaleUnreachable"
    );
    assert_eq!(verdict.status.node_id.as_deref(), Some("42"));
    assert!(verdict.status.routes.iter().all(|route| route.approved));
}

#[test]
fn a_transition_is_told_once() {
    let mut world = World::settled();
    world.snapshot.subject.before = verdict(&world).status;
    world.snapshot.pod.as_mut().unwrap().revision = Some("r0".to_owned());
    let first = verdict(&world);
    let told: Vec<&str> = first
        .transitions
        .iter()
        .map(|c| c.reason.as_str())
        .collect();
    assert_eq!(told, ["PodTemplateStale"]);
    world.snapshot.subject.before = first.status;
    assert_eq!(verdict(&world).transitions, []);
}

#[test]
fn a_deletion_says_what_it_waits_for() {
    let mut world = World::settled();
    world.snapshot.subject.deleting = true;
    world.snapshot.state = StateSecret::Missing;
    world.snapshot.pod = Some(running_pod());
    for (rest, expected) in [
        (Rest::PodEnding, "False/Deleting"),
        (
            Rest::DeletionBlocked("Headscale is away".to_owned()),
            "False/DeletionBlocked",
        ),
    ] {
        let verdict = judge_at(&world, &Outcome::Rest(rest), &mut Memory::default(), 0);
        assert_eq!(short(&verdict, "Ready"), expected);
    }
}

/// The command replaces what is approved: all of it, or none.
#[test]
fn a_command_that_a_message_has_no_room_for_is_not_given_by_half() {
    let world = World::settled();
    let check = |count: u16, whole: bool| {
        let all: Vec<RouteStatus> = (0..count)
            .map(|n| RouteStatus {
                prefix: format!("100.{}.{}.128/25", 64 + n / 256, n % 256),
                wanted: true,
                advertised: true,
                approved: false,
                serving: false,
                served_by: None,
            })
            .collect();
        let said = routes::in_sync(&world.snapshot, &all);
        let message = finished(said, None, 1, NOW).message;
        let last = &all.last().unwrap().prefix;
        let given = message.contains("approve-routes");
        assert_eq!(given, whole, "{message}");
        assert_eq!(message.contains(&format!("{last})")), whole, "{message}");
        if !whole {
            assert!(message.starts_with(&format!("{count} prefixes are not approved")));
        }
    };
    check(1, true);
    check(600, true);
    check(1000, false);
    check(4096, false);
}
