use jiff::SignedDuration;
use proptest::prelude::*;

use super::super::testing::{Cut, UID, World, foreign, node, running_pod, world};
use super::*;
use crate::crd::DeletionPolicy;
use crate::reconcile::{KeySecret, Receipt};

const OTHER: &str = "0e8dd5a5-0000-4000-8000-000000000002";

#[test]
fn a_gateway_is_created_in_the_order_of_the_contract() {
    let mut world = world();
    let (steps, rest) = world.run();
    let key = world.snapshot.key.id();
    let mut expected = vec![
        Step::AddFinalizer,
        Step::Pin,
        Step::CreateState,
        Step::MintKey,
    ];
    expected.extend(Kind::ALL.map(Step::Apply));
    expected.push(Step::WriteReceipt(key));
    assert_eq!(steps, expected);
    assert_eq!(rest, Rest::Settled);
}

#[test]
fn after_the_login_the_key_is_emptied_and_then_nothing_is_written_any_more() {
    let mut world = world();
    world.run();
    world.pod_starts();
    let (steps, rest) = world.run();
    assert_eq!(steps, [Step::EmptyKey, Step::RefreshMounts]);
    assert_eq!(rest, Rest::Settled);
    assert_eq!(world.run().0, []);
    assert_eq!(world.usable(), 0);
}

#[test]
fn nothing_is_written_while_something_is_missing_wrong_or_suspended() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, Rest); 7] = [
        (
            "suspended",
            |world| world.gateway().suspend = true,
            Rest::Suspended,
        ),
        (
            "invalid",
            |world| world.snapshot.spec = Spec::Invalid("no".to_owned()),
            Rest::Invalid,
        ),
        (
            "no tailnet",
            |world| world.snapshot.control = Control::NoTailnet,
            Rest::Unresolved(Unresolved::NoTailnet),
        ),
        (
            "bad tailnet",
            |world| world.snapshot.control = Control::BadTailnet("x".to_owned()),
            Rest::Unresolved(Unresolved::BadTailnet("x".to_owned())),
        ),
        (
            "no key",
            |world| world.snapshot.control = Control::NoApiKey("x".to_owned()),
            Rest::Unresolved(Unresolved::NoApiKey("x".to_owned())),
        ),
        (
            "away",
            |world| world.snapshot.control = Control::Unreachable("x".to_owned()),
            Rest::Unresolved(Unresolved::Unreachable("x".to_owned())),
        ),
        (
            "blocked",
            |world| {
                world.snapshot.state = StateSecret::Foreign {
                    owner: None,
                    empty: true,
                };
            },
            Rest::Blocked(Block::State {
                owner: None,
                empty: true,
            }),
        ),
    ];
    for (name, change, expected) in cases {
        let mut world = world();
        change(&mut world);
        assert_eq!(world.plan(), Plan::Rest(expected), "{name}");
    }
}

#[test]
fn each_cause_blocks_a_fresh_gateway_and_says_what_was_found_and_what_to_do() {
    type Change = fn(&mut World);
    let cases: [(&str, Change, &[&str]); 8] = [
        (
            "a state Secret with an identity",
            |world| {
                world.snapshot.state = StateSecret::Foreign {
                    owner: None,
                    empty: false,
                };
            },
            &[
                "Secret tsunaro-system/prod-1-gw-state",
                "holds an identity",
                "delete secret",
            ],
        ),
        (
            "a state Secret of an earlier gateway",
            |world| {
                world.snapshot.state = StateSecret::Foreign {
                    owner: Some(OTHER.to_owned()),
                    empty: true,
                };
            },
            &["is empty", OTHER, "delete secret prod-1-gw-state"],
        ),
        (
            "a key Secret",
            |world| world.snapshot.key = KeySecret::Foreign(None),
            &["prod-1-gw-authkey", "delete secret"],
        ),
        (
            "a receipt",
            |world| world.snapshot.receipt = Receipt::Foreign(Some(OTHER.to_owned())),
            &[
                "receipt tsunaro-system/prod-1-gw-fresh",
                OTHER,
                "delete configmap",
            ],
        ),
        (
            "a Service of somebody",
            |world| {
                let child = world.child(Kind::DnsService);
                child.live = Some(foreign(child, None));
            },
            &[
                "Service tsunaro-system/prod-1-gw-dns",
                "not made by this controller",
            ],
        ),
        (
            "a StatefulSet of an earlier gateway",
            |world| {
                let child = world.child(Kind::StatefulSet);
                child.live = Some(foreign(child, Some(OTHER)));
            },
            &["StatefulSet", OTHER],
        ),
        (
            "a node",
            |world| {
                let mut found = node(world, "7", None);
                found.online = false;
                world.list(vec![found]);
            },
            &[
                "node prod-1-gw (id 7, offline)",
                "headscale nodes delete --identifier 7",
            ],
        ),
        (
            "a node that logged in with another key, in other letters",
            |world| {
                let mut found = node(world, "8", Some("99".parse().unwrap()));
                found.hostname = "PROD-1-GW".to_owned();
                world.list(vec![found]);
            },
            &["id 8, online"],
        ),
    ];
    for (name, change, words) in cases {
        let mut world = world();
        change(&mut world);
        let Plan::Rest(Rest::Blocked(block)) = world.plan() else {
            panic!("{name}: {:?}", world.plan());
        };
        let names = crate::render::Names::of(world.gateway());
        let sentence = block.sentence(&names, "tsunaro-system");
        for word in words {
            assert!(sentence.contains(word), "{name}: {sentence}");
        }
    }
}

