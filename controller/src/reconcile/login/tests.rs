use std::sync::Arc;

use serde_json::json;
use tsunaro_model::report::StatusReport;

use super::super::testing::{Cut, NOW, World, node, running_pod, world};
use super::super::{Agent, Plan};
use super::*;
use crate::headscale::Expiry;

const OURS: &str = "100.64.0.17";

/// What the agent says.
enum Says {
    Runs,
    /// It has asked for a login for so many seconds, for this reason.
    Asks(i64, &'static str),
}

fn says(world: &mut World, says: &Says) {
    let (state, address, status, reason, seconds) = match says {
        Says::Runs => ("Running", Some(OURS), "True", "Running", 0),
        Says::Asks(seconds, reason) => ("NeedsLogin", None, "False", *reason, *seconds),
    };
    let since = world.now - SignedDuration::from_secs(seconds);
    let report: StatusReport = serde_json::from_value(json!({
        "apiVersion": "status.tsunaro.io/v1alpha1", "kind": "GatewayStatus",
        "agent": { "version": "0", "commit": "0", "started": "2026-01-01T00:00:00Z" },
        "phase": "Serving",
        "config": { "path": "c", "generation": 1, "hash": "", "findings": [] },
        "zone": {
            "name": "z", "generation": 1, "serial": 1, "staticNames": 0, "dynamicNames": 0, "overrides": 0,
            "foreignEntries": 0, "skipped": 0, "shadowedNames": [],
        },
        "extraZones": [], "routes": [], "kernelChecks": [],
        "tailnet": {
            "socket": "s", "backendState": state, "version": "1", "addresses": address.into_iter().collect::<Vec<_>>(),
            "hostname": "prod-1-gw", "tags": [], "online": true, "health": [], "login": "", "healings": 0,
        },
        "conditions": [{
            "type": "TailnetReady", "status": status, "reason": reason, "message": "", "lastTransitionTime": since.to_string(),
        }],
    }))
    .unwrap();
    world.snapshot.agent = Agent::Reported(Arc::new(report));
}

/// A gateway that has been running as node 42, with its login an hour and more ago.
fn running() -> World {
    let mut world = World::settled();
    world.snapshot.subject.before.node_id = Some("42".to_owned());
    world.now = NOW + SignedDuration::from_hours(2);
    says(&mut world, &Says::Runs);
    world
}

fn id(text: &str) -> NodeId {
    text.parse().unwrap()
}

fn online(world: &mut World, is: bool) {
    world.change_node(id("42"), |node| node.online = is);
}

fn created(world: &mut World, seconds_ago: i64) {
    let at = world.now - SignedDuration::from_secs(seconds_ago);
    world.change_node(id("42"), |node| node.created = Some(at));
}

fn lose_state(world: &mut World) {
    world.snapshot.state = StateSecret::Ours { login: false };
    online(world, false);
    says(world, &Says::Asks(1, "NeedsLogin"));
}

fn policies(world: &mut World, on_loss: OnGone, on_revoked: OnGone) {
    let identity = &mut world.gateway().identity;
    identity.on_loss = on_loss;
    identity.on_revoked = on_revoked;
}

fn check(what: &str, change: impl FnOnce(&mut World), expected: &Login) {
    let mut world = running();
    change(&mut world);
    assert_eq!(login(&world.snapshot, world.now), *expected, "{what}");
}

#[test]
fn what_three_parties_say_of_a_login_is_one_verdict() {
    type Change = fn(&mut World);
    let lost = || {
        Login::Out(Loss::Lost {
            node: Some(id("42")),
        })
    };
    let cases: [(&str, Change, Login); 21] = [
        ("all well", |_| {}, Login::In),
        ("offline alone is no loss", |w| online(w, false), Login::In),
        (
            "the agent is not heard",
            |w| {
                online(w, false);
                w.snapshot.agent = Agent::Unreachable("x".to_owned());
            },
            Login::In,
        ),
        (
            "the state Secret was emptied, and tailscaled runs on from memory",
            |w| w.snapshot.state = StateSecret::Ours { login: false },
            Login::In,
        ),
        ("state lost", lose_state, lost()),
        (
            "registered a moment ago: not connected, nothing written, and the agent has not heard",
            |w| {
                lose_state(w);
                created(w, 1);
            },
            Login::Waiting,
        ),
        (
            "registered a minute ago, and the state is lost",
            |w| {
                lose_state(w);
                created(w, 60);
            },
            lost(),
        ),
        (
            "state lost, and Headscale has not noticed that the old node is gone",
            |w| {
                lose_state(w);
                online(w, true);
            },
            Login::Waiting,
        ),
        (
            "the node is connected and tailscaled here asks on and on",
            |w| {
                lose_state(w);
                says(w, &Says::Asks(100, "NeedsLogin"));
                online(w, true);
            },
            Login::Out(Loss::KeyTaken { by: id("42") }),
        ),
        (
            "tailscaled starts with a good state",
            |w| {
                online(w, false);
                says(w, &Says::Asks(3, "NeedsLogin"));
            },
            Login::Waiting,
        ),
        (
            "the state is there and worth nothing",
            |w| {
                online(w, false);
                says(w, &Says::Asks(30, "NeedsLogin"));
            },
            lost(),
        ),
        (
            "expired by an administrator",
            |w| {
                let at = w.now;
                w.change_node(id("42"), |node| node.expiry = Expiry::At(at));
                says(w, &Says::Asks(30, "NodeExpired"));
            },
            Login::Out(Loss::Expired { node: id("42") }),
        ),
        (
            "will expire one day",
            |w| {
                let at = w.now + SignedDuration::from_hours(1);
                w.change_node(id("42"), |node| node.expiry = Expiry::At(at));
            },
            Login::In,
        ),
        (
            "deleted by an administrator, which tailscaled does not notice",
            |w| w.list(Vec::new()),
            Login::Out(Loss::Deleted { node: id("42") }),
        ),
        (
            "deleted by us on the way to a new login",
            |w| {
                lose_state(w);
                w.list(Vec::new());
                w.snapshot.notes.renewing = Some(id("42"));
            },
            Login::Out(Loss::Lost { node: None }),
        ),
        (
            "a new key waits to be used",
            |w| {
                lose_state(w);
                w.list(Vec::new());
                w.snapshot.notes.renewing = Some(id("42"));
                hold(w, 3600);
            },
            Login::Waiting,
        ),
        (
            "the key was not used in time",
            |w| {
                lose_state(w);
                w.list(Vec::new());
                hold(w, -1);
            },
            Login::Out(Loss::KeyOver),
        ),
        (
            "the key was expired at Headscale",
            |w| {
                w.list(Vec::new());
                hold(w, 3600);
                w.snapshot.key_fate = Some(KeyFate::Gone);
            },
            Login::Out(Loss::KeyOver),
        ),
        (
            "the key was used by a machine of another name",
            |w| {
                hold(w, 3600);
                w.snapshot.key_fate = Some(KeyFate::Used);
                let mut thief = node(w, "7", Some("9".parse().unwrap()));
                thief.hostname = "laptop".to_owned();
                w.list(vec![thief]);
                says(w, &Says::Asks(5, "LoginRefused"));
            },
            Login::Out(Loss::KeyTaken { by: id("7") }),
        ),
        (
            "the key Secret was replaced, and the login is gone",
            |w| {
                w.snapshot.key = KeySecret::Foreign(None);
                w.list(Vec::new());
            },
            Login::Out(Loss::KeyForeign),
        ),
        (
            "Headscale is away",
            |w| w.snapshot.control = super::super::Control::Unreachable("x".to_owned()),
            Login::Unknown,
        ),
    ];
    for (what, change, expected) in cases {
        check(what, change, &expected);
    }
}

/// A key that expires in so many seconds.
fn hold(world: &mut World, seconds: i64) {
    world.snapshot.key = KeySecret::Holding {
        id: "9".parse().unwrap(),
        expiration: world.now + SignedDuration::from_secs(seconds),
        minted: Vec::new(),
    };
}

#[test]
fn a_lost_state_is_renewed_and_the_old_node_goes_before_the_new_key_comes() {
    let mut world = running();
    lose_state(&mut world);
    let (steps, rest) = world.run();
    assert_eq!(
        steps,
        [
            Step::BeginRenewal(id("42")),
            Step::DeleteNode(id("42")),
            Step::MintKey,
        ]
    );
    assert_eq!(rest, Rest::Settled);
    assert_eq!(
        told(&world.snapshot, world.now).unwrap().reason,
        "Registering"
    );
    log_in(&mut world, "43");
    let (steps, _) = world.run();
    assert_eq!(steps[0], Step::EmptyKey);
    assert_eq!(world.snapshot.notes.renewing, None);
    assert_eq!(world.snapshot.node().unwrap().id, id("43"));
    assert_eq!(world.usable(), 0);
    assert_eq!(world.run().0, []);
}

/// tailscaled logs in with the key in the Secret, as this node.
fn log_in(world: &mut World, as_node: &str) {
    let KeySecret::Holding { id, .. } = world.snapshot.key else {
        panic!("no key to log in with: {:?}", world.snapshot.key);
    };
    let key = world.keys.iter_mut().find(|key| key.id == id).unwrap();
    assert!(!key.used && !key.expired);
    key.used = true;
    world.snapshot.state = StateSecret::Ours { login: true };
    let mut nodes: Vec<_> = world.snapshot.nodes().unwrap().iter().cloned().collect();
    nodes.push(node(world, as_node, Some(id)));
    world.list(nodes);
    world.snapshot.subject.before.node_id = Some(as_node.to_owned());
    says(world, &Says::Runs);
}

#[test]
fn a_missing_state_secret_is_made_again_also_while_tailscaled_runs_from_memory() {
    let mut world = running();
    world.snapshot.state = StateSecret::Missing;
    assert_eq!(world.run().0, [Step::CreateState]);
    policies(&mut world, OnGone::Hold, OnGone::Hold);
    world.snapshot.state = StateSecret::Missing;
    assert_eq!(world.run().0, []);
}

#[test]
fn what_is_held_waits_for_the_command_that_its_message_shows_and_ends_with_it() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, &str); 3] = [
        (
            "lost",
            |w| {
                policies(w, OnGone::Hold, OnGone::Hold);
                lose_state(w);
            },
            "LoginLost",
        ),
        ("deleted", |w| w.list(Vec::new()), "NodeDeleted"),
        (
            "taken",
            |w| {
                policies(w, OnGone::Hold, OnGone::Hold);
                lose_state(w);
                says(w, &Says::Asks(100, "NeedsLogin"));
                online(w, true);
            },
            "KeyUsedElsewhere",
        ),
    ];
    for (what, change, reason) in cases {
        let mut world = running();
        change(&mut world);
        let (steps, rest) = world.run();
        assert_eq!(steps, [], "{what}");
        assert!(matches!(rest, Rest::LoginHeld(_)), "{what}: {rest:?}");
        let words = told(&world.snapshot, world.now).unwrap();
        assert_eq!(words.reason, reason, "{what}");
        let command =
            "kubectl annotate --overwrite tailnetgateway prod-1-gw tsunaro.io/renew-login=";
        let value = words.message.split(command).nth(1).unwrap();
        let value = value.strip_suffix(')').unwrap();
        world.snapshot.subject.renew = Some(value.to_owned());
        let (steps, _) = world.run();
        assert_eq!(steps.last(), Some(&Step::MintKey), "{what}: {steps:?}");
        log_in(&mut world, "43");
        world.run();
        // The next loss is another one: it is held again.
        world.list(Vec::new());
        if what != "taken" {
            assert_eq!(
                world.run().1,
                Rest::LoginHeld(Loss::Deleted { node: id("43") }),
                "{what}"
            );
        }
    }
}

