//! Headscale's answers in our words.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use tsunaro_model::tailnet::AuthKey;

use super::expiry::Expiry;
use super::id::{KeyId, NodeId};
use super::wire::{
    KeyReply, NewKeyReply, NodeKeyReply, NodeReply, PolicyReply, UserReply, VersionReply,
};

/// A node of the tailnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// The host name that it gave.
    pub hostname: String,
    /// Its name in the tailnet, which differs from the host name after a collision.
    pub given_name: String,
    /// Tailnet addresses.
    pub addresses: Vec<IpAddr>,
    /// Tags. A tagged node belongs to no user.
    pub tags: BTreeSet<String>,
    /// The user; of a tagged node Headscale says `tagged-devices`.
    pub user: Option<String>,
    /// Connected to Headscale now.
    pub online: bool,
    /// When its node key expires or did.
    pub expiry: Expiry,
    /// When it was connected last.
    pub last_seen: Option<Timestamp>,
    /// When it was first registered.
    pub created: Option<Timestamp>,
    /// The pre-auth key that it logged in with, if that still exists.
    pub key: Option<KeyId>,
    /// Prefixes that it advertises.
    pub advertised: BTreeSet<IpNet>,
    /// Prefixes that are approved, advertised or not.
    pub approved: BTreeSet<IpNet>,
    /// Prefixes of which it is the primary router now.
    pub serving: BTreeSet<IpNet>,
    /// Entries of these three lists that are no prefix, as a node may advertise.
    pub unreadable_routes: Vec<String>,
}

/// All nodes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeList {
    nodes: Vec<Node>,
}

impl NodeList {
    /// A list of these nodes, in the order of their ids.
    pub fn new(mut nodes: Vec<Node>) -> Self {
        nodes.sort_by_key(|node| node.id);
        Self { nodes }
    }

    /// The node with this id.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        let index = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        self.nodes.get(index)
    }

    /// The nodes that gave this host name, in any case of letters, oldest id first.
    pub fn with_hostname<'a>(&'a self, hostname: &'a str) -> impl Iterator<Item = &'a Node> {
        self.nodes
            .iter()
            .filter(move |node| node.hostname.eq_ignore_ascii_case(hostname))
    }

    /// All nodes in the order of their ids.
    pub fn iter(&self) -> std::slice::Iter<'_, Node> {
        self.nodes.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl From<NodeReply> for Node {
    fn from(reply: NodeReply) -> Self {
        let NodeReply {
            id,
            name,
            given_name,
            ip_addresses,
            user,
            online,
            expiry,
            last_seen,
            created_at,
            pre_auth_key,
            tags,
            available_routes,
            approved_routes,
            subnet_routes,
        } = reply;
        let mut unreadable_routes = Vec::new();
        let mut read = |routes: Vec<String>| prefixes(routes, &mut unreadable_routes);
        Self {
            id,
            hostname: name,
            given_name,
            addresses: ip_addresses,
            tags: tags.into_iter().collect(),
            user: user.map(|UserReply { name }| name),
            online,
            expiry: Expiry::of_node(expiry),
            last_seen,
            created: created_at,
            key: pre_auth_key.map(|NodeKeyReply { id }| id),
            advertised: read(available_routes),
            approved: read(approved_routes),
            serving: read(subnet_routes),
            unreadable_routes,
        }
    }
}

/// One node's nonsense must not hide all others, so it is put aside.
fn prefixes(routes: Vec<String>, unreadable: &mut Vec<String>) -> BTreeSet<IpNet> {
    let mut readable = BTreeSet::new();
    for route in routes {
        match route.parse() {
            Ok(prefix) => {
                readable.insert(prefix);
            }
            Err(_) => unreadable.push(route),
        }
    }
    readable
}

/// A new pre-auth key: for one login of a lasting node, bound to tags, of no user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MintRequest {
    /// The tags of the node; at least one.
    pub tags: BTreeSet<String>,
    /// When it stops being valid, to the nanosecond. Unique moments tell keys apart.
    pub expiration: Timestamp,
}

/// A pre-auth key as it was minted: the only time that its text is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MintedKey {
    /// Its id.
    pub id: KeyId,
    /// The key itself.
    pub key: AuthKey,
    /// When it stops being valid.
    pub expiration: Expiry,
    /// The tags of nodes that log in with it.
    pub tags: BTreeSet<String>,
}

impl MintedKey {
    /// None if the answer has no key in it.
    pub(super) fn from_reply(reply: NewKeyReply) -> Option<Self> {
        let NewKeyReply {
            id,
            key,
            expiration,
            acl_tags,
        } = reply;
        Some(Self {
            id,
            key: AuthKey::from_file_content(&key)?,
            expiration: Expiry::of_key(expiration),
            tags: acl_tags.into_iter().collect(),
        })
    }
}

/// A pre-auth key as Headscale lists it, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKey {
    /// Its id.
    pub id: KeyId,
    /// A node has logged in with it.
    pub used: bool,
    /// More than one node may.
    pub reusable: bool,
    /// When it stops being valid. A key that was minted without is listed with a moment in year 1.
    pub expiration: Expiry,
    /// When it was minted.
    pub created: Option<Timestamp>,
    /// The tags of nodes that log in with it.
    pub tags: BTreeSet<String>,
}

impl ListedKey {
    /// Whether a login with it can succeed at `now`.
    pub fn is_usable(&self, now: Timestamp) -> bool {
        (self.reusable || !self.used) && !self.expiration.is_over(now)
    }

    /// Whether it is the key that was minted to expire at `intended`. Headscale keeps nanoseconds in
    /// SQLite; PostgreSQL's timestamps are rounded to microseconds.
    pub fn was_minted_for(&self, intended: Timestamp) -> bool {
        let Expiry::At(at) = self.expiration else {
            return false;
        };
        at.duration_since(intended).abs() < SignedDuration::from_micros(1)
    }
}

impl From<KeyReply> for ListedKey {
    fn from(reply: KeyReply) -> Self {
        let KeyReply {
            id,
            used,
            reusable,
            expiration,
            created_at,
            acl_tags,
        } = reply;
        Self {
            id,
            used,
            reusable,
            expiration: Expiry::of_key(expiration),
            created: created_at,
            tags: acl_tags.into_iter().collect(),
        }
    }
}

/// The policy as it was set, comments included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// HuJSON.
    pub text: String,
    /// When it was set; None if it is a file of the server.
    pub updated: Option<Timestamp>,
}

impl From<PolicyReply> for Policy {
    fn from(reply: PolicyReply) -> Self {
        let PolicyReply { policy, updated_at } = reply;
        Self {
            text: policy,
            updated: updated_at,
        }
    }
}

/// Which Headscale this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerVersion {
    /// As it says, such as `v0.29.2`; builds from a checkout say `dev`.
    pub text: String,
    /// The commit that it was built from, or `unknown`.
    pub commit: String,
}

impl ServerVersion {
    /// Major and minor number, if the text has them.
    pub fn numbers(&self) -> Option<(u32, u32)> {
        let mut parts = self.text.trim_start_matches('v').split('.');
        let major = parts.next()?.parse().ok()?;
        Some((major, parts.next()?.parse().ok()?))
    }
}

impl From<VersionReply> for ServerVersion {
    fn from(reply: VersionReply) -> Self {
        let VersionReply { version, commit } = reply;
        Self {
            text: version,
            commit,
        }
    }
}

#[cfg(test)]
mod tests;
