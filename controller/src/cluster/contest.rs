//! Objects that somebody else changes again and again: they are put right a few times a minute, and no
//! oftener, so that two writers do not fight with all their might.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::reconcile::{Child, Kind, digest};

/// The same is written so often within [`WINDOW`] at most.
const WRITES: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// When to look again at an object that is left as it is for a while.
pub(super) const LOOK: Duration = Duration::from_secs(15);

/// What was written of each object of a gateway lately, as a digest, and when the same was written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writes(BTreeMap<Kind, (String, Vec<Instant>)>);

impl Writes {
    /// Notes that an object was written at `now`.
    pub(super) fn note(&mut self, child: &Child, now: Instant) {
        let what = digest(&child.desired);
        let entry = self.0.entry(child.kind).or_default();
        if entry.0 != what {
            *entry = (what, Vec::new());
        }
        entry.1.retain(|at| now.duration_since(*at) < WINDOW);
        entry.1.push(now);
    }

    /// The objects that are not written for a while.
    pub(super) fn contested(&self, children: &[Child], now: Instant) -> BTreeSet<Kind> {
        let too_often = |child: &&Child| {
            self.0.get(&child.kind).is_some_and(|(what, at)| {
                let lately = at.iter().filter(|at| now.duration_since(**at) < WINDOW);
                lately.count() >= WRITES && *what == digest(&child.desired)
            })
        };
        let contested = children.iter().filter(too_often);
        contested.map(|child| child.kind).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn child(kind: Kind, replicas: u8) -> Child {
        Child {
            kind,
            name: "gw-1".to_owned(),
            desired: json!({ "spec": { "replicas": replicas } }),
            live: None,
        }
    }

    #[test]
    fn the_same_is_written_five_times_a_minute_and_again_when_the_first_is_a_minute_ago() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (set, service) = (child(Kind::StatefulSet, 1), child(Kind::Service, 1));
        let both = [set.clone(), service.clone()];
        let mut writes = Writes::default();
        for second in 0..5 {
            assert_eq!(writes.contested(&both, at(second)), BTreeSet::new());
            writes.note(&set, at(second));
        }
        writes.note(&service, at(5));
        assert_eq!(writes.contested(&both, at(59)), [Kind::StatefulSet].into());
        assert_eq!(writes.contested(&both, at(60)), BTreeSet::new());
    }

    #[test]
    fn what_the_spec_wants_anew_is_written_at_once() {
        let now = Instant::now();
        let mut writes = Writes::default();
        for _ in 0..5 {
            writes.note(&child(Kind::StatefulSet, 1), now);
        }
        let changed = child(Kind::StatefulSet, 0);
        let same = [changed.clone()];
        assert_eq!(writes.contested(&same, now), BTreeSet::new());
        writes.note(&changed, now);
        assert_eq!(writes.contested(&same, now), BTreeSet::new());
    }
}
