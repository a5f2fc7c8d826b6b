//! Reads everything about one gateway.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::Api;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use tsunaro_model::finding::{Finding, Position};
use tsunaro_model::gateway::{
    Egress, Gateway, Located, Object, Tailnet, check_together, wanted_routes,
};

use super::egresses::{self, Egresses};
use super::failure::Stopped;
use super::kinds::Family;
use super::{Context, conflicts};
use crate::crd::{self, TailnetGateway};
use crate::handover;
use crate::headscale::NodeCache;
use crate::reconcile::marks::{FINALIZER, FORGET_NODE, RENEW_LOGIN};
use crate::reconcile::{
    self, Agent, Child, Control, KeyFate, KeyNotes, KeySecret, Kind, Owner, Receipt, Snapshot,
    Spec, StateSecret, Subject, digest, key_notes, key_secret, pod, receipt, state_secret,
};
use crate::render::{Input, Names, render};

/// A snapshot, and what carrying out its plan needs besides.
pub(super) struct Gathered {
    pub(super) snapshot: Snapshot,
    /// `resourceVersion` of the key Secret.
    pub(super) key_version: Option<String>,
    /// Headscale, if there is a key for it.
    pub(super) server: Option<Arc<NodeCache>>,
    /// The list of nodes was asked for by this pass.
    pub(super) fresh: bool,
}

/// None while the tailnet has not been asked for the first time.
pub(super) async fn gather(
    context: &Context,
    object: &TailnetGateway,
) -> Result<Option<Gathered>, Stopped> {
    let subject = subject(context, object);
    let (tailnet, tailnet_error) = match context
        .stores
        .tailnets
        .get(&ObjectRef::new(&object.spec.tailnet_ref.name))
    {
        None => (None, None),
        Some(found) => match crd::tailnet(&found) {
            Ok((tailnet, _)) => (Some(tailnet), None),
            Err(invalid) => (None, Some(invalid.to_string())),
        },
    };
    let egresses = egresses::of(context, &object.spec.tailnet_ref.name, tailnet.as_ref());
    let spec = spec(context, object, tailnet.as_ref(), &egresses);
    let Some(gateway) = spec.gateway().cloned() else {
        return Ok(Some(without_spec(context, subject, spec, tailnet)));
    };
    let names = Names::of(&gateway);
    let namespace = &context.settings.namespace;
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let (state, key, written) = tokio::try_join!(
        read(&secrets, "Secret", &names.state_secret),
        read(&secrets, "Secret", &names.key_secret),
        read(&maps, "ConfigMap", &names.receipt),
    )?;
    let receipt = receipt(written.as_ref(), &subject.uid);
    let fresh = !receipt.is_ours() || subject.deleting;
    let Some((control, policy, server)) =
        control(context, object, tailnet.is_some(), tailnet_error, fresh).await
    else {
        return Ok(None);
    };
    let children = children(
        context,
        &gateway,
        tailnet.as_ref(),
        &egresses.taken,
        &subject.uid,
    )
    .await?;
    let contested = context
        .known()
        .get(&subject.uid)
        .map(|known| known.writes.contested(&children, Instant::now()))
        .unwrap_or_default();
    let pod_object = match foreign_pod(&children, &subject.uid) {
        true => None,
        false => pod_of(context, &gateway.name, &names.pod, fresh).await?,
    };
    let pod = pod_object.as_deref().map(pod);
    let agent = agent_of(context, &subject.name, pod.as_ref());
    let key_version = key.as_ref().and_then(ResourceExt::resource_version);
    let mut notes = key_notes(key.as_ref(), &subject.uid);
    let key = key_secret(key.as_ref(), &subject.uid);
    notes.minted = minted(context, &key, &subject.uid);
    notes.strays = strays(context, &key, &subject.uid);
    let key_fate = fate(server.as_deref(), &key, &agent).await;
    let mounts = mounts(context, &children, tailnet.as_ref(), &key);
    let state = state_secret(state.as_ref(), &subject.uid, &receipt);
    Ok(Some(Gathered {
        key_version,
        server,
        fresh,
        snapshot: Snapshot {
            subject,
            spec,
            tailnet,
            control,
            policy,
            state,
            key,
            notes,
            key_fate,
            receipt,
            children,
            pod,
            mounts,
            agent,
            busy: handover::busy(context, &object.spec.tailnet_ref.name),
            contested,
        },
    }))
}

fn subject(context: &Context, object: &TailnetGateway) -> Subject {
    let uid = object.uid().unwrap_or_default();
    let known = context.known();
    let written = known.get(&uid).and_then(|known| known.written.as_ref());
    let before = match written {
        Some((version, status)) if *version == object.resource_version() => status.clone(),
        _ => object.status.clone().unwrap_or_default(),
    };
    Subject {
        name: object.name_any(),
        generation: object.metadata.generation.unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|name| name == FINALIZER),
        deletion_policy: object.spec.deletion_policy,
        forget_node: object.annotations().get(FORGET_NODE).map(String::as_str) == Some("true"),
        renew: object.annotations().get(RENEW_LOGIN).cloned(),
        before,
        uid,
    }
}

