//! The two Secrets and the receipt.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::marks::{
    KEY_EXPIRATION, KEY_ID, MINTED, RECEIPT_KEY_ID, RECEIPT_UID, RENEWING, STRANGERS, UID,
};
use crate::headscale::{KeyId, NodeId};
use crate::render::AUTH_KEY;

/// Where tailscaled keeps which login is in use (`ipn/store.go`).
const CURRENT_PROFILE: &str = "_current-profile";
/// Over which mints are counted.
pub(in super::super) const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// A stamp that is further ahead was written by a clock that was wrong.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);
/// Keys minted within an hour at most.
const MINTS_AN_HOUR: usize = 3;

/// The Secret with the node's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateSecret {
    /// It does not exist.
    Missing,
    /// This gateway's.
    Ours {
        /// tailscaled keeps a login in it.
        login: bool,
    },
    /// Not this gateway's.
    Foreign {
        /// UID of the gateway that it was made for, if for one.
        owner: Option<String>,
        /// Nothing is in it.
        empty: bool,
    },
}

/// The Secret with the pre-auth key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySecret {
    /// It does not exist.
    Missing,
    /// Not this gateway's; with the UID of the gateway that it was made for, if for one.
    Foreign(Option<String>),
    /// Nothing is in it, and nothing is under way.
    Idle {
        /// When keys were minted lately.
        minted: Vec<Timestamp>,
    },
    /// A key with this expiration was about to be minted, and its text is not here.
    Intended {
        /// When that key expires.
        expiration: Timestamp,
        /// When keys were minted lately.
        minted: Vec<Timestamp>,
    },
    /// A key is in it.
    Holding {
        /// Its id at Headscale.
        id: KeyId,
        /// When it expires.
        expiration: Timestamp,
        /// When keys were minted lately.
        minted: Vec<Timestamp>,
    },
    /// A key was in it and was used.
    Spent {
        /// Its id at Headscale.
        id: KeyId,
        /// When keys were minted lately.
        minted: Vec<Timestamp>,
    },
}

/// What is written beside the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyNotes {
    /// The node whose login is being renewed.
    pub renewing: Option<NodeId>,
    /// Nodes that used a key of the gateway and are not its own.
    pub strangers: Vec<NodeId>,
    /// When keys were minted, as far as anybody remembers: who deletes the Secret does not begin the
    /// count anew.
    pub minted: Vec<Timestamp>,
    /// When keys of the gateway besides the one in the Secret end, to the nanosecond, as far as anybody
    /// remembers.
    pub strays: BTreeSet<Timestamp>,
}

/// What Headscale says of the key in the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFate {
    /// A login with it can succeed.
    Usable,
    /// A node has logged in with it.
    Used,
    /// It was expired or deleted.
    Gone,
}

/// The receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receipt {
    /// It was not written yet.
    Missing,
    /// This gateway was created, and its node first logged in with this key.
    Ours {
        /// The key's id.
        key: Option<KeyId>,
    },
    /// It is about another gateway; with its UID.
    Foreign(Option<String>),
}

impl StateSecret {
    /// Whether tailscaled keeps a login of ours in it.
    pub fn has_login(&self) -> bool {
        matches!(self, Self::Ours { login: true })
    }
}

impl KeySecret {
    /// Whether the key that was in it was used.
    pub fn is_spent(&self) -> bool {
        matches!(self, Self::Spent { .. })
    }

    /// The id of the key that is or was in it.
    pub fn id(&self) -> Option<KeyId> {
        match self {
            Self::Holding { id, .. } | Self::Spent { id, .. } => Some(*id),
            Self::Missing | Self::Foreign(_) | Self::Idle { .. } | Self::Intended { .. } => None,
        }
    }

    /// When keys were minted in the hour before `now`.
    pub fn minted_lately(&self, now: Timestamp) -> Vec<Timestamp> {
        let minted = match self {
            Self::Missing | Self::Foreign(_) => return Vec::new(),
            Self::Idle { minted }
            | Self::Intended { minted, .. }
            | Self::Holding { minted, .. }
            | Self::Spent { minted, .. } => minted,
        };
        minted
            .iter()
            .copied()
            .filter(|at| counts(*at, now))
            .collect()
    }
}