#[test]
fn an_expired_node_names_headscales_own_command_and_is_revived_where_that_is_wanted() {
    let mut world = running();
    let at = world.now;
    world.change_node(id("42"), |node| node.expiry = Expiry::At(at));
    let (steps, rest) = world.run();
    assert_eq!(
        (steps, rest),
        (vec![], Rest::LoginHeld(Loss::Expired { node: id("42") }))
    );
    let message = told(&world.snapshot, world.now).unwrap().message;
    assert!(
        message.ends_with("(headscale nodes expire --identifier 42 --disable)"),
        "{message}"
    );
    policies(&mut world, OnGone::Hold, OnGone::Renew);
    assert_eq!(
        world.run(),
        (vec![Step::ReviveNode(id("42"))], Rest::Settled)
    );
    assert_eq!(world.usable(), 0);
}

#[test]
fn an_expiry_that_was_taken_back_is_no_loss_while_tailscaled_has_not_heard() {
    for is_online in [true, false] {
        let mut world = running();
        says(&mut world, &Says::Asks(3600, "NodeExpired"));
        online(&mut world, is_online);
        assert_eq!(world.run().0, [], "online: {is_online}");
    }
}

#[test]
fn a_thief_is_noted_and_told_and_the_gateway_logs_in_with_another_key() {
    let mut world = world();
    world.run();
    world.snapshot.pod = Some(running_pod());
    let KeySecret::Holding { id: stolen, .. } = world.snapshot.key else {
        panic!("no key");
    };
    world.keys[0].used = true;
    // The thief took our host name too.
    let mut thief = node(&world, "7", Some(stolen));
    thief.addresses = vec!["100.64.0.99".parse().unwrap()];
    world.list(vec![thief]);
    says(&mut world, &Says::Asks(100, "LoginRefused"));
    world.snapshot.key_fate = Some(KeyFate::Used);
    let (steps, rest) = world.run();
    assert_eq!(
        steps,
        [
            Step::NoteStranger(id("7")),
            Step::MintKey,
            Step::RefreshMounts
        ]
    );
    assert_eq!(rest, Rest::Settled);
    let said = strangers(&world.snapshot).unwrap();
    assert!(
        said.contains("headscale nodes delete --identifier 7"),
        "{said}"
    );
    log_in(&mut world, "8");
    world.run();
    assert_eq!(world.snapshot.node().unwrap().id, id("8"));
    // Deleted by its administrator: nothing is left to tell.
    let ours = world.snapshot.node().unwrap().clone();
    world.list(vec![ours]);
    assert_eq!(strangers(&world.snapshot), None);
    assert_eq!(login(&world.snapshot, world.now), Login::In);
}

