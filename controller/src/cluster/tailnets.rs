//! One round over a tailnet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, Patch};
use serde_json::{Value, json};
use tsunaro_model::gateway;

use super::conditions::{self, State};
use super::failure::words;
use super::hub::View;
use super::{Context, apply, hosts, policy, sites};
use crate::crd;
use crate::headscale::{ApiKey, Headscale, Node, NodeCache, NodeList, ServerUrl, Trust};
use crate::metrics::TailnetLabel;
use crate::reconcile::names::{condition, reason};

/// Lists of nodes that passes ask for are shared for this long.
const SHARED: Duration = Duration::from_millis(500);

/// What is kept between rounds.
pub(super) struct Tailnet {
    name: String,
    /// The key's text and the server that it was made for.
    server: Option<(String, String, Arc<NodeCache>)>,
    /// Headscale did not give the last list.
    failed: bool,
    policy: Option<Arc<Value>>,
    /// None until it was looked at.
    policy_said: Option<State>,
    /// What is wrong with the hosts file.
    hosts_said: Option<State>,
    /// What each gateway was last shown of the nodes.
    shown: BTreeMap<String, String>,
}

impl Tailnet {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            server: None,
            failed: false,
            policy: None,
            policy_said: None,
            hosts_said: None,
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
        if slow {
            self.hosts_said = hosts::write(context, object, &tailnet).await.err();
        }
        // A key that Headscale refused may have been replaced.
        let server = self.server(context, &tailnet, slow || self.failed).await;
        let nodes = match &server {
            Ok(server) => {
                context.metrics.node_lists.inc();
                server.invalidate();
                server.nodes().await.map_err(|error| error.to_string())
            }
            Err(why) => Err(why.clone()),
        };
        self.failed = nodes.is_err();
        let label = TailnetLabel {
            tailnet: self.name.clone(),
        };
        let reachable = context.metrics.reachable.get_or_create_owned(&label);
        reachable.set(i64::from(nodes.is_ok()));
        if slow
            && let Ok(server) = &server
            && nodes.is_ok()
        {
            self.look_at_policy(context, object, &tailnet, server).await;
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
        self.say(context, object, &server, &nodes).await;
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

    /// Writes the hosts file of a Tailnet that is valid.
    pub(super) async fn names(&mut self, context: &Context, object: &crd::Tailnet) {
        if let Ok((tailnet, _)) = crd::tailnet(object) {
            self.hosts_said = hosts::write(context, object, &tailnet).await.err();
        }
    }

    async fn look_at_policy(
        &mut self,
        context: &Context,
        object: &crd::Tailnet,
        tailnet: &gateway::Tailnet,
        server: &NodeCache,
    ) {
        if context.stores.gateways_of(&self.name).is_empty() {
            (self.policy_said, self.policy) = (Some(policy::current()), None);
            return;
        }
        (self.policy_said, self.policy) = match policy::look(context, object, tailnet, server).await
        {
            Ok((said, policy)) => (Some(said), Some(policy)),
            Err(why) => (
                Some(State::fault(reason::POLICY_FAILED, why)),
                self.policy.take(),
            ),
        };
    }

    async fn say(
        &self,
        context: &Context,
        object: &crd::Tailnet,
        server: &Result<Arc<NodeCache>, String>,
        nodes: &Result<Arc<NodeList>, String>,
    ) {
        let ready = match (server, nodes, &self.hosts_said) {
            (Err(why), _, _) => State::fault(reason::API_KEY_INVALID, why.clone()),
            (Ok(_), Err(why), _) => State::fault(reason::HEADSCALE_UNREACHABLE, why.clone()),
            (Ok(_), Ok(_), Some(said)) => said.clone(),
            (Ok(_), Ok(_), None) => State::well(reason::HEADSCALE_REACHABLE, "Headscale answers"),
        };
        let before = object.status.clone().unwrap_or_default();
        let mut conditions = vec![conditions::dated(
            ready.said(condition::READY),
            &before,
            object.metadata.generation,
        )];
        let old = before.conditions.iter();
        let mut old = old.filter(|old| old.type_ == condition::POLICY_IN_SYNC);
        // What another controller saw stands until this one has looked.
        conditions.extend(match &self.policy_said {
            Some(said) => Some(conditions::dated(
                said.said(condition::POLICY_IN_SYNC),
                &before,
                object.metadata.generation,
            )),
            None => old.next().cloned(),
        });
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
        match api
            .patch_status(&self.name, &apply::force(), &Patch::Apply(patch))
            .await
        {
            Ok(_) => {
                conditions::tell(
                    "Tailnet",
                    &self.name,
                    &before.conditions,
                    &status.conditions,
                );
            }
            Err(error) => {
                tracing::warn!(tailnet = %self.name, error = %words(&error), "The status could not be written");
            }
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
