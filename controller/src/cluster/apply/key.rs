//! The steps about the pre-auth key. The intended expiration is written down before the key is
//! minted, so that a key whose text is lost can be found and expired.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, Patch};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{create, merge, names, server};
use crate::cluster::Context;
use crate::cluster::failure::Stopped;
use crate::cluster::gather::Gathered;
use crate::headscale::{self, KeyId, MintRequest, NodeCache, NodeId};
use crate::reconcile::marks::{KEY_EXPIRATION, KEY_ID, MINTED, RENEWING, STRANGERS};
use crate::reconcile::{KeyNotes, KeySecret, key_notes, key_secret};
use crate::render::AUTH_KEY;

/// How long a key is valid.
const VALID: SignedDuration = SignedDuration::from_hours(24);

pub(super) async fn mint(context: &Context, gathered: &mut Gathered) -> Result<(), Stopped> {
    let server = server(gathered)?;
    let Some(gateway) = gathered.snapshot.spec.gateway() else {
        return Ok(());
    };
    let tags = gateway.tags.iter().cloned().collect();
    let now = Timestamp::now();
    let expiration = intended(&gathered.snapshot.subject.uid, now);
    let minted: Vec<String> = gathered
        .snapshot
        .minted_lately(now)
        .into_iter()
        .chain([now])
        .map(|at| at.to_string())
        .collect();
    let annotations = json!({
        KEY_EXPIRATION: expiration.to_string(),
        KEY_ID: null,
        MINTED: minted.join(" "),
    });
    if gathered.snapshot.key == KeySecret::Missing {
        let name = names(gathered).key_secret;
        let mut annotations = annotations;
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(KEY_ID);
        }
        let body = json!({ "kind": "Secret", "type": "Opaque", "metadata": { "annotations": annotations } });
        let created = create(context, &name, gathered, body).await?;
        gathered.key_version = created
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str)
            .map(str::to_owned);
    } else {
        let data = json!({ AUTH_KEY: null });
        patch(context, gathered, &annotations, &data).await?;
    }
    expire_strays(context, gathered).await?;
    // One that was held up until now would mint beside its successor, who discards only what was minted.
    context.go_on()?;
    let key = server
        .source()
        .mint_key(&MintRequest { tags, expiration })
        .await?;
    context.metrics.keys_minted.inc();
    let uid = gathered.snapshot.subject.uid.clone();
    remember(context, uid, expiration);
    tracing::info!(gateway = %gathered.snapshot.subject.name, id = %key.id, "Minted a pre-auth key");
    let text = ByteString(key.key.secret().as_bytes().to_vec());
    let annotations = json!({ KEY_ID: key.id.to_string() });
    let kept = try_patch(context, gathered, &annotations, &json!({ AUTH_KEY: text })).await;
    if let Err(kube::Error::Api(status)) = &kept
        && matches!(status.code, 404 | 409)
    {
        // The Secret is gone, or has another intention by now: nobody would find this key again.
        match expire(&server, key.id).await {
            Ok(()) => tracing::info!(id = %key.id, "Expired a pre-auth key that could not be kept"),
            Err(error) => {
                tracing::warn!(id = %key.id, %error, "A pre-auth key that could not be kept could not be expired");
            }
        }
    }
    kept.map_err(|error| failed(gathered, &error))
}

fn remember(context: &Context, uid: String, end: Timestamp) {
    let mut known = context.known();
    known.entry(uid).or_default().keys.insert(end);
}

/// Ends those that are still usable: whoever deleted the Secret that they were in.
pub(super) async fn expire_strays(
    context: &Context,
    gathered: &mut Gathered,
) -> Result<(), Stopped> {
    let strays = std::mem::take(&mut gathered.snapshot.notes.strays);
    expire_minted(gathered, &strays, "is in no Secret any more").await?;
    let uid = &gathered.snapshot.subject.uid;
    if let Some(known) = context.known().get_mut(uid) {
        known.keys.retain(|end| !strays.contains(end));
    }
    Ok(())
}

/// Ends the keys that were minted to expire at these moments. A number alone would do for nobody: a Headscale
/// that was made anew counts from one again.
async fn expire_minted(
    gathered: &Gathered,
    ends: &BTreeSet<Timestamp>,
    why: &str,
) -> Result<(), Stopped> {
    let Some(gateway) = gathered
        .snapshot
        .spec
        .gateway()
        .filter(|_| !ends.is_empty())
    else {
        return Ok(());
    };
    let tags: BTreeSet<String> = gateway.tags.iter().cloned().collect();
    let server = server(gathered)?;
    let now = Timestamp::now();
    for key in server.source().keys().await? {
        let is_ours = key.tags == tags && ends.iter().any(|end| key.was_minted_for(*end));
        if is_ours && key.is_usable(now) {
            expire(&server, key.id).await?;
            tracing::info!(id = %key.id, "Expired a pre-auth key that {why}");
        }
    }
    Ok(())
}