#[test]
fn a_running_gateway_is_not_blocked_by_what_appears_later_at_headscale() {
    let mut world = World::settled();
    let ours = world.snapshot.node().unwrap().clone();
    let later = node(&world, "50", None);
    world.list(vec![ours, later]);
    assert_eq!(world.plan(), Plan::Rest(Rest::Settled));
    assert_eq!(world.snapshot.node().unwrap().id.to_string(), "42");
}

#[test]
fn headscale_away_takes_nothing_back_and_objects_are_still_put_right() {
    let mut world = World::settled();
    world.snapshot.control = Control::Unreachable("refused".to_owned());
    assert_eq!(world.plan(), Plan::Rest(Rest::Settled));
    world.child(Kind::Role).live.as_mut().unwrap()["rules"][0]["verbs"] =
        serde_json::json!(["get"]);
    assert_eq!(world.plan(), Plan::Do(Step::Apply(Kind::Role)));
}

#[test]
fn an_object_that_vanished_or_was_changed_is_applied_again_and_only_that_one() {
    for kind in Kind::ALL {
        let mut world = World::settled();
        world.child(kind).live = None;
        assert_eq!(world.run().0, [Step::Apply(kind)]);
    }
}

#[test]
fn a_key_that_expired_unused_is_replaced_and_at_most_three_are_minted_in_an_hour() {
    let mut world = world();
    world.run();
    let first = world.now;
    for _ in 0..2 {
        let KeySecret::Holding { id, minted, .. } = world.snapshot.key.clone() else {
            panic!("{:?}", world.snapshot.key);
        };
        world.snapshot.key = KeySecret::Holding {
            id,
            expiration: world.now,
            minted,
        };
        world.keys.iter_mut().for_each(|key| key.expired = true);
        world.now += SignedDuration::from_secs(1);
        assert_eq!(world.run().0, [Step::MintKey]);
    }
    let minted = world.snapshot.key.minted_lately(world.now);
    world.snapshot.key = KeySecret::Idle { minted };
    let hour = first + SignedDuration::from_hours(1);
    assert_eq!(world.plan(), Plan::Rest(Rest::MintLimit(hour)));
    world.now = hour;
    assert_eq!(world.plan(), Plan::Do(Step::MintKey));
}

#[test]
fn a_login_that_is_there_needs_no_key_even_if_the_key_secret_is_gone() {
    let mut world = World::settled();
    world.snapshot.key = KeySecret::Missing;
    assert_eq!(world.plan(), Plan::Rest(Rest::Settled));
    world.snapshot.control = Control::Listed(std::sync::Arc::default());
    assert_eq!(world.plan(), Plan::Rest(Rest::Settled));
}

