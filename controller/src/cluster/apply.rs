//! Carries out one step, and puts its effect into the snapshot.

mod key;

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use super::Context;
use super::failure::Stopped;
use super::gather::Gathered;
use super::kinds::Family;
use crate::crd::TailnetGateway;
use crate::headscale::{self, NodeCache, NodeId, NodeList};
use crate::reconcile::marks::{
    FINALIZER, MANAGED_BY, MANAGER, MOUNTS, RECEIPT_GATEWAY, RECEIPT_HOSTNAME, RECEIPT_KEY_ID,
    RECEIPT_UID, UID,
};
use crate::reconcile::{Child, Control, KeySecret, Kind, Receipt, StateSecret, Step};
use crate::render::Names;

/// Does it.
pub(super) async fn carry_out(
    context: &Context,
    gathered: &mut Gathered,
    step: &Step,
) -> Result<(), Stopped> {
    let name = gathered.snapshot.subject.name.clone();
    match step {
        Step::AddFinalizer => {
            add_finalizer(context, gathered).await?;
            gathered.snapshot.subject.finalizer = true;
        }
        Step::Pin => {
            let api: Api<TailnetGateway> = Api::all(context.client.clone());
            let patch = Patch::Merge(json!({ "status": { "pinned": true } }));
            api.patch_status(&name, &merge(), &patch)
                .await
                .map_err(|error| Stopped::kubernetes(&format!("status of {name}"), &error))?;
            gathered.snapshot.subject.before.pinned = Some(true);
        }
        Step::CreateState => {
            let state = names(gathered).state_secret;
            create(
                context,
                &state,
                gathered,
                json!({ "kind": "Secret", "type": "Opaque" }),
            )
            .await?;
            gathered.snapshot.state = StateSecret::Ours { login: false };
        }
        Step::DiscardLostKey(expiration) => {
            key::discard_lost(context, gathered, *expiration).await?;
        }
        Step::MintKey => key::mint(context, gathered).await?,
        Step::EmptyKey => key::empty(context, gathered).await?,
        Step::BeginRenewal(id) => key::begin_renewal(context, gathered, *id).await?,
        Step::NoteStranger(id) => key::note_stranger(context, gathered, *id).await?,
        Step::ReviveNode(id) => revive(context, gathered, *id).await?,
        Step::ExpireStrays => key::expire_strays(context, gathered).await?,
        Step::ExpireKey(id) => {
            key::expire(&*server(gathered)?, *id).await?;
            key::empty(context, gathered).await?;
        }
        Step::Apply(kind) => apply(context, gathered, *kind).await?,
        Step::Delete(kind) => delete_child(context, gathered, *kind).await?,
        Step::WriteReceipt(key) => {
            let receipt = names(gathered).receipt;
            let hostname = gathered
                .snapshot
                .spec
                .gateway()
                .map(|gateway| gateway.hostname.clone());
            let mut data = json!({
                RECEIPT_UID: gathered.snapshot.subject.uid,
                RECEIPT_GATEWAY: name,
                RECEIPT_HOSTNAME: hostname,
            });
            if let (Some(data), Some(key)) = (data.as_object_mut(), key) {
                data.insert(RECEIPT_KEY_ID.to_owned(), key.to_string().into());
            }
            let body = json!({ "kind": "ConfigMap", "immutable": true, "data": data });
            create(context, &receipt, gathered, body).await?;
            gathered.snapshot.receipt = Receipt::Ours { key: *key };
        }
        Step::RefreshMounts => {
            let api: Api<Pod> =
                Api::namespaced(context.client.clone(), &context.settings.namespace);
            let pod = names(gathered).pod;
            let uid = gathered.snapshot.pod.as_ref().map(|pod| pod.uid.clone());
            let mounts = gathered.snapshot.mounts.clone();
            let patch = json!({ "metadata": { "uid": uid, "annotations": { MOUNTS: mounts } } });
            match api.patch(&pod, &merge(), &Patch::Merge(patch)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => gathered.snapshot.pod = None,
                Err(error) => return Err(Stopped::kubernetes(&format!("Pod {pod}"), &error)),
                Ok(_) => {
                    if let Some(pod) = &mut gathered.snapshot.pod {
                        pod.mounts = Some(mounts);
                    }
                }
            }
        }
        Step::ApproveRoutes(id, routes) => {
            let server = server(gathered)?;
            let approved = server.source().approve_routes(*id, routes).await;
            server.invalidate();
            let approved = approved?;
            let changed = nodes(gathered).map(|mut node| {
                if node.id == *id {
                    node.approved.clone_from(&approved);
                }
                node
            });
            gathered.snapshot.control = Control::Listed(Arc::new(NodeList::new(changed.collect())));
        }
        Step::DeleteNode(id) => {
            let server = server(gathered)?;
            let deleted = server.source().delete_node(*id).await;
            server.invalidate();
            match deleted {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {
                    let left = nodes(gathered).filter(|node| node.id != *id).collect();
                    gathered.snapshot.control = Control::Listed(Arc::new(NodeList::new(left)));
                }
            }
        }
        Step::DeleteKey => {
            delete::<Secret>(context, &names(gathered).key_secret).await?;
            gathered.snapshot.key = KeySecret::Missing;
        }
        Step::DeleteState => {
            delete::<Secret>(context, &names(gathered).state_secret).await?;
            gathered.snapshot.state = StateSecret::Missing;
        }
        Step::DeleteReceipt => {
            delete::<ConfigMap>(context, &names(gathered).receipt).await?;
            gathered.snapshot.receipt = Receipt::Missing;
        }
        Step::RemoveFinalizer => {
            remove_finalizer(context, gathered).await?;
            gathered.snapshot.subject.finalizer = false;
        }
    }
    Ok(())
}

