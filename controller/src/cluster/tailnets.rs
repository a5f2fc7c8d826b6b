//! One round over a tailnet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::{Api, Patch};
use serde_json::{Value, json};
use tsunaro_model::gateway::{self, Egress, hosts_file, wanted_routes};

use super::conflicts::age;
use super::failure::words;
use super::hub::View;
use super::kinds::Family;
use super::{Context, apply, conditions, gather, sites};
use crate::crd;
use crate::headscale::{ApiKey, Headscale, Node, NodeCache, NodeList, ServerUrl, Trust};
use crate::metrics::TailnetLabel;
use crate::reconcile::marks::{MANAGED_BY, MANAGER};
use crate::reconcile::names::{condition, reason};
use crate::reconcile::policy::{self, Need};

/// Lists of nodes that passes ask for are shared for this long.
const SHARED: Duration = Duration::from_millis(500);

/// What is kept between rounds.
pub(super) struct Tailnet {
    name: String,
    /// The key's text and the server that it was made for.
    server: Option<(String, String, Arc<NodeCache>)>,
    policy: Option<Arc<Value>>,
    policy_said: (bool, &'static str, String),
    /// What each gateway was last shown of the nodes.
    shown: BTreeMap<String, String>,
}

impl Tailnet {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            server: None,
            policy: None,
            policy_said: (true, reason::POLICY_CURRENT, String::new()),
            shown: BTreeMap::new(),
        }
    }

    /// Lists the nodes; if `slow`, also looks at the key, the policy and the hosts file.
    pub(super) async fn round(&mut self, context: &Context, object: &crd::Tailnet, slow: bool) {
        let Ok((tailnet, _)) = crd::tailnet(object) else {
            // Each gateway says so.
            self.trigger_all(context).await;
            return;
        };
        let hosts_taken = hosts_taken(context, object);
        if slow && hosts_taken.is_none() {
            hosts(context, &tailnet).await;
        }
        let server = self.server(context, &tailnet, slow).await;
        let nodes = match &server {
            Ok(server) => {
                context.metrics.node_lists.inc();
                server.invalidate();
                server.nodes().await.map_err(|error| error.to_string())
            }
            Err(why) => Err(why.clone()),
        };
        let label = TailnetLabel {
            tailnet: self.name.clone(),
        };
        let reachable = context.metrics.reachable.get_or_create_owned(&label);
        reachable.set(i64::from(nodes.is_ok()));
        if slow
            && let Ok(server) = &server
            && nodes.is_ok()
        {
            self.policy(context, &tailnet, server).await;
        }
        let first = context.hub.view(&self.name).is_none();
        context.hub.set(
            &self.name,
            View {
                server: server.clone(),
                nodes: nodes.clone(),
                policy: self.policy.clone(),
            },
        );
        self.say(context, object, hosts_taken, &server, &nodes)
            .await;
        sites::say(context, &tailnet, nodes.as_deref()).await;
        if first {
            self.trigger_all(context).await;
        }
        self.trigger_changed(context, &nodes).await;
    }

    async fn server(
        &mut self,
        context: &Context,
        tailnet: &gateway::Tailnet,
        slow: bool,
    ) -> Result<Arc<NodeCache>, String> {
        let made_for = format!("{} {:?}", tailnet.url, tailnet.ca_bundle);
        if !slow
            && let Some((_, same, server)) = &self.server
            && *same == made_for
        {
            return Ok(Arc::clone(server));
        }
        let gateway::KeyRef { name, key } = &tailnet.api_key;
        let namespace = &context.settings.namespace;
        let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
        let secret = match api.get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => {
                return Err(format!(
                    "Secret {namespace}/{name} does not exist: create it with the API key in {key}"
                ));
            }
            Err(error) => return Err(format!("Secret {namespace}/{name}: {}", words(&error))),
        };
        let bytes = secret
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .map(|value| value.0.clone());
        let text = bytes
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| format!("Secret {namespace}/{name} has no text in {key}"))?;
        if let Some((same_key, same, server)) = &self.server
            && *same == made_for
            && *same_key == text
        {
            return Ok(Arc::clone(server));
        }
        let key =
            ApiKey::parse(&text).map_err(|error| format!("Secret {namespace}/{name}: {error}"))?;
        let url =
            ServerUrl::parse(&tailnet.url).map_err(|error| format!("headscale.url: {error}"))?;
        let trust = match &tailnet.ca_bundle {
            Some(pem) => Trust::only(pem.as_bytes()),
            None => Trust::public(),
        }
        .map_err(|error| format!("headscale.caBundle: {error}"))?;
        let server = Arc::new(NodeCache::new(Headscale::new(url, key, trust), SHARED));
        self.server = Some((text, made_for, Arc::clone(&server)));
        Ok(server)
    }

    async fn policy(&mut self, context: &Context, tailnet: &gateway::Tailnet, server: &NodeCache) {
        let gateways = context.stores.gateways_of(&self.name);
        if gateways.is_empty() {
            return;
        }
        let egresses = gather::egresses(context, &self.name);
        let needs = needs(&gateways, tailnet, &egresses);
        let result = self.policy_or_why(context, tailnet, server, &needs).await;
        self.policy_said = match result {
            Ok(missing) if missing.is_empty() => (
                true,
                reason::POLICY_CURRENT,
                "the policy has what the gateways need".to_owned(),
            ),
            Ok(missing) => (
                false,
                reason::LINES_MISSING,
                format!("the policy lacks: {}", missing.join("; ")),
            ),
            Err(why) => (false, reason::POLICY_FAILED, why),
        };
    }

    async fn policy_or_why(
        &mut self,
        context: &Context,
        tailnet: &gateway::Tailnet,
        server: &NodeCache,
        needs: &[Need],
    ) -> Result<Vec<String>, String> {
        let text = match server.source().policy().await {
            Ok(policy) => policy.map(|policy| policy.text).unwrap_or_default(),
            Err(error) => return Err(error.to_string()),
        };
        let mut current =
            policy::parse(&text).map_err(|error| format!("Headscale's policy: {error}"))?;
        if let gateway::Policy::Apply { base } = &tailnet.policy {
            let base = match base {
                Some(base) => base_policy(context, base)?,
                // Nothing is taken away from a policy that only Headscale has.
                None => current.clone(),
            };
            let wanted =
                policy::merge(&base, needs).map_err(|error| format!("the base policy: {error}"))?;
            if wanted != current {
                let text = format!("{wanted:#}");
                server
                    .source()
                    .set_policy(&text)
                    .await
                    .map_err(|error| error.to_string())?;
                tracing::info!(tailnet = %self.name, "Applied the policy");
                current = wanted;
            }
        }
        let missing = policy::missing(&current, needs);
        self.policy = Some(Arc::new(current));
        Ok(missing)
    }

    async fn say(
        &self,
        context: &Context,
        object: &crd::Tailnet,
        hosts_taken: Option<String>,
        server: &Result<Arc<NodeCache>, String>,
        nodes: &Result<Arc<NodeList>, String>,
    ) {
        let ready = match (server, nodes, hosts_taken) {
            (Err(why), _, _) => (false, reason::API_KEY_INVALID, why.clone()),
            (Ok(_), Err(why), _) => (false, reason::HEADSCALE_UNREACHABLE, why.clone()),
            (Ok(_), Ok(_), Some(why)) => (false, reason::HOSTS_TAKEN, why),
            (Ok(_), Ok(_), None) => (
                true,
                reason::HEADSCALE_REACHABLE,
                "Headscale answers".to_owned(),
            ),
        };
        let before = object.status.clone().unwrap_or_default();
        let conditions = [
            (condition::READY, &ready),
            (condition::POLICY_IN_SYNC, &self.policy_said),
        ]
        .into_iter()
        .map(|(kind, (status, reason, message))| {
            let status = if *status { "True" } else { "False" };
            let said = (kind, status, *reason, message.clone());
            conditions::dated(said, &before, object.metadata.generation)
        })
        .collect();
        let status = crd::Status {
            observed_generation: object.metadata.generation,
            conditions,
        };
        if status == before {
            return;
        }
        let api: Api<crd::Tailnet> = Api::all(context.client.clone());
        let patch =
            json!({ "apiVersion": "tsunaro.io/v1alpha1", "kind": "Tailnet", "status": status });
        if let Err(error) = api
            .patch_status(&self.name, &apply::force(), &Patch::Apply(patch))
            .await
        {
            tracing::warn!(tailnet = %self.name, error = %words(&error), "The status could not be written");
        }
    }

    async fn trigger_all(&self, context: &Context) {
        for gateway in context.stores.gateways_of(&self.name) {
            context.trigger.gateway(&gateway.name_any()).await;
        }
    }

    /// Triggers gateways for which this list shows something else than the last one.
    async fn trigger_changed(&mut self, context: &Context, nodes: &Result<Arc<NodeList>, String>) {
        let mut shown = BTreeMap::new();
        for gateway in context.stores.gateways_of(&self.name) {
            let view = match nodes {
                Ok(nodes) => seen_by(&gateway, nodes),
                Err(why) => why.clone(),
            };
            let name = gateway.name_any();
            if self.shown.get(&name).is_some_and(|old| *old != view) {
                context.trigger.gateway(&name).await;
            }
            shown.insert(name, view);
        }
        self.shown = shown;
    }
}

