//! What the API server has, as far as it is watched. Secrets are not: only those of a gateway are
//! read, one by one, so that the controller needs no right to list all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, TypeMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::kinds::Family;
use super::{Hub, Trigger, watch};
use crate::crd::{Tailnet, TailnetEgress, TailnetGateway, TailnetIngress, TailnetSite};
use crate::handover;
use crate::reconcile::marks::{MANAGED_BY, MANAGER};
use crate::tasks::Tasks;

/// The label with a gateway's name.
const INSTANCE: &str = "app.kubernetes.io/instance";

/// Everything that is watched.
#[derive(Clone)]
pub struct Stores {
    /// Gateways.
    pub gateways: Store<TailnetGateway>,
    /// Tailnets.
    pub tailnets: Store<Tailnet>,
    /// Egresses of all namespaces.
    pub egresses: Store<TailnetEgress>,
    /// Ingresses of all namespaces.
    pub ingresses: Store<TailnetIngress>,
    /// Sites.
    pub sites: Store<TailnetSite>,
    /// Pods of gateways.
    pub pods: Store<Pod>,
    objects: BTreeMap<Family, Store<DynamicObject>>,
}

/// The other ends of the stores.
pub struct Watches {
    gateways: Writer<TailnetGateway>,
    tailnets: Writer<Tailnet>,
    egresses: Writer<TailnetEgress>,
    ingresses: Writer<TailnetIngress>,
    sites: Writer<TailnetSite>,
    pods: Writer<Pod>,
    objects: Vec<(Family, Writer<DynamicObject>)>,
}

impl Stores {
    /// Empty stores and what fills them.
    pub fn new() -> (Self, Watches) {
        let watches = Watches {
            gateways: Writer::default(),
            tailnets: Writer::default(),
            egresses: Writer::default(),
            ingresses: Writer::default(),
            sites: Writer::default(),
            pods: Writer::default(),
            objects: Family::ALL
                .into_iter()
                .map(|family| (family, Writer::new(family.resource())))
                .collect(),
        };
        let stores = Self {
            gateways: watches.gateways.as_reader(),
            tailnets: watches.tailnets.as_reader(),
            egresses: watches.egresses.as_reader(),
            ingresses: watches.ingresses.as_reader(),
            sites: watches.sites.as_reader(),
            pods: watches.pods.as_reader(),
            objects: watches
                .objects
                .iter()
                .map(|(family, writer)| (*family, writer.as_reader()))
                .collect(),
        };
        (stores, watches)
    }

    /// Waits until each has been filled once.
    pub async fn filled(&self) -> anyhow::Result<()> {
        self.gateways.wait_until_ready().await?;
        self.tailnets.wait_until_ready().await?;
        self.egresses.wait_until_ready().await?;
        self.ingresses.wait_until_ready().await?;
        self.sites.wait_until_ready().await?;
        self.pods.wait_until_ready().await?;
        for store in self.objects.values() {
            store.wait_until_ready().await?;
        }
        Ok(())
    }

    /// An object as JSON, if it is watched and there.
    pub(super) fn object(&self, family: Family, namespace: &str, name: &str) -> Option<Value> {
        let reference = ObjectRef::new_with(name, family.resource()).within(namespace);
        let object = self.objects.get(&family)?.get(&reference)?;
        typed(object.as_ref().clone(), family)
    }

    /// The ConfigMaps with this label, as JSON.
    pub(crate) fn config_maps(&self, label: &str, value: &str) -> Vec<Value> {
        let maps = self.objects.get(&Family::ConfigMap).map(Store::state);
        maps.into_iter()
            .flatten()
            .filter(|map| map.labels().get(label).is_some_and(|has| has == value))
            .filter_map(|map| serde_json::to_value(map.as_ref()).ok())
            .collect()
    }

    /// The gateways of a tailnet.
    pub(crate) fn gateways_of(&self, tailnet: &str) -> Vec<Arc<TailnetGateway>> {
        self.gateways
            .state_filter(|gateway| gateway.spec.tailnet_ref.name == tailnet)
    }
}

