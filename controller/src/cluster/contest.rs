//! Objects that somebody else changes again and again: they are put right a few times a minute, and no
//! oftener, so that two writers do not fight with all their might.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Context;
use crate::reconcile::{Child, Kind, digest};

/// The same is written so often within [`WINDOW`] at most.
const WRITES: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// When to look again at an object that is left as it is for a while.
pub(super) const LOOK: Duration = Duration::from_secs(15);

/// Notes that an object was written.
pub(super) fn wrote(context: &Context, uid: &str, child: &Child) {
    let mut known = context.known();
    let applied = &mut known.entry(uid.to_owned()).or_default().applied;
    let what = digest(&child.desired);
    let entry = applied.entry(child.kind).or_default();
    if entry.0 != what {
        *entry = (what, Vec::new());
    }
    entry.1.retain(|at| at.elapsed() < WINDOW);
    entry.1.push(Instant::now());
}

/// The objects that are not written for a while.
pub(super) fn contested(context: &Context, uid: &str, children: &[Child]) -> BTreeSet<Kind> {
    let known = context.known();
    let Some(known) = known.get(uid) else {
        return BTreeSet::new();
    };
    children
        .iter()
        .filter(|child| {
            known.applied.get(&child.kind).is_some_and(|(what, at)| {
                let lately = at.iter().filter(|at| at.elapsed() < WINDOW).count();
                lately >= WRITES && *what == digest(&child.desired)
            })
        })
        .map(|child| child.kind)
        .collect()
}