/// Takes back a node's expiry. A Headscale that cannot has the node deleted instead, after which its
/// login is renewed.
async fn revive(context: &Context, gathered: &mut Gathered, id: NodeId) -> Result<(), Stopped> {
    let server = server(gathered)?;
    let mut done = server.source().disable_expiry(id).await;
    if matches!(done, Err(headscale::Error::Unsupported { .. })) {
        done = server.source().delete_node(id).await;
    }
    server.invalidate();
    match done {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => {
            super::gather::refresh(context, gathered).await;
            Ok(())
        }
    }
}

/// What a step is about, for its line in the log.
pub(super) fn object(gathered: &Gathered, step: &Step) -> String {
    let names = names(gathered);
    let child = |kind: &Kind| {
        let mut all = gathered.snapshot.children.iter();
        let name = all
            .find(|child| child.kind == *kind)
            .map(|child| &child.name);
        let name = name.map(String::as_str).unwrap_or_default();
        format!("{} {name}", kind.as_str())
    };
    match step {
        Step::AddFinalizer | Step::Pin | Step::RemoveFinalizer => {
            format!("TailnetGateway {}", gathered.snapshot.subject.name)
        }
        Step::CreateState | Step::DeleteState => format!("Secret {}", names.state_secret),
        Step::DiscardLostKey(_)
        | Step::MintKey
        | Step::EmptyKey
        | Step::BeginRenewal(_)
        | Step::NoteStranger(_)
        | Step::ExpireStrays
        | Step::ExpireKey(_)
        | Step::DeleteKey => format!("Secret {}", names.key_secret),
        Step::Apply(kind) | Step::Delete(kind) => child(kind),
        Step::WriteReceipt(_) | Step::DeleteReceipt => format!("ConfigMap {}", names.receipt),
        Step::RefreshMounts => format!("Pod {}", names.pod),
        Step::ApproveRoutes(id, _) | Step::DeleteNode(id) | Step::ReviveNode(id) => {
            format!("node {id}")
        }
    }
}

/// With the UID, so that nothing is created.
async fn add_finalizer(context: &Context, gathered: &Gathered) -> Result<(), Stopped> {
    let subject = &gathered.snapshot.subject;
    let api: Api<TailnetGateway> = Api::all(context.client.clone());
    let patch = json!({
        "apiVersion": "tsunaro.io/v1alpha1",
        "kind": "TailnetGateway",
        "metadata": { "name": subject.name, "uid": subject.uid, "finalizers": [FINALIZER] },
    });
    api.patch(&subject.name, &force(), &Patch::Apply(patch))
        .await
        .map(drop)
        .map_err(|error| Stopped::kubernetes(&finalizer_of(&subject.name), &error))
}

/// No server-side apply: that leaves what another field manager has put there, as who restores a gateway
/// from a file does.
async fn remove_finalizer(context: &Context, gathered: &Gathered) -> Result<(), Stopped> {
    let subject = &gathered.snapshot.subject;
    let api: Api<TailnetGateway> = Api::all(context.client.clone());
    let failed = |error: &kube::Error| Stopped::kubernetes(&finalizer_of(&subject.name), error);
    let live = api
        .get_opt(&subject.name)
        .await
        .map_err(|error| failed(&error))?;
    let Some(live) = live.filter(|live| live.metadata.uid.as_deref() == Some(&*subject.uid)) else {
        return Ok(());
    };
    let mut left = live.metadata.finalizers.unwrap_or_default();
    left.retain(|name| name != FINALIZER);
    let patch = json!({ "metadata": {
        "uid": subject.uid, "resourceVersion": live.metadata.resource_version, "finalizers": left,
    } });
    match api
        .patch(&subject.name, &merge(), &Patch::Merge(patch))
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(failed(&error)),
        Ok(_) => Ok(()),
    }
}