#[test]
fn three_keys_an_hour_are_the_most_whoever_deletes_the_secret_and_whatever_else_goes_on() {
    let mut world = running();
    for lost in 0..6 {
        lose_or_delete(&mut world, lost);
        world.run();
        let minted = world.keys.len() - 1;
        assert!(minted <= 3, "{minted} keys within an hour");
        if let KeySecret::Holding { .. } = world.snapshot.key {
            log_in(&mut world, &(50 + lost).to_string());
            world.run();
        }
    }
    let (steps, rest) = world.run();
    assert_eq!(steps, []);
    assert!(matches!(rest, Rest::MintLimit(_)), "{rest:?}");
    // The limit holds back keys, and nothing else.
    world.child(super::super::Kind::Service).live = None;
    let service = Step::Apply(super::super::Kind::Service);
    assert_eq!(world.plan(), Plan::Do(service));
    world.run();
    world.now += SignedDuration::from_secs(3601);
    says(&mut world, &Says::Asks(30, "NeedsLogin"));
    assert!(world.run().0.contains(&Step::MintKey));
}

fn lose_or_delete(world: &mut World, round: usize) {
    world.now += SignedDuration::from_secs(60);
    if round % 2 == 1 {
        // As a clean-up job would; the controller remembers.
        world.snapshot.notes.minted = world.snapshot.minted_lately(world.now);
        world.snapshot.key = KeySecret::Missing;
        world.snapshot.notes.renewing = None;
    }
    world.snapshot.state = StateSecret::Ours { login: false };
    if let Some(id) = world.snapshot.node().map(|node| node.id) {
        world.change_node(id, |node| node.online = false);
    }
    says(world, &Says::Asks(30, "NeedsLogin"));
}

