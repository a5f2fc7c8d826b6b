//! The policy of a tailnet's Headscale: what is there, and what is set.

use std::sync::Arc;

use kube::ResourceExt;
use serde_json::Value;
use tsunaro_model::gateway::{self, wanted_routes};

use super::conditions::State;
use super::conflicts::{self, age};
use super::kinds::Family;
use super::{Context, egresses};
use crate::crd;
use crate::headscale::NodeCache;
use crate::reconcile::names::reason;
use crate::reconcile::policy::{self, Need};

/// While it is as it should be, and where no gateway needs anything.
pub(super) fn current() -> State {
    State::well(
        reason::POLICY_CURRENT,
        "the policy has what the gateways need",
    )
}

/// Reads the policy and, where that is this Tailnet's to do, sets it.
///
/// # Errors
/// Why it could not be read, merged or set.
pub(super) async fn look(
    context: &Context,
    object: &crd::Tailnet,
    tailnet: &gateway::Tailnet,
    server: &NodeCache,
) -> Result<(State, Arc<Value>), String> {
    let needs = needs(context, tailnet);
    let source = server.source();
    let text = source.policy().await.map_err(|error| error.to_string())?;
    let text = text.map(|policy| policy.text).unwrap_or_default();
    let mut current =
        policy::parse(&text).map_err(|error| format!("Headscale's policy: {error}"))?;
    let writer = other_writer(context, object, tailnet);
    if let (gateway::Policy::Apply { base }, None) = (&tailnet.policy, &writer) {
        let base = match base {
            Some(base) => base_policy(context, base)?,
            // Nothing is taken away from a policy that only Headscale has.
            None => current.clone(),
        };
        let wanted =
            policy::merge(&base, &needs).map_err(|error| format!("the base policy: {error}"))?;
        if wanted != current {
            let text = format!("{wanted:#}");
            let set = source.set_policy(&text).await;
            set.map_err(|error| error.to_string())?;
            tracing::info!(tailnet = %tailnet.name, "Applied the policy");
            current = wanted;
        }
    }
    let missing =
        policy::missing(&current, &needs).map(|lines| format!("the policy lacks {lines}"));
    let said = match (writer, missing) {
        (Some(writer), missing) => State::fault(
            reason::POLICY_TAKEN,
            format!(
                "Tailnet {writer}, which is older, applies the policy of this Headscale: set policy.mode here to \
                 Observe{}",
                missing
                    .map(|lines| format!("; {lines}"))
                    .unwrap_or_default()
            ),
        ),
        (None, Some(lines)) => State::fault(reason::LINES_MISSING, lines),
        (None, None) => self::current(),
    };
    Ok((said, Arc::new(current)))
}

/// Which older Tailnet sets the policy of the same Headscale: two would write over each other.
fn other_writer(
    context: &Context,
    object: &crd::Tailnet,
    tailnet: &gateway::Tailnet,
) -> Option<String> {
    let applies =
        |tailnet: &gateway::Tailnet| matches!(tailnet.policy, gateway::Policy::Apply { .. });
    if !applies(tailnet) {
        return None;
    }
    let all = context.stores.tailnets.state();
    let writers = conflicts::older(object, &all).filter(|other| {
        other.metadata.deletion_timestamp.is_none()
            && !context.stores.gateways_of(&other.name_any()).is_empty()
            && crd::tailnet(other)
                .is_ok_and(|(other, _)| applies(&other) && other.url == tailnet.url)
    });
    let first = writers.min_by_key(|other| age(other.as_ref()))?;
    Some(first.name_any())
}

/// What the gateways of a tailnet need in its policy, apart from those that create nothing.
fn needs(context: &Context, tailnet: &gateway::Tailnet) -> Vec<Need> {
    let egresses = egresses::of(context, &tailnet.name, Some(tailnet)).taken;
    let gateways = context.stores.gateways_of(&tailnet.name);
    gateways
        .iter()
        .filter(|object| object.metadata.deletion_timestamp.is_none())
        .filter_map(|object| crd::gateway(object).ok())
        .filter(|(gateway, _)| !gateway.suspend || gateway.pinned)
        .map(|(gateway, _)| Need::of(&gateway, tailnet, &wanted_routes(&gateway, &egresses)))
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