impl Receipt {
    /// Whether it is this gateway's.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Ours { .. })
    }

    /// The key that it names.
    pub fn key(&self) -> Option<KeyId> {
        match self {
            Self::Ours { key } => *key,
            Self::Missing | Self::Foreign(_) => None,
        }
    }
}

/// Whether a mint at this moment was in the hour before `now`.
pub fn counts(at: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(at);
    -AHEAD < age && age < HOUR
}

/// When the next key may be minted, after these mints; None for now.
pub(in super::super) fn next_mint(minted: &[Timestamp], now: Timestamp) -> Option<Timestamp> {
    let first = minted.len().checked_sub(MINTS_AN_HOUR)?;
    let at = minted.get(first)?.checked_add(HOUR).ok()?;
    (at > now).then_some(at)
}

/// Reads the state Secret. One without an annotation is ours if there is a receipt; one that names another
/// gateway is never.
pub fn state_secret(secret: Option<&Secret>, uid: &str, receipt: &Receipt) -> StateSecret {
    let Some(secret) = secret else {
        return StateSecret::Missing;
    };
    let has = |key: &str| {
        secret
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .is_some_and(|value| !value.0.is_empty())
    };
    let owner = annotation(&secret.metadata, UID);
    let proven = owner.is_none() && receipt.is_ours();
    if owner.as_deref() == Some(uid) || proven {
        return StateSecret::Ours {
            login: has(CURRENT_PROFILE),
        };
    }
    let empty = secret.data.as_ref().is_none_or(BTreeMap::is_empty);
    StateSecret::Foreign { owner, empty }
}

/// Reads the key Secret.
pub fn key_secret(secret: Option<&Secret>, uid: &str) -> KeySecret {
    let Some(secret) = secret else {
        return KeySecret::Missing;
    };
    let metadata = &secret.metadata;
    let owner = annotation(metadata, UID);
    if owner.as_deref() != Some(uid) {
        return KeySecret::Foreign(owner);
    }
    let minted: Vec<Timestamp> = annotation(metadata, MINTED)
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|at| at.parse().ok())
        .collect();
    let expiration = annotation(metadata, KEY_EXPIRATION).and_then(|at| at.parse().ok());
    let id = annotation(metadata, KEY_ID).and_then(|id| id.parse().ok());
    let filled = secret
        .data
        .as_ref()
        .and_then(|data| data.get(AUTH_KEY))
        .is_some_and(|key| !key.0.is_empty());
    match (filled, id, expiration) {
        (true, Some(id), Some(expiration)) => KeySecret::Holding {
            id,
            expiration,
            minted,
        },
        (false, Some(id), _) => KeySecret::Spent { id, minted },
        (_, None, Some(expiration)) => KeySecret::Intended { expiration, minted },
        (_, None, None) | (true, Some(_), None) => KeySecret::Idle { minted },
    }
}

/// Reads what is written beside the key.
pub fn key_notes(secret: Option<&Secret>, uid: &str) -> KeyNotes {
    let metadata = secret.map(|secret| &secret.metadata);
    let Some(metadata) = metadata.filter(|it| annotation(it, UID).as_deref() == Some(uid)) else {
        return KeyNotes::default();
    };
    KeyNotes {
        renewing: annotation(metadata, RENEWING).and_then(|id| id.parse().ok()),
        strangers: annotation(metadata, STRANGERS)
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect(),
        minted: Vec::new(),
        strays: BTreeSet::new(),
    }
}

/// Reads the receipt.
pub fn receipt(config_map: Option<&ConfigMap>, uid: &str) -> Receipt {
    let Some(config_map) = config_map else {
        return Receipt::Missing;
    };
    let value = |key: &str| config_map.data.as_ref()?.get(key).cloned();
    let owner = value(RECEIPT_UID);
    if owner.as_deref() == Some(uid) {
        return Receipt::Ours {
            key: value(RECEIPT_KEY_ID).and_then(|id| id.parse().ok()),
        };
    }
    Receipt::Foreign(owner)
}

fn annotation(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.annotations.as_ref()?.get(key).cloned()
}

#[cfg(test)]
mod tests;
