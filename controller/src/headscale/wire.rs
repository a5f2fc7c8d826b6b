//! What Headscale sends and takes, with only the fields that we read.
//!
//! A field whose absence would be mistaken for a state is required; `null` is Go's empty list.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::id::{KeyId, NodeId};

#[derive(Deserialize)]
pub(super) struct NodesReply {
    #[serde(deserialize_with = "nullable")]
    pub(super) nodes: Vec<NodeReply>,
}

#[derive(Deserialize)]
pub(super) struct OneNodeReply {
    pub(super) node: NodeReply,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeReply {
    pub(super) id: NodeId,
    pub(super) name: String,
    pub(super) given_name: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) ip_addresses: Vec<IpAddr>,
    pub(super) user: Option<UserReply>,
    pub(super) online: bool,
    pub(super) expiry: Option<Timestamp>,
    pub(super) last_seen: Option<Timestamp>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) pre_auth_key: Option<NodeKeyReply>,
    #[serde(deserialize_with = "nullable")]
    pub(super) tags: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) available_routes: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) approved_routes: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) subnet_routes: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct UserReply {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct NodeKeyReply {
    pub(super) id: KeyId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MintReply {
    pub(super) pre_auth_key: NewKeyReply,
}

/// The only answer with a key in it, so it has no `Debug`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewKeyReply {
    pub(super) id: KeyId,
    pub(super) key: String,
    pub(super) expiration: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    pub(super) acl_tags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeysReply {
    #[serde(deserialize_with = "nullable")]
    pub(super) pre_auth_keys: Vec<KeyReply>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyReply {
    pub(super) id: KeyId,
    pub(super) used: bool,
    pub(super) reusable: bool,
    pub(super) expiration: Option<Timestamp>,
    pub(super) created_at: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    pub(super) acl_tags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiKeysReply {
    #[serde(deserialize_with = "nullable")]
    pub(super) api_keys: Vec<ApiKeyReply>,
}

#[derive(Deserialize)]
pub(super) struct ApiKeyReply {
    pub(super) prefix: String,
    pub(super) expiration: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyReply {
    pub(super) policy: String,
    pub(super) updated_at: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(super) struct VersionReply {
    pub(super) version: String,
    pub(super) commit: String,
}

#[derive(Deserialize)]
pub(super) struct HealthReply {
    pub(super) status: String,
}

/// Both forms of a refusal: `google.rpc.Status` and RFC 9457. The values that a problem repeats
/// from the request are left out.
#[derive(Deserialize)]
pub(super) struct Refusal {
    message: Option<String>,
    title: Option<String>,
    detail: Option<String>,
    errors: Option<Vec<RefusalDetail>>,
}

#[derive(Deserialize)]
struct RefusalDetail {
    message: Option<String>,
    location: Option<String>,
}

impl Refusal {
    /// The most telling words; None if there are none, so that it was no refusal of Headscale.
    pub(super) fn into_message(self) -> Option<String> {
        let Self {
            message,
            title,
            detail,
            errors,
        } = self;
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let mut parts: Vec<String> = filled(detail).into_iter().collect();
        for RefusalDetail { message, location } in errors.into_iter().flatten() {
            match (filled(location), filled(message)) {
                (Some(location), Some(message)) => parts.push(format!("{location}: {message}")),
                (None, Some(message)) => parts.push(message),
                (_, None) => {}
            }
        }
        if parts.is_empty() {
            return filled(message).or(filled(title));
        }
        Some(parts.join("; "))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MintBody<'a> {
    pub(super) reusable: bool,
    pub(super) ephemeral: bool,
    pub(super) expiration: Timestamp,
    pub(super) acl_tags: Vec<&'a str>,
}

#[derive(Serialize)]
pub(super) struct ExpireKeyBody {
    pub(super) id: String,
}

#[derive(Serialize)]
pub(super) struct ApproveBody {
    pub(super) routes: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct PolicyBody<'a> {
    pub(super) policy: &'a str,
}

fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
