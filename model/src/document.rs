//! What every file for people shares: YAML or JSON as a tree with positions, and typed reading of it
//! with a remark for each field that is wrong, missing or unknown.

pub(crate) mod fields;
mod syntax;
pub(crate) mod tree;

use crate::finding::Place;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Given<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// A text and where it stands.
pub(crate) type Text = Given<String>;