fn spec(
    context: &Context,
    object: &TailnetGateway,
    tailnet: Option<&Tailnet>,
    egresses: &Egresses,
) -> Spec {
    let (mut gateway, warnings) = match crd::gateway(object) {
        Ok(valid) => valid,
        Err(invalid) => return Spec::Invalid(invalid.to_string()),
    };
    gateway.uid = object.uid();
    if object.metadata.deletion_timestamp.is_none() {
        if let Some(conflict) = conflicts::with_older(object, &context.stores.gateways.state()) {
            return Spec::Invalid(conflict);
        }
        if let Some(reserved) = tailnet.and_then(|tailnet| reserved(&gateway, tailnet)) {
            return Spec::Invalid(reserved);
        }
    }
    Spec::Valid {
        wanted: wanted_routes(&gateway, &egresses.taken),
        warnings: warnings
            .iter()
            .map(sentence)
            .chain(left_out(&gateway, egresses).iter().cloned())
            .collect(),
        gateway: Box::new(gateway),
    }
}

/// What the tailnet reserves and the gateway would advertise.
fn reserved(gateway: &Gateway, tailnet: &Tailnet) -> Option<String> {
    let position = Position { line: 1, column: 1 };
    let located = |object| Located { object, position };
    let objects = [
        located(Object::Tailnet(Box::new(tailnet.clone()))),
        located(Object::Gateway(Box::new(gateway.clone()))),
    ];
    let findings = check_together(&objects.iter().collect::<Vec<_>>());
    findings
        .iter()
        .find(|(_, finding)| finding.is_error())
        .map(|(_, finding)| sentence(finding))
}

fn sentence(finding: &Finding) -> String {
    format!("{}: {}; {}", finding.field, finding.what, finding.fix)
}

fn left_out<'e>(gateway: &Gateway, egresses: &'e Egresses) -> &'e [String] {
    if gateway.routes.advertise_egress_targets {
        &egresses.left_out
    } else {
        &[]
    }
}

fn agent_of(context: &Context, gateway: &str, pod: Option<&reconcile::Pod>) -> Agent {
    match pod.and_then(|pod| pod.address.as_ref()) {
        Some(address) => context.agents.follow(gateway, address),
        None => {
            context.agents.forget(gateway);
            Agent::Absent
        }
    }
}

/// What may run goes on, and is shown, but nothing is decided from it.
fn without_spec(
    context: &Context,
    subject: Subject,
    spec: Spec,
    tailnet: Option<Tailnet>,
) -> Gathered {
    let pod = context.pod_of(&subject.name).as_deref().map(pod);
    let agent = agent_of(context, &subject.name, pod.as_ref());
    Gathered {
        key_version: None,
        server: None,
        fresh: false,
        snapshot: Snapshot {
            control: Control::Unreachable("the spec is not valid".to_owned()),
            subject,
            spec,
            tailnet,
            policy: None,
            state: StateSecret::Missing,
            key: KeySecret::Missing,
            notes: KeyNotes::default(),
            key_fate: None,
            receipt: Receipt::Missing,
            children: Vec::new(),
            pod,
            mounts: String::new(),
            agent,
            busy: BTreeSet::new(),
            contested: BTreeSet::new(),
        },
    }
}

/// Asks for the nodes now, so that what follows is decided upon what is.
pub(super) async fn refresh(context: &Context, gathered: &mut Gathered) {
    gathered.fresh = true;
    let Some(server) = &gathered.server else {
        return;
    };
    server.invalidate();
    let nodes = server.nodes().await;
    // A handover that began or ended meanwhile counts.
    if let Some(tailnet) = &gathered.snapshot.tailnet {
        let busy = handover::busy(context, &tailnet.name);
        gathered.snapshot.busy.extend(busy);
    }
    gathered.snapshot.control = match nodes {
        Ok(nodes) => Control::Listed(nodes),
        Err(error) => Control::Unreachable(error.to_string()),
    };
}

/// The mints of the last hour, with those that only this process knows of.
fn minted(context: &Context, key: &KeySecret, uid: &str) -> Vec<Timestamp> {
    let now = Timestamp::now();
    let mut known = context.known();
    let minted = &mut known.entry(uid.to_owned()).or_default().minted;
    minted.extend(key.minted_lately(now));
    minted.retain(|at| reconcile::counts(*at, now));
    minted.iter().copied().collect()
}

/// Keys of this gateway besides the one in the Secret, by their ends: who deletes that leaves them usable.
fn strays(context: &Context, key: &KeySecret, uid: &str) -> BTreeSet<Timestamp> {
    let now = Timestamp::now();
    let current = match key {
        KeySecret::Holding { expiration, .. } | KeySecret::Intended { expiration, .. } => {
            Some(*expiration)
        }
        _ => None,
    };
    let mut known = context.known();
    let keys = &mut known.entry(uid.to_owned()).or_default().keys;
    keys.extend(current);
    keys.retain(|end| *end > now);
    keys.iter()
        .copied()
        .filter(|end| Some(*end) != current)
        .collect()
}

