//! A small world for tests: a gateway, its cluster and its Headscale, in which steps have the effects
//! that the real ones have.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tsunaro_model::gateway::{Object, parse, wanted_routes};

use super::*;
use crate::crd::{DeletionPolicy, GatewayStatus};
use crate::headscale::{Expiry, KeyId, Node, NodeId, NodeList};
use crate::render::{Input, render};

pub(super) const UID: &str = "6c1d9a52-0000-4000-8000-000000000001";
pub(super) const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const GATEWAY: &str = include_str!("../../../docs/examples/prod-1/kubernetes/tailnetgateway.yaml");
const OTHERS: &str = include_str!("../../../docs/examples/prod-1/kubernetes/tailnet.yaml");

/// A key at Headscale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) id: KeyId,
    pub(super) expiration: Timestamp,
    pub(super) used: bool,
    pub(super) expired: bool,
}

/// Where a step that writes several times is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Never,
    /// After this many of its writes.
    After(u8),
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) snapshot: Snapshot,
    pub(super) keys: Vec<Key>,
    pub(super) now: Timestamp,
    /// Highest number of usable keys that there ever was.
    pub(super) most_usable: usize,
}

/// The worked example, nothing of it created yet.
pub(super) fn world() -> World {
    let objects: Vec<Object> = parse(&format!("{GATEWAY}---\n{OTHERS}"))
        .objects
        .into_iter()
        .map(|located| located.object)
        .collect();
    let mut gateway = objects
        .iter()
        .find_map(|object| match object {
            Object::Gateway(gateway) => Some(gateway.as_ref().clone()),
            _ => None,
        })
        .unwrap();
    gateway.uid = Some(UID.to_owned());
    let tailnet = objects
        .iter()
        .find_map(|object| match object {
            Object::Tailnet(tailnet) => Some(tailnet.as_ref().clone()),
            _ => None,
        })
        .unwrap();
    let egresses: Vec<_> = objects
        .iter()
        .filter_map(|object| match object {
            Object::Egress(egress) => Some(egress.clone()),
            _ => None,
        })
        .collect();
    let rendered = render(&Input {
        gateway: &gateway,
        tailnet: Some(&tailnet),
        egresses: &egresses,
        namespace: "tsunaro-system",
    });
    let children = Kind::ALL
        .into_iter()
        .zip(rendered.to_values().unwrap())
        .map(|(kind, desired)| Child::new(kind, desired, UID, None))
        .collect();
    World {
        snapshot: Snapshot {
            subject: Subject {
                name: gateway.name.clone(),
                uid: UID.to_owned(),
                generation: 1,
                deleting: false,
                finalizer: false,
                deletion_policy: DeletionPolicy::Retain,
                forget_node: false,
                renew: None,
                before: GatewayStatus::default(),
            },
            spec: Spec::Valid {
                wanted: wanted_routes(&gateway, &egresses),
                gateway: Box::new(gateway),
                warnings: Vec::new(),
            },
            tailnet: Some(tailnet),
            control: Control::Listed(Arc::default()),
            policy: None,
            state: StateSecret::Missing,
            key: KeySecret::Missing,
            notes: KeyNotes::default(),
            key_fate: None,
            receipt: Receipt::Missing,
            children,
            pod: None,
            mounts: "mounts".to_owned(),
            agent: Agent::Absent,
            busy: BTreeSet::new(),
            contested: BTreeSet::new(),
        },
        keys: Vec::new(),
        now: NOW,
        most_usable: 0,
    }
}