#[test]
fn approvals_are_made_where_the_policy_is_ours_and_keep_what_an_administrator_approved() {
    let mut world = World::settled();
    let id = world.snapshot.node().unwrap().id;
    let extra: IpNet = "203.0.113.0/24".parse().unwrap();
    world.change_node(id, |node| node.approved = BTreeSet::from([extra]));
    assert_eq!(world.plan(), Plan::Rest(Rest::Settled));
    world.snapshot.tailnet.as_mut().unwrap().policy = gateway::Policy::Apply { base: None };
    let mut all = world.snapshot.node().unwrap().advertised.clone();
    all.insert(extra);
    assert_eq!(world.run().0, [Step::ApproveRoutes(id, all)]);
    // What is not advertised is not approved ahead.
    world.change_node(id, |node| {
        node.advertised.clear();
        node.approved.clear();
    });
    assert_eq!(world.plan(), Plan::Rest(Rest::Settled));
}

#[test]
fn retain_only_lets_the_object_go() {
    let mut world = World::settled();
    world.snapshot.subject.deleting = true;
    for control in [Control::NoTailnet, Control::Unreachable("x".to_owned())] {
        let mut world = world.clone();
        world.snapshot.control = control;
        assert_eq!(world.run(), (vec![Step::RemoveFinalizer], Rest::Gone));
    }
}

#[test]
fn delete_takes_everything_in_an_order_that_leaves_no_orphan() {
    let mut world = World::settled();
    world.snapshot.subject.deleting = true;
    world.snapshot.subject.deletion_policy = DeletionPolicy::Delete;
    let (steps, rest) = world.run();
    let mut expected = vec![
        Step::Delete(Kind::StatefulSet),
        Step::DeleteNode("42".parse().unwrap()),
    ];
    expected.extend(Kind::ALL.into_iter().rev().skip(1).map(Step::Delete));
    expected.extend([
        Step::DeleteKey,
        Step::DeleteState,
        Step::DeleteReceipt,
        Step::RemoveFinalizer,
    ]);
    assert_eq!(steps, expected);
    assert_eq!(rest, Rest::Gone);
}

#[test]
fn the_deletion_waits_for_the_pod_and_for_headscale_and_a_person_can_let_go() {
    let mut world = World::settled();
    world.snapshot.subject.deleting = true;
    world.snapshot.subject.deletion_policy = DeletionPolicy::Delete;
    world.child(Kind::StatefulSet).live = None;
    assert_eq!(world.plan(), Plan::Rest(Rest::PodEnding));
    world.snapshot.pod = None;
    let listed = std::mem::replace(
        &mut world.snapshot.control,
        Control::Unreachable("connection refused".to_owned()),
    );
    let Plan::Rest(Rest::DeletionBlocked(why)) = world.plan() else {
        panic!("{:?}", world.plan());
    };
    assert!(
        why.contains("connection refused") && why.contains("tsunaro.io/forget-node=true"),
        "{why}"
    );
    let mut forgetful = world.clone();
    forgetful.snapshot.subject.forget_node = true;
    assert_eq!(forgetful.run().1, Rest::Gone);
    world.snapshot.control = listed;
    assert_eq!(world.run().1, Rest::Gone);
}

#[test]
fn delete_leaves_alone_what_is_not_this_gateways() {
    let mut world = world();
    world.snapshot.subject.deleting = true;
    world.snapshot.subject.finalizer = true;
    world.snapshot.subject.deletion_policy = DeletionPolicy::Delete;
    world.snapshot.state = StateSecret::Foreign {
        owner: None,
        empty: false,
    };
    world.snapshot.key = KeySecret::Foreign(None);
    world.snapshot.receipt = Receipt::Foreign(None);
    world.snapshot.pod = Some(running_pod());
    for kind in Kind::ALL {
        let child = world.child(kind);
        child.live = Some(foreign(child, Some(OTHER)));
    }
    let theirs = node(&world, "7", None);
    world.list(vec![theirs]);
    assert_eq!(world.run(), (vec![Step::RemoveFinalizer], Rest::Gone));
}

#[test]
fn the_node_goes_although_receipt_and_keys_are_gone_already() {
    let mut world = World::settled();
    let id = world.snapshot.node().unwrap().id;
    world.snapshot.subject.before.node_id = Some(id.to_string());
    world.snapshot.subject.deleting = true;
    world.snapshot.subject.deletion_policy = DeletionPolicy::Delete;
    world.snapshot.pod = None;
    world.snapshot.state = StateSecret::Missing;
    world.snapshot.key = KeySecret::Missing;
    world.snapshot.receipt = Receipt::Missing;
    for kind in Kind::ALL {
        world.child(kind).live = None;
    }
    let (steps, rest) = world.run();
    assert_eq!(steps, [Step::DeleteNode(id), Step::RemoveFinalizer]);
    assert_eq!(rest, Rest::Gone);
}

