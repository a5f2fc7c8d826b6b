use proptest::prelude::*;

use super::*;
use crate::headscale::Expiry;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
const LAN: &str = "192.0.2.0/24";
const RANGE: &str = "198.51.100.0/24";
const TARGET: &str = "10.0.10.20/32";

fn set(prefixes: &[&str]) -> BTreeSet<IpNet> {
    prefixes
        .iter()
        .map(|prefix| prefix.parse().unwrap())
        .collect()
}

fn router(id: u64, approved: &[&str], serving: &[&str]) -> Node {
    Node {
        id: id.to_string().parse().unwrap(),
        hostname: format!("gw-{id}"),
        given_name: format!("gw-{id}"),
        addresses: Vec::new(),
        tags: BTreeSet::new(),
        user: None,
        online: true,
        expiry: Expiry::Never,
        last_seen: None,
        created: None,
        key: None,
        advertised: set(approved),
        approved: set(approved),
        serving: set(serving),
        unreadable_routes: Vec::new(),
    }
}

const SUBJECT: Subject<'static> = Subject {
    tailnet: "corp",
    server: "https://headscale.example.org",
    gateway: Some("gw"),
};

/// Headscale: the primary of a prefix stays as long as it can be it, else the lowest id takes over.
struct Tailnet(Vec<Node>);

impl Tailnet {
    fn list(&self) -> NodeList {
        NodeList::new(self.0.clone())
    }

    fn settle(&mut self) {
        let able = |node: &Node, prefix: &IpNet| {
            node.online && node.advertised.contains(prefix) && node.approved.contains(prefix)
        };
        for prefix in set(&[LAN, RANGE, TARGET]) {
            let now = self
                .0
                .iter()
                .position(|node| node.serving.contains(&prefix));
            let stays = now.filter(|index| able(&self.0[*index], &prefix));
            let next = stays.or_else(|| self.0.iter().position(|node| able(node, &prefix)));
            for (index, node) in self.0.iter_mut().enumerate() {
                if Some(index) == next {
                    node.serving.insert(prefix);
                } else {
                    node.serving.remove(&prefix);
                }
            }
        }
    }

    fn approve(&mut self, id: NodeId, routes: BTreeSet<IpNet>) {
        self.0
            .iter_mut()
            .find(|node| node.id == id)
            .unwrap()
            .approved = routes;
    }

    fn next(&self, record: &Record, now: Timestamp) -> Move {
        next(record, &self.list(), &BTreeSet::new(), now)
    }

    fn begin(&self) -> Result<Record, BTreeSet<IpNet>> {
        self.begin_beside(&BTreeSet::new())
    }

    fn begin_beside(&self, leaving: &BTreeSet<NodeId>) -> Result<Record, BTreeSet<IpNet>> {
        begin(&SUBJECT, &self.0[0], &self.list(), leaving, NOW)
    }
}

fn pair() -> Tailnet {
    Tailnet(vec![
        router(1, &[LAN, RANGE, TARGET], &[LAN, RANGE, TARGET]),
        router(2, &[LAN, RANGE], &[]),
    ])
}

#[test]
fn what_a_standby_can_take_is_taken_moved_and_given_back_and_the_rest_is_kept() {
    let mut tailnet = pair();
    let record = tailnet.begin().unwrap();
    assert_eq!(record.taken, set(&[LAN, RANGE]));
    assert_eq!(record.kept, set(&[TARGET]));
    let only = set(&[TARGET]);
    assert_eq!(tailnet.next(&record, NOW), Move::Approve(only.clone()));
    tailnet.approve(record.node, only);
    assert_eq!(tailnet.next(&record, NOW), Move::Wait);
    tailnet.settle();
    let all = set(&[LAN, RANGE, TARGET]);
    assert_eq!(tailnet.next(&record, NOW), Move::Approve(all.clone()));
    tailnet.approve(record.node, all);
    tailnet.settle();
    let Move::End(outcome) = tailnet.next(&record, NOW) else {
        panic!("it goes on");
    };
    let moved: Vec<_> = outcome
        .moved
        .iter()
        .map(|(p, to)| format!("{p} {to}"))
        .collect();
    assert_eq!(moved, [format!("{LAN} gw-2"), format!("{RANGE} gw-2")]);
    assert_eq!(outcome.kept, set(&[TARGET]));
}