/// A node that runs and does all that is wanted.
pub(super) fn node(world: &World, id: &str, key: Option<KeyId>) -> Node {
    let wanted: BTreeSet<_> = world
        .snapshot
        .spec
        .wanted()
        .iter()
        .map(|prefix| ipnet::IpNet::V4(*prefix))
        .collect();
    Node {
        id: id.parse().unwrap(),
        hostname: "prod-1-gw".to_owned(),
        given_name: "prod-1-gw".to_owned(),
        addresses: vec!["100.64.0.17".parse().unwrap()],
        tags: BTreeSet::from(["tag:fabric".to_owned()]),
        user: None,
        online: true,
        expiry: Expiry::Never,
        last_seen: None,
        created: None,
        key,
        advertised: wanted.clone(),
        approved: wanted.clone(),
        serving: wanted,
        unreadable_routes: Vec::new(),
    }
}

/// A Pod that runs.
pub(super) fn running_pod() -> Pod {
    Pod {
        uid: "pod".to_owned(),
        address: Some("10.244.0.7".to_owned()),
        ready: true,
        going: false,
        trouble: None,
        revision: Some("r1".to_owned()),
        mounts: None,
    }
}

impl World {
    pub(super) fn list(&mut self, nodes: Vec<Node>) {
        self.snapshot.control = Control::Listed(Arc::new(NodeList::new(nodes)));
    }

    pub(super) fn usable(&self) -> usize {
        let usable = |key: &&Key| !key.used && !key.expired && key.expiration > self.now;
        self.keys.iter().filter(usable).count()
    }