/// What became of the key in the Secret, if the agent says that it was refused.
async fn fate(server: Option<&NodeCache>, key: &KeySecret, agent: &Agent) -> Option<KeyFate> {
    let KeySecret::Holding { id, .. } = key else {
        return None;
    };
    let Agent::Reported(report) = agent else {
        return None;
    };
    let refused = |condition: &tsunaro_model::report::Condition| {
        condition.kind == "TailnetReady" && condition.reason == "LoginRefused"
    };
    if !report.conditions.iter().any(refused) {
        return None;
    }
    let keys = server?.source().keys().await.ok()?;
    let now = Timestamp::now();
    Some(match keys.iter().find(|key| key.id == *id) {
        Some(key) if key.is_usable(now) => KeyFate::Usable,
        Some(key) if key.used => KeyFate::Used,
        Some(_) | None => KeyFate::Gone,
    })
}

type Asked = (Control, Option<Arc<Value>>, Option<Arc<NodeCache>>);

async fn control(
    context: &Context,
    object: &TailnetGateway,
    valid: bool,
    invalid: Option<String>,
    fresh: bool,
) -> Option<Asked> {
    if let Some(why) = invalid {
        return Some((Control::BadTailnet(why), None, None));
    }
    if !valid {
        return Some((Control::NoTailnet, None, None));
    }
    let view = context.hub.view(&object.spec.tailnet_ref.name)?;
    let server = match &view.server {
        Ok(server) => Arc::clone(server),
        Err(why) => return Some((Control::NoApiKey(why.clone()), None, None)),
    };
    let nodes = if fresh {
        server.nodes().await.map_err(|error| error.to_string())
    } else {
        view.nodes.clone()
    };
    let control = match nodes {
        Ok(nodes) => Control::Listed(nodes),
        Err(why) => Control::Unreachable(why),
    };
    Some((control, view.policy.clone(), Some(server)))
}

async fn children(
    context: &Context,
    gateway: &Gateway,
    tailnet: Option<&Tailnet>,
    egresses: &[Egress],
    uid: &str,
) -> Result<Vec<Child>, Stopped> {
    let namespace = &context.settings.namespace;
    let rendered = render(&Input {
        gateway,
        tailnet,
        egresses,
        namespace,
    });
    let values = rendered
        .to_values()
        .map_err(|error| Stopped::kubernetes("rendering", &kube::Error::SerdeError(error)))?;
    let mut children = Vec::with_capacity(values.len());
    for (kind, desired) in Kind::ALL.into_iter().zip(values) {
        let mut child = Child::new(kind, desired, uid, None);
        let family = Family::of(kind);
        child.live = context.stores.object(family, namespace, &child.name);
        if child.live.is_none() {
            // The watch sees objects with our label only, and may be late.
            let api = family.api(&context.client, namespace);
            let found = read(&api, kind.as_str(), &child.name).await?;
            child.live = found.and_then(|object| serde_json::to_value(object).ok());
        }
        children.push(child);
    }
    Ok(children)
}

async fn pod_of(
    context: &Context,
    gateway: &str,
    name: &str,
    live: bool,
) -> Result<Option<Arc<Pod>>, Stopped> {
    if live {
        let namespace = &context.settings.namespace;
        let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
        let found: Option<Pod> = read(&api, "Pod", name).await?;
        // One of the same name that is somebody else's is no Pod of ours.
        return Ok(found.filter(|pod| is_of(pod, gateway)).map(Arc::new));
    }
    Ok(context.pod_of(gateway))
}

/// Whether the StatefulSet of this name, and so its Pod, is somebody else's.
fn foreign_pod(children: &[Child], uid: &str) -> bool {
    let mut children = children.iter();
    let workload = children.find(|child| child.kind == Kind::StatefulSet);
    workload.is_some_and(|child| matches!(child.owner(uid), Owner::Foreign(_)))
}

fn is_of(pod: &Pod, gateway: &str) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "StatefulSet" && owner.name == gateway)
}

async fn read<K>(api: &Api<K>, kind: &str, name: &str) -> Result<Option<K>, Stopped>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.get_opt(name)
        .await
        .map_err(|error| Stopped::kubernetes(&format!("{kind} {name}"), &error))
}

/// A digest of what the Pod mounts and what may change while it runs.
fn mounts(
    context: &Context,
    children: &[Child],
    tailnet: Option<&Tailnet>,
    key: &KeySecret,
) -> String {
    let config = children
        .iter()
        .find(|child| child.kind == Kind::ConfigMap)
        .and_then(|child| child.desired.get("data").cloned());
    let hosts = tailnet
        .and_then(|tailnet| tailnet.hosts.as_ref())
        .and_then(|hosts| {
            let namespace = &context.settings.namespace;
            let map = context
                .stores
                .object(Family::ConfigMap, namespace, &hosts.name)?;
            map.get("data")?.get(&hosts.key).cloned()
        });
    let key = key.id().map(|id| id.to_string());
    digest(&json!({ "config": config, "hosts": hosts, "key": key }))
}
