//! What a gateway needs next, and what is said about it.
//!
//! Pure: [`plan`] takes what was gathered and gives the one next step or the reason to rest;
//! [`judge`] takes the same and gives conditions and routes. Time comes in as an argument.

mod login;
pub mod marks;
pub mod names;
mod plan;
pub mod policy;
mod site;
mod snapshot;
mod status;

#[cfg(test)]
mod testing;

pub use login::Loss;
pub use plan::{Block, Kind, Plan, Rest, Step, Unresolved, plan};
pub use site::{SiteSaid, judge_site};
pub use snapshot::{
    Agent, Child, Control, KeyFate, KeyNotes, KeySecret, Owner, Pod, Receipt, Snapshot, Spec,
    StateSecret, Subject, Workload, counts, digest, drifted, key_notes, key_secret, ours, pod,
    receipt, state_secret, workload,
};
pub use status::{Failure, FailureOf, Judgement, Memory, Outcome, Verdict, judge};