/// Ends a key; one that Headscale does not know is at its end.
pub(super) async fn expire(server: &NodeCache, id: KeyId) -> Result<(), headscale::Error> {
    match server.source().expire_key(id).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

pub(super) async fn discard_lost(
    context: &Context,
    gathered: &mut Gathered,
    expiration: Timestamp,
) -> Result<(), Stopped> {
    let ends = BTreeSet::from([expiration]);
    expire_minted(gathered, &ends, "had lost its text").await?;
    patch(
        context,
        gathered,
        &json!({ KEY_EXPIRATION: null, KEY_ID: null }),
        &json!({ AUTH_KEY: null }),
    )
    .await
}

pub(super) async fn empty(context: &Context, gathered: &mut Gathered) -> Result<(), Stopped> {
    let annotations = json!({ RENEWING: null });
    patch(context, gathered, &annotations, &json!({ AUTH_KEY: null })).await
}

pub(super) async fn begin_renewal(
    context: &Context,
    gathered: &mut Gathered,
    node: NodeId,
) -> Result<(), Stopped> {
    note(context, gathered, json!({ RENEWING: node.to_string() })).await
}

pub(super) async fn note_stranger(
    context: &Context,
    gathered: &mut Gathered,
    node: NodeId,
) -> Result<(), Stopped> {
    let known = gathered.snapshot.notes.strangers.iter().copied();
    let all: Vec<String> = known.chain([node]).map(|id| id.to_string()).collect();
    note(context, gathered, json!({ STRANGERS: all.join(" ") })).await
}

/// Writes beside the key; makes the Secret if it is not there.
async fn note(
    context: &Context,
    gathered: &mut Gathered,
    annotations: Value,
) -> Result<(), Stopped> {
    if gathered.snapshot.key != KeySecret::Missing {
        return patch(context, gathered, &annotations, &json!({})).await;
    }
    let name = names(gathered).key_secret;
    let body =
        json!({ "kind": "Secret", "type": "Opaque", "metadata": { "annotations": annotations } });
    let created = create(context, &name, gathered, body).await?;
    let secret: Secret = serde_json::from_value(created).map_err(|error| {
        Stopped::kubernetes(&format!("Secret {name}"), &kube::Error::SerdeError(error))
    })?;
    seen(gathered, &secret);
    Ok(())
}

/// Changes the key Secret, if nobody else did meanwhile.
async fn patch(
    context: &Context,
    gathered: &mut Gathered,
    annotations: &Value,
    data: &Value,
) -> Result<(), Stopped> {
    try_patch(context, gathered, annotations, data)
        .await
        .map_err(|error| failed(gathered, &error))
}

fn failed(gathered: &Gathered, error: &kube::Error) -> Stopped {
    Stopped::kubernetes(&format!("Secret {}", names(gathered).key_secret), error)
}

async fn try_patch(
    context: &Context,
    gathered: &mut Gathered,
    annotations: &Value,
    data: &Value,
) -> Result<(), kube::Error> {
    let name = names(gathered).key_secret;
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &context.settings.namespace);
    let body = json!({
        "metadata": { "resourceVersion": gathered.key_version, "annotations": annotations },
        "data": data,
    });
    let secret = api.patch(&name, &merge(), &Patch::Merge(body)).await?;
    seen(gathered, &secret);
    Ok(())
}

fn seen(gathered: &mut Gathered, secret: &Secret) {
    let uid = &gathered.snapshot.subject.uid;
    gathered.key_version = secret.resource_version();
    gathered.snapshot.key = key_secret(Some(secret), uid);
    let before = std::mem::take(&mut gathered.snapshot.notes);
    gathered.snapshot.notes = KeyNotes {
        minted: before.minted,
        strays: before.strays,
        ..key_notes(Some(secret), uid)
    };
    // It was about the key before.
    gathered.snapshot.key_fate = None;
}

/// A moment that no other key of any gateway expires at: Headscale keeps nanoseconds.
fn intended(uid: &str, now: Timestamp) -> Timestamp {
    let hash = Sha256::digest(format!("{uid} {now}"));
    let offset = hash
        .iter()
        .take(4)
        .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    // Up to a minute, in steps of 15 ns.
    let offset =
        SignedDuration::from_nanos(i64::try_from(offset % 4_000_000_000).unwrap_or(0) * 15);
    now + VALID + offset
}
