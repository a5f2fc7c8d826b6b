//! The hosts file of a tailnet.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, Patch};
use serde_json::json;
use tsunaro_model::gateway::{self, Egress, HostsFile, Ingress, Source, hosts_file};

use super::conditions::State;
use super::conflicts::{self, age};
use super::failure::words;
use super::{Context, apply, egresses};
use crate::crd;
use crate::reconcile::marks::{HOSTS_OF, MANAGED_BY, MANAGER};
use crate::reconcile::names::reason;

/// Octets of a ConfigMap's data at most.
const LONGEST: usize = 1 << 20;

/// Writes the hosts file, unless somebody else does.
///
/// # Errors
/// What is wrong with it, for the Tailnet's status.
pub(super) async fn write(
    context: &Context,
    object: &crd::Tailnet,
    tailnet: &gateway::Tailnet,
) -> Result<(), State> {
    let Some(gateway::KeyRef { name, key }) = &tailnet.hosts else {
        return Ok(());
    };
    let namespace = &context.settings.namespace;
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let failed = |what: &str, error: &kube::Error| {
        let why = format!("ConfigMap {name} cannot be {what}: {}", words(error));
        State::fault(reason::HOSTS_NOT_WRITTEN, why)
    };
    let live = api
        .get_opt(name)
        .await
        .map_err(|error| failed("read", &error))?;
    if let Some(live) = &live {
        if live.labels().get(MANAGED_BY).map(String::as_str) != Some(MANAGER) {
            return Ok(());
        }
        if !live.annotations().contains_key(HOSTS_OF) {
            let why = format!(
                "hostsConfigMap: ConfigMap {name} is the controller's, and has no hosts file (it lacks the annotation \
                 {HOSTS_OF}); name another one"
            );
            return Err(State::fault(reason::HOSTS_TAKEN, why));
        }
    }
    if let Some(other) = older_writer(context, object, name) {
        let why = format!(
            "hostsConfigMap: the names of Tailnet {other} are written into ConfigMap {name}, and they stay; name \
             another one"
        );
        return Err(State::fault(reason::HOSTS_TAKEN, why));
    }
    let HostsFile { text, left_out } = file(context, tailnet);
    let old = live.as_ref().and_then(|map| map.data.as_ref()?.get(key));
    if old != Some(&text) {
        // Nothing that came or changed since it was read is written over.
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "uid": live.as_ref().and_then(ResourceExt::uid),
                "resourceVersion": live.as_ref().and_then(ResourceExt::resource_version),
                "labels": { MANAGED_BY: MANAGER },
                "annotations": { HOSTS_OF: tailnet.name },
            },
            "data": { key: text },
        });
        let written = match &live {
            Some(_) => api.patch(name, &apply::force(), &Patch::Apply(map)).await,
            None => {
                let map = serde_json::from_value(map).map_err(kube::Error::SerdeError);
                let map = map.map_err(|error| failed("written", &error))?;
                api.create(&apply::created(), &map).await
            }
        };
        match written {
            Ok(_) => {}
            // The watch brings what came between, and then it is looked at again.
            Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
            Err(error) => return Err(failed("written", &error)),
        }
        tracing::info!(config_map = %name, "Wrote the hosts file");
    }
    if left_out > 0 {
        let why = format!(
            "ConfigMap {name} has no room for {left_out} names of the youngest TailnetEgresses and TailnetIngresses: \
             it takes {LONGEST} octets; delete some"
        );
        return Err(State::fault(reason::HOSTS_INCOMPLETE, why));
    }
    Ok(())
}

/// The names, those of the oldest objects first: a new one takes the place of no other.
fn file(context: &Context, tailnet: &gateway::Tailnet) -> HostsFile {
    let ingresses: Vec<(_, Ingress)> = context
        .stores
        .ingresses
        .state_filter(|ingress| ingress.spec.tailnet_ref.name == tailnet.name)
        .iter()
        .filter_map(|object| Some((egresses::rank(object.as_ref()), crd::ingress(object).ok()?)))
        .collect();
    let egresses = egresses::valid(context, &tailnet.name);
    let not_reserved = |egress: &&(_, Egress)| !egresses::is_reserved(&egress.1, Some(tailnet));
    let mut sources: Vec<_> = egresses
        .iter()
        .filter(not_reserved)
        .map(|(rank, egress)| (rank, Source::Egress(egress)))
        .chain(
            ingresses
                .iter()
                .map(|(rank, ingress)| (rank, Source::Ingress(ingress))),
        )
        .collect();
    sources.sort_by_key(|(rank, _)| *rank);
    let sources = sources.into_iter().map(|(_, source)| source);
    hosts_file(tailnet, sources, LONGEST)
}

/// Which older Tailnet has its names written into the same ConfigMap: two would write over each other.
/// One that is somebody else's they may both read.
fn older_writer(context: &Context, object: &crd::Tailnet, name: &str) -> Option<String> {
    let all = context.stores.tailnets.state();
    let older = conflicts::older(object, &all).filter(|other| {
        let dns = other.spec.dns.as_ref();
        let theirs = dns.and_then(|dns| dns.hosts_config_map.as_ref());
        theirs.is_some_and(|theirs| theirs.name == name)
            && other.metadata.deletion_timestamp.is_none()
            // One that is not valid writes nothing.
            && crd::tailnet(other).is_ok()
    });
    let first = older.min_by_key(|other| age(other.as_ref()))?;
    Some(first.name_any())
}