#[test]
fn a_node_of_another_name_is_not_taken_for_ours_nor_deleted_whatever_its_numbers() {
    // Headscale was set up anew: its first nodes and keys have the numbers of ours.
    let mut world = running();
    world.change_node(id("42"), |node| node.hostname = "laptop".to_owned());
    assert_eq!(world.snapshot.node(), None);
    let lost = Login::Out(Loss::Deleted { node: id("42") });
    assert_eq!(login(&world.snapshot, world.now), lost);
    world.snapshot.subject.renew = Some("42".to_owned());
    let (steps, _) = world.run();
    assert_eq!(steps, [Step::BeginRenewal(id("42")), Step::MintKey]);
}

#[test]
fn a_controller_that_dies_at_any_write_of_a_renewal_ends_it_the_same() {
    for cut_step in 0..4 {
        for cut in [Cut::After(1), Cut::After(2), Cut::Never] {
            let mut world = running();
            lose_state(&mut world);
            for number in 0..=cut_step {
                if let Plan::Do(step) = world.plan() {
                    let cut = if number == cut_step { cut } else { Cut::Never };
                    world.carry_out(&step, cut);
                }
            }
            // The next one begins with what is written.
            let (_, rest) = world.run();
            assert_eq!(rest, Rest::Settled, "{cut_step} {cut:?}");
            assert_eq!(world.usable(), 1, "{cut_step} {cut:?}");
            assert_eq!(world.most_usable, 1, "{cut_step} {cut:?}");
            assert!(world.snapshot.nodes().unwrap().is_empty());
            log_in(&mut world, "43");
            world.run();
            assert_eq!(world.snapshot.node().unwrap().id, id("43"));
        }
    }
}

#[test]
fn a_name_with_a_suffix_is_told_with_the_command_that_ends_it() {
    let mut world = running();
    let mut other = node(&world, "7", None);
    other.hostname = "prod-1-gw".to_owned();
    world.change_node(id("42"), |node| node.given_name = "prod-1-gw-1".to_owned());
    let ours = world.snapshot.node().unwrap().clone();
    world.list(vec![other, ours.clone()]);
    let said = remarks(&world.snapshot);
    assert!(
        said.contains("prod-1-gw-1") && said.contains("headscale nodes delete --identifier 7"),
        "{said}"
    );
    world.list(vec![ours]);
    let said = remarks(&world.snapshot);
    assert!(
        said.contains("headscale nodes rename --identifier 42 prod-1-gw"),
        "{said}"
    );
}