fn finalizer_of(gateway: &str) -> String {
    format!("finalizer of {gateway}")
}

fn child(gathered: &mut Gathered, kind: Kind) -> Option<&mut Child> {
    let mut all = gathered.snapshot.children.iter_mut();
    all.find(|child| child.kind == kind)
}

async fn apply(context: &Context, gathered: &mut Gathered, kind: Kind) -> Result<(), Stopped> {
    let api = Family::of(kind).api(&context.client, &context.settings.namespace);
    let Some(child) = child(gathered, kind) else {
        return Ok(());
    };
    let applied = api
        .patch(&child.name, &force(), &Patch::Apply(&child.desired))
        .await
        .map_err(|error| {
            Stopped::kubernetes(&format!("{} {}", kind.as_str(), child.name), &error)
        })?;
    child.live = serde_json::to_value(applied).ok();
    let child = child.clone();
    let uid = gathered.snapshot.subject.uid.clone();
    let mut known = context.known();
    let writes = &mut known.entry(uid).or_default().writes;
    writes.note(&child, Instant::now());
    Ok(())
}

async fn delete_child(
    context: &Context,
    gathered: &mut Gathered,
    kind: Kind,
) -> Result<(), Stopped> {
    let api = Family::of(kind).api(&context.client, &context.settings.namespace);
    let Some(child) = child(gathered, kind) else {
        return Ok(());
    };
    let this_one = DeleteParams::background().preconditions(Preconditions {
        uid: child.live_uid(),
        resource_version: None,
    });
    match api.delete(&child.name, &this_one).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => {
            let what = format!("{} {}", kind.as_str(), child.name);
            return Err(Stopped::kubernetes(&what, &error));
        }
        Ok(_) => {}
    }
    child.live = None;
    Ok(())
}

async fn delete<K>(context: &Context, name: &str) -> Result<(), Stopped>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), &context.settings.namespace);
    match api.delete(name, &DeleteParams::background()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Stopped::kubernetes(
            &format!("{} {name}", K::kind(&())),
            &error,
        )),
        Ok(_) => Ok(()),
    }
}

/// Creates an object with the marks of this gateway; one that exists is left alone.
async fn create(
    context: &Context,
    name: &str,
    gathered: &Gathered,
    mut body: Value,
) -> Result<Value, Stopped> {
    let subject = &gathered.snapshot.subject;
    let kind = body
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if let Some(body) = body.as_object_mut() {
        body.insert("apiVersion".to_owned(), "v1".into());
        let metadata = body.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("name".to_owned(), name.into());
            metadata.insert(
                "labels".to_owned(),
                json!({ MANAGED_BY: MANAGER, "app.kubernetes.io/instance": subject.name }),
            );
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(UID.to_owned(), subject.uid.clone().into());
            }
        }
    }
    let resource = match kind.as_str() {
        "ConfigMap" => kube::api::ApiResource::erase::<ConfigMap>(&()),
        _ => kube::api::ApiResource::erase::<Secret>(&()),
    };
    let what = format!("{kind} {name}");
    let failed = |error: &kube::Error| Stopped::kubernetes(&what, error);
    let object =
        serde_json::from_value(body).map_err(|error| failed(&kube::Error::SerdeError(error)))?;
    let api: Api<kube::api::DynamicObject> = Api::namespaced_with(
        context.client.clone(),
        &context.settings.namespace,
        &resource,
    );
    let created = api
        .create(&created(), &object)
        .await
        .map_err(|error| failed(&error))?;
    serde_json::to_value(created).map_err(|error| failed(&kube::Error::SerdeError(error)))
}

fn names(gathered: &Gathered) -> Names {
    match gathered.snapshot.spec.gateway() {
        Some(gateway) => Names::of(gateway),
        // No plan has such a step without a valid spec.
        None => Names {
            gateway: String::new(),
            pod: String::new(),
            dns_service: String::new(),
            headless_service: String::new(),
            config_map: String::new(),
            state_secret: String::new(),
            key_secret: String::new(),
            receipt: String::new(),
        },
    }
}

fn nodes(gathered: &Gathered) -> impl Iterator<Item = headscale::Node> + use<> {
    let nodes: Vec<_> = gathered
        .snapshot
        .nodes()
        .into_iter()
        .flat_map(NodeList::iter)
        .cloned()
        .collect();
    nodes.into_iter()
}

fn server(gathered: &Gathered) -> Result<Arc<NodeCache>, Stopped> {
    gathered
        .server
        .clone()
        .ok_or_else(|| Stopped::Changed("the tailnet's API key".to_owned()))
}

pub(super) fn force() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

pub(super) fn created() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn merge() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