#[test]
fn a_key_whose_secret_was_deleted_goes_with_its_gateway_although_nothing_else_was_made() {
    let mut world = world();
    while world.keys.is_empty() {
        let Plan::Do(step) = world.plan() else {
            panic!("no key was minted");
        };
        world.carry_out(&step, Cut::Never);
    }
    world.snapshot.notes.strays = world.keys.iter().map(|key| key.expiration).collect();
    world.snapshot.key = KeySecret::Missing;
    world.snapshot.subject.deleting = true;
    world.snapshot.subject.deletion_policy = DeletionPolicy::Delete;
    let (steps, rest) = world.run();
    assert!(steps.contains(&Step::ExpireStrays), "{steps:?}");
    assert_eq!((rest, world.usable()), (Rest::Gone, 0));
}

#[test]
fn a_suspended_gateway_is_not_torn_down_behind_its_back() {
    let mut world = World::settled();
    world.gateway().suspend = true;
    assert_eq!(world.plan(), Plan::Rest(Rest::Suspended));
    world.snapshot.subject.deleting = true;
    world.snapshot.subject.deletion_policy = DeletionPolicy::Delete;
    assert!(matches!(
        world.plan(),
        Plan::Rest(Rest::DeletionBlocked(why)) if why.contains("suspend")
    ));
}

/// Runs to a rest, losing the process after some of the writes.
fn run_with_kills(world: &mut World, kills: &mut impl Iterator<Item = Cut>) -> Rest {
    for _ in 0..200 {
        match world.plan() {
            Plan::Rest(rest) => return rest,
            Plan::Do(step) => {
                world.carry_out(&step, kills.next().unwrap_or(Cut::Never));
                assert!(world.usable() <= 1, "{:?}", world.keys);
                // A key that may be minted in an hour's time is as good as one now.
                world.now += SignedDuration::from_mins(21);
            }
        }
    }
    panic!("no end");
}

proptest! {
    #[test]
    fn killed_anywhere_it_ends_the_same_with_one_usable_key_at_most(
        kills in proptest::collection::vec(0_u8..4, 0..12),
        kills_of_deletion in proptest::collection::vec(0_u8..4, 0..12),
    ) {
        let cut = |after: u8| if after == 0 { Cut::Never } else { Cut::After(after) };
        let mut world = world();
        let rest = run_with_kills(&mut world, &mut kills.into_iter().map(cut));
        prop_assert_eq!(rest, Rest::Settled);
        prop_assert_eq!(world.usable(), 1);
        prop_assert!(world.snapshot.receipt.is_ours());
        world.pod_starts();
        prop_assert_eq!(world.run().1, Rest::Settled);
        prop_assert_eq!(world.usable(), 0);
        for child in &world.snapshot.children {
            prop_assert_eq!(child.owner(UID), Owner::Ours);
        }
        world.snapshot.subject.deleting = true;
        world.snapshot.subject.deletion_policy = DeletionPolicy::Delete;
        let rest = run_with_kills(&mut world, &mut kills_of_deletion.into_iter().map(cut));
        prop_assert_eq!(rest, Rest::Gone);
        prop_assert!(world.snapshot.nodes().unwrap().is_empty());
        prop_assert!(world.snapshot.children.iter().all(|child| child.live.is_none()));
    }

    #[test]
    fn deleted_at_any_moment_of_its_creation_nothing_is_left(steps in 0_usize..16, cut in 0_u8..3) {
        let mut world = world();
        for done in 0..steps {
            let Plan::Do(step) = world.plan() else { break };
            let last = done + 1 == steps && cut > 0;
            world.carry_out(&step, if last { Cut::After(cut) } else { Cut::Never });
        }
        world.snapshot.subject.deleting = true;
        world.snapshot.subject.deletion_policy = DeletionPolicy::Delete;
        prop_assert_eq!(world.run().1, Rest::Gone);
        prop_assert_eq!(world.usable(), 0);
        prop_assert_eq!(&world.snapshot.state, &StateSecret::Missing);
        prop_assert_eq!(&world.snapshot.key, &KeySecret::Missing);
        prop_assert_eq!(&world.snapshot.receipt, &Receipt::Missing);
        prop_assert!(world.snapshot.children.iter().all(|child| child.live.is_none()));
    }
}