impl Watches {
    /// Starts a task for each kind.
    pub fn start(
        self,
        tasks: &mut Tasks,
        client: &Client,
        namespace: &str,
        stores: &Stores,
        trigger: &Trigger,
        hub: &Hub,
    ) {
        let Self {
            gateways,
            tailnets,
            egresses,
            ingresses,
            sites,
            pods,
            objects,
        } = self;
        let all = watcher::Config::default();
        let ours = watcher::Config::default().labels(&format!("{MANAGED_BY}={MANAGER}"));
        let notes = Notes {
            stores: stores.clone(),
            trigger: trigger.clone(),
            hub: hub.clone(),
        };

        let told = notes.clone();
        let changed = move |gateway: TailnetGateway| {
            let told = told.clone();
            async move {
                told.hub.changed(&gateway.spec.tailnet_ref.name);
                told.trigger.gateway(&gateway.name_any()).await;
            }
        };
        let api = Api::all(client.clone());
        let follow = watch::follow("TailnetGateway", api, all.clone(), gateways, changed);
        tasks.start("watch of gateways", follow);

        let told = notes.clone();
        let changed = move |tailnet: Tailnet| {
            let told = told.clone();
            async move { told.tailnet(&tailnet.name_any()).await }
        };
        let api = Api::all(client.clone());
        let follow = watch::follow("Tailnet", api, all.clone(), tailnets, changed);
        tasks.start("watch of tailnets", follow);

        let told = notes.clone();
        let changed = move |egress: TailnetEgress| {
            let told = told.clone();
            async move { told.tailnet(&egress.spec.tailnet_ref.name).await }
        };
        let api = Api::all(client.clone());
        let follow = watch::follow("TailnetEgress", api, all.clone(), egresses, changed);
        tasks.start("watch of egresses", follow);

        let told = notes.clone();
        let changed = move |ingress: TailnetIngress| {
            told.hub.changed(&ingress.spec.tailnet_ref.name);
            std::future::ready(())
        };
        let api = Api::all(client.clone());
        let follow = watch::follow("TailnetIngress", api, all.clone(), ingresses, changed);
        tasks.start("watch of ingresses", follow);

        let told = notes.clone();
        let changed = move |site: TailnetSite| {
            told.hub.hurry(&site.spec.tailnet_ref.name);
            std::future::ready(())
        };
        let api = Api::all(client.clone());
        let follow = watch::follow("TailnetSite", api, all.clone(), sites, changed);
        tasks.start("watch of sites", follow);

        let told = notes.clone();
        let changed = move |pod: Pod| {
            let told = told.clone();
            async move { told.instance(&pod).await }
        };
        let api = Api::namespaced(client.clone(), namespace);
        let follow = watch::follow("Pod", api, ours.clone(), pods, changed);
        tasks.start("watch of Pods", follow);

        for (family, writer) in objects {
            let told = notes.clone();
            let changed = move |object: DynamicObject| {
                let told = told.clone();
                async move {
                    told.instance(&object).await;
                    if family == Family::ConfigMap {
                        if object.labels().contains_key(handover::LABEL) {
                            told.hub.notice_handover();
                        }
                        told.hosts(&object.name_any()).await;
                    }
                }
            };
            // A hosts file may be somebody else's, without a label of ours.
            let config = if family == Family::ConfigMap {
                &all
            } else {
                &ours
            };
            let api = family.api(client, namespace);
            let follow = watch::follow(family_name(family), api, config.clone(), writer, changed);
            tasks.start("watch of objects", follow);
        }
    }
}

/// An object as JSON, with its kind: those of a list come without.
fn typed(mut object: DynamicObject, family: Family) -> Option<Value> {
    let resource = family.resource();
    object.types = Some(TypeMeta {
        api_version: resource.api_version,
        kind: resource.kind,
    });
    serde_json::to_value(object).ok()
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::ServiceAccount => "ServiceAccount",
        Family::Role => "Role",
        Family::RoleBinding => "RoleBinding",
        Family::DisruptionBudget => "PodDisruptionBudget",
        Family::Service => "Service",
        Family::ConfigMap => "ConfigMap",
        Family::StatefulSet => "StatefulSet",
    }
}

/// Who is to be told of a change.
#[derive(Clone)]
struct Notes {
    stores: Stores,
    trigger: Trigger,
    hub: Hub,
}

impl Notes {
    /// All gateways of a tailnet, and the tailnet itself.
    async fn tailnet(&self, name: &str) {
        self.hub.changed(name);
        for gateway in self.stores.gateways_of(name) {
            self.trigger.gateway(&gateway.name_any()).await;
        }
    }

    /// The gateway that an object is labelled with.
    async fn instance(&self, object: &impl ResourceExt) {
        if object.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER)
            && let Some(name) = object.labels().get(INSTANCE)
        {
            self.trigger.gateway(name).await;
        }
    }

    /// The gateways that serve names from this ConfigMap.
    async fn hosts(&self, name: &str) {
        let tailnets = self.stores.tailnets.state_filter(|tailnet| {
            let dns = tailnet.spec.dns.as_ref();
            dns.and_then(|dns| dns.hosts_config_map.as_ref())
                .is_some_and(|reference| reference.name == name)
        });
        for tailnet in tailnets {
            self.tailnet(&tailnet.name_any()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;

    use super::*;

    #[test]
    fn an_object_of_a_list_has_its_kind_although_the_list_does_not_say_it() {
        let listed = DynamicObject {
            types: None,
            metadata: ObjectMeta::default(),
            data: serde_json::json!({ "rules": [] }),
        };
        let value = typed(listed, Family::Role).unwrap();
        assert_eq!(value["kind"], "Role");
        assert_eq!(value["apiVersion"], "rbac.authorization.k8s.io/v1");
        assert_eq!(value["rules"], serde_json::json!([]));
    }
}