    pub(super) fn child(&mut self, kind: Kind) -> &mut Child {
        self.snapshot
            .children
            .iter_mut()
            .find(|child| child.kind == kind)
            .unwrap()
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.snapshot, self.now)
    }

    /// Does what the plan says until it rests.
    pub(super) fn run(&mut self) -> (Vec<Step>, Rest) {
        let mut steps = Vec::new();
        loop {
            match self.plan() {
                Plan::Rest(rest) => return (steps, rest),
                Plan::Do(step) => {
                    self.carry_out(&step, Cut::Never);
                    steps.push(step);
                    assert!(steps.len() < 60, "no end: {steps:?}");
                }
            }
        }
    }

    /// What the cluster and Headscale do meanwhile: the Pod starts and logs in by its key.
    pub(super) fn pod_starts(&mut self) {
        self.snapshot.pod = Some(running_pod());
        let KeySecret::Holding { id, .. } = self.snapshot.key else {
            panic!("no key to log in with: {:?}", self.snapshot.key);
        };
        for key in &mut self.keys {
            if key.id == id {
                assert!(!key.used && !key.expired);
                key.used = true;
            }
        }
        self.snapshot.state = StateSecret::Ours { login: true };
        let node = node(self, "42", Some(id));
        self.list(vec![node]);
    }

    /// The effects of one step, or of its first writes.
    pub(super) fn carry_out(&mut self, step: &Step, cut: Cut) {
        let snapshot = &mut self.snapshot;
        let minted = snapshot.key.minted_lately(self.now);
        match step {
            Step::AddFinalizer => snapshot.subject.finalizer = true,
            Step::Pin => snapshot.subject.before.pinned = Some(true),
            Step::CreateState => snapshot.state = StateSecret::Ours { login: false },
            Step::DiscardLostKey(expiration) => {
                for key in &mut self.keys {
                    key.expired |= key.expiration == *expiration;
                }
                snapshot.key = KeySecret::Idle { minted };
            }
            Step::ExpireStrays => {
                let strays = std::mem::take(&mut snapshot.notes.strays);
                for key in &mut self.keys {
                    key.expired |= strays.contains(&key.expiration);
                }
            }
            Step::MintKey => {
                let nanos = i32::try_from(self.keys.len()).unwrap() + 1;
                let expiration = self.now + SignedDuration::new(86_400, nanos);
                let minted: Vec<_> = minted.into_iter().chain([self.now]).collect();
                snapshot.key_fate = None;
                snapshot.key = KeySecret::Intended {
                    expiration,
                    minted: minted.clone(),
                };
                if cut == Cut::After(1) {
                    return;
                }
                let id: KeyId = (self.keys.len() + 1).to_string().parse().unwrap();
                self.keys.push(Key {
                    id,
                    expiration,
                    used: false,
                    expired: false,
                });
                self.most_usable = self.most_usable.max(self.usable());
                if cut == Cut::After(2) {
                    return;
                }
                self.snapshot.key = KeySecret::Holding {
                    id,
                    expiration,
                    minted,
                };
            }
            Step::Apply(kind) => {
                let child = self.child(*kind);
                let mut live = child.desired.clone();
                live["metadata"]["uid"] = json!("live");
                if *kind == Kind::StatefulSet {
                    live["metadata"]["generation"] = json!(1);
                    live["status"] = json!({ "observedGeneration": 1, "updateRevision": "r1" });
                }
                child.live = Some(live);
            }
            Step::WriteReceipt(key) => snapshot.receipt = Receipt::Ours { key: *key },
            Step::EmptyKey => {
                snapshot.notes.renewing = None;
                if let Some(id) = snapshot.key.id() {
                    snapshot.key = KeySecret::Spent { id, minted };
                }
            }
            Step::BeginRenewal(id) => {
                snapshot.notes.renewing = Some(*id);
                if snapshot.key == KeySecret::Missing {
                    snapshot.key = KeySecret::Idle { minted };
                }
            }
            Step::NoteStranger(id) => snapshot.notes.strangers.push(*id),
            Step::ReviveNode(id) => self.change_node(*id, |node| node.expiry = Expiry::Never),
            Step::RefreshMounts => {
                let mounts = snapshot.mounts.clone();
                snapshot.pod.as_mut().unwrap().mounts = Some(mounts);
            }
            Step::ApproveRoutes(id, routes) => {
                let (id, routes) = (*id, routes.clone());
                self.change_node(id, |node| node.approved = routes);
            }
            Step::Delete(kind) => {
                self.child(*kind).live = None;
                if *kind == Kind::StatefulSet {
                    self.snapshot.pod = None;
                }
            }
            Step::DeleteNode(id) => {
                let left: Vec<Node> = self
                    .snapshot
                    .nodes()
                    .unwrap()
                    .iter()
                    .filter(|node| node.id != *id)
                    .cloned()
                    .collect();
                self.list(left);
            }
            Step::ExpireKey(id) => {
                for key in &mut self.keys {
                    key.expired |= key.id == *id;
                }
                snapshot.key = KeySecret::Spent { id: *id, minted };
            }
            Step::DeleteKey => snapshot.key = KeySecret::Missing,
            Step::DeleteState => snapshot.state = StateSecret::Missing,
            Step::DeleteReceipt => snapshot.receipt = Receipt::Missing,
            Step::RemoveFinalizer => snapshot.subject.finalizer = false,
        }
    }

    pub(super) fn change_node(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let mut nodes: Vec<Node> = self.snapshot.nodes().unwrap().iter().cloned().collect();
        let node = nodes.iter_mut().find(|node| node.id == id).unwrap();
        change(node);
        self.list(nodes);
    }

    pub(super) fn gateway(&mut self) -> &mut tsunaro_model::gateway::Gateway {
        match &mut self.snapshot.spec {
            Spec::Valid { gateway, .. } => gateway,
            Spec::Invalid(why) => panic!("{why}"),
        }
    }

    /// A gateway that runs.
    pub(super) fn settled() -> Self {
        let mut world = world();
        world.run();
        world.pod_starts();
        assert_eq!(world.run().1, Rest::Settled);
        world.child(Kind::Service).live.as_mut().unwrap()["status"] =
            json!({ "loadBalancer": { "ingress": [{ "ip": "198.51.100.17" }] } });
        world
    }
}

/// An object that exists and has these marks.
pub(super) fn foreign(child: &Child, owner: Option<&str>) -> Value {
    let mut live = child.desired.clone();
    live["metadata"]["annotations"] = json!({});
    live["metadata"]["labels"] = match owner {
        Some(uid) => json!({ marks::UID: uid }),
        None => json!({}),
    };
    live
}