/// What a gateway's verdict reads of a list: its own nodes, and who serves its prefixes.
fn seen_by(gateway: &crd::TailnetGateway, nodes: &NodeList) -> String {
    let routes = gateway
        .status
        .as_ref()
        .map(|status| status.routes.as_slice())
        .unwrap_or_default();
    let prefixes: Vec<IpNet> = routes
        .iter()
        .filter_map(|route| route.prefix.parse().ok())
        .collect();
    let own: Vec<_> = nodes
        .with_hostname(&gateway.spec.hostname)
        .map(|node: &Node| {
            (
                node.id,
                node.online,
                node.expiry,
                &node.advertised,
                &node.approved,
                &node.serving,
                &node.addresses,
            )
        })
        .collect();
    let servers: Vec<_> = prefixes
        .iter()
        .map(|prefix| {
            nodes
                .iter()
                .find(|node| node.serving.contains(prefix))
                .map(|node| node.id)
        })
        .collect();
    format!("{own:?} {servers:?}")
}

/// What the gateways of a tailnet need in its policy, apart from those that create nothing.
fn needs(
    gateways: &[Arc<crd::TailnetGateway>],
    tailnet: &gateway::Tailnet,
    egresses: &[Egress],
) -> Vec<Need> {
    gateways
        .iter()
        .filter(|object| object.metadata.deletion_timestamp.is_none())
        .filter_map(|object| crd::gateway(object).ok())
        .filter(|(gateway, _)| !gateway.suspend || gateway.pinned)
        .map(|(gateway, _)| Need::of(&gateway, tailnet, &wanted_routes(&gateway, egresses)))
        .collect()
}