#[test]
fn nothing_begins_where_nobody_could_take_over() {
    type Change = fn(&mut Node);
    let cases: [(&str, Change); 5] = [
        ("offline", |node| node.online = false),
        ("expired", |node| node.expiry = Expiry::At(NOW)),
        ("advertises nothing", |node| node.advertised.clear()),
        ("nothing is approved", |node| node.approved.clear()),
        ("another prefix", |node| {
            node.advertised = set(&["203.0.113.0/24"]);
        }),
    ];
    for (what, change) in cases {
        let mut tailnet = pair();
        change(&mut tailnet.0[1]);
        assert_eq!(tailnet.begin(), Err(set(&[LAN, RANGE, TARGET])), "{what}");
    }
    let mut standby = pair();
    standby.0[0].serving.clear();
    assert_eq!(standby.begin(), Err(BTreeSet::new()));
}

#[test]
fn a_gateway_that_leaves_itself_is_no_standby() {
    let mut tailnet = pair();
    let second = BTreeSet::from([tailnet.0[1].id]);
    let all = set(&[LAN, RANGE, TARGET]);
    assert_eq!(tailnet.begin_beside(&second), Err(all.clone()));
    // It leaves while the prefixes are on their way to it.
    let record = tailnet.begin().unwrap();
    tailnet.approve(record.node, set(&[TARGET]));
    assert_eq!(
        next(&record, &tailnet.list(), &second, NOW),
        Move::Approve(all)
    );
}

#[test]
fn a_standby_that_vanishes_on_the_way_gives_the_prefixes_back_at_once() {
    let mut tailnet = pair();
    let record = tailnet.begin().unwrap();
    tailnet.approve(record.node, set(&[TARGET]));
    tailnet.0[1].online = false;
    let all = set(&[LAN, RANGE, TARGET]);
    assert_eq!(tailnet.next(&record, NOW), Move::Approve(all.clone()));
    tailnet.approve(record.node, all.clone());
    tailnet.settle();
    let end = Move::End(Outcome {
        moved: BTreeMap::new(),
        kept: all,
    });
    assert_eq!(tailnet.next(&record, NOW), end);
}

#[test]
fn what_an_administrator_approves_meanwhile_stays() {
    let mut tailnet = pair();
    let record = tailnet.begin().unwrap();
    tailnet.approve(record.node, set(&["203.0.113.0/24"]));
    tailnet.settle();
    let all = set(&[LAN, RANGE, "203.0.113.0/24"]);
    assert_eq!(tailnet.next(&record, NOW), Move::Approve(all));
}

#[test]
fn a_handover_that_nobody_ended_in_time_is_undone() {
    let mut tailnet = pair();
    let record = tailnet.begin().unwrap();
    tailnet.approve(record.node, set(&[TARGET]));
    let late = NOW + PATIENCE;
    let all = set(&[LAN, RANGE, TARGET]);
    assert_eq!(tailnet.next(&record, late), Move::Approve(all));
}

#[test]
fn a_node_that_is_gone_ends_it() {
    let mut tailnet = pair();
    let record = tailnet.begin().unwrap();
    tailnet.0.remove(0);
    tailnet.settle();
    assert!(matches!(tailnet.next(&record, NOW), Move::End(_)));
}

#[test]
fn another_node_with_its_number_is_left_alone() {
    let mut tailnet = pair();
    let record = tailnet.begin().unwrap();
    tailnet.0[0] = router(1, &[], &[]);
    tailnet.0[0].hostname = "office".to_owned();
    let end = tailnet.next(&record, NOW);
    assert!(matches!(end, Move::End(_)), "{end:?}");
}

proptest! {
    /// At each turn the controller may die before its write, or after it; Headscale may take its
    /// time; the standby may come and go; hours may pass between two lives.
    #[test]
    fn whenever_it_dies_and_whatever_the_standby_does_the_approvals_end_as_they_were(
        turns in prop::collection::vec((0_u8..6, 0_i64..20), 0..40),
    ) {
        let mut tailnet = pair();
        let before: Vec<_> = tailnet.0.iter().map(|node| node.approved.clone()).collect();
        let record = tailnet.begin().unwrap();
        let mut now = NOW;
        for (what, seconds) in turns {
            now += SignedDuration::from_secs(seconds);
            match what {
                0 => tailnet.settle(),
                1 => tailnet.0[1].online = !tailnet.0[1].online,
                2 => tailnet.0[0].online = false,
                _ => {
                    if let Move::Approve(routes) = tailnet.next(&record, now) {
                        tailnet.approve(record.node, routes);
                    }
                }
            }
        }
        // The last life is long enough.
        for turn in 0.. {
            prop_assert!(turn < 50, "no end");
            tailnet.settle();
            match tailnet.next(&record, now) {
                Move::Approve(routes) => tailnet.approve(record.node, routes),
                Move::Wait => now += SignedDuration::from_secs(1),
                Move::End(_) => break,
            }
        }
        let after: Vec<_> = tailnet.0.iter().map(|node| node.approved.clone()).collect();
        prop_assert_eq!(after, before);
    }
}