fn base_policy(context: &Context, base: &gateway::KeyRef) -> Result<Value, String> {
    let gateway::KeyRef { name, key } = base;
    let namespace = &context.settings.namespace;
    let map = context
        .stores
        .object(Family::ConfigMap, namespace, name)
        .ok_or_else(|| {
            format!("ConfigMap {namespace}/{name} with the base policy does not exist")
        })?;
    let text = map
        .get("data")
        .and_then(|data| data.get(key)?.as_str().map(str::to_owned))
        .ok_or_else(|| format!("ConfigMap {namespace}/{name} has no {key}"))?;
    policy::parse(&text).map_err(|error| format!("ConfigMap {namespace}/{name}: {error}"))
}

/// Writes the hosts file of a Tailnet that is valid.
pub(super) async fn names(context: &Context, object: &crd::Tailnet) {
    if let Ok((tailnet, _)) = crd::tailnet(object)
        && hosts_taken(context, object).is_none()
    {
        hosts(context, &tailnet).await;
    }
}

/// Which older Tailnet has its names written into the same ConfigMap: two would write over each other.
/// One that is somebody else's they may both read.
fn hosts_taken(context: &Context, object: &crd::Tailnet) -> Option<String> {
    let named = |tailnet: &crd::Tailnet| {
        let dns = tailnet.spec.dns.as_ref()?;
        Some(dns.hosts_config_map.as_ref()?.name.clone())
    };
    let ours = named(object)?;
    let namespace = &context.settings.namespace;
    let map = context.stores.object(Family::ConfigMap, namespace, &ours)?;
    let labels = map.pointer("/metadata/labels")?;
    if labels.get(MANAGED_BY)?.as_str()? != MANAGER {
        return None;
    }
    let all = context.stores.tailnets.state();
    let other = all.iter().find(|other| {
        named(other.as_ref()).is_some_and(|theirs| theirs == ours)
            && age(other.as_ref()) < age(object)
            && other.metadata.deletion_timestamp.is_none()
            // One that is not valid writes nothing.
            && crd::tailnet(other).is_ok()
    })?;
    Some(format!(
        "hostsConfigMap: the names of Tailnet {} are written into ConfigMap {ours}, and they stay; name another one",
        other.name_any()
    ))
}

/// Writes the hosts file, unless somebody else does.
async fn hosts(context: &Context, tailnet: &gateway::Tailnet) {
    let Some(gateway::KeyRef { name, key }) = &tailnet.hosts else {
        return;
    };
    let namespace = &context.settings.namespace;
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let live = match api.get_opt(name).await {
        Ok(live) => live,
        Err(error) => {
            tracing::warn!(config_map = %name, error = %words(&error), "The hosts file cannot be read");
            return;
        }
    };
    let ours = live
        .as_ref()
        .is_none_or(|map| map.labels().get(MANAGED_BY).map(String::as_str) == Some(MANAGER));
    if !ours {
        return;
    }
    let ingresses: Vec<_> = context
        .stores
        .ingresses
        .state()
        .iter()
        .filter_map(|ingress| crd::ingress(ingress).ok())
        .collect();
    let text = hosts_file(
        tailnet,
        &gather::egresses(context, &tailnet.name),
        &ingresses,
    );
    let same = live.and_then(|map| map.data?.get(key).cloned()).as_ref() == Some(&text);
    if same {
        return;
    }
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { MANAGED_BY: MANAGER } },
        "data": { key: text },
    });
    match api.patch(name, &apply::force(), &Patch::Apply(map)).await {
        Ok(_) => tracing::info!(config_map = %name, "Wrote the hosts file"),
        Err(error) => {
            tracing::warn!(config_map = %name, error = %words(&error), "The hosts file cannot be written");
        }
    }
}
