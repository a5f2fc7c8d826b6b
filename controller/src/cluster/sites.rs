//! The status of the sites of a tailnet.

use std::sync::Arc;

use kube::ResourceExt;
use kube::api::{Api, Patch};
use serde_json::json;
use tsunaro_model::gateway;

use super::failure::words;
use super::{Context, apply, conditions, conflicts};
use crate::crd::{self, TailnetSite};
use crate::headscale::NodeList;
use crate::reconcile::judge_site;
use crate::reconcile::names::{condition, reason};

/// Says of each site how it is, where that is news.
pub(super) async fn say(
    context: &Context,
    tailnet: &gateway::Tailnet,
    nodes: Result<&NodeList, &String>,
) {
    let sites = context
        .stores
        .sites
        .state_filter(|site| site.spec.tailnet_ref.name == tailnet.name);
    for object in &sites {
        let before = object.status.clone().unwrap_or_default();
        let said: Vec<_> = match crd::site(object) {
            Ok(site) => {
                let overlap = overlap(object, &site, &sites);
                let nodes = nodes.map_err(String::as_str);
                judge_site(&site, tailnet, nodes, overlap.as_deref())
                    .into_iter()
                    .map(|said| (said.kind, said.status, said.reason, said.message))
                    .collect()
            }
            Err(invalid) => vec![(
                condition::READY,
                "False",
                reason::INVALID,
                invalid.to_string(),
            )],
        };
        let generation = object.metadata.generation;
        let status = crd::Status {
            observed_generation: generation,
            conditions: said
                .into_iter()
                .map(|said| conditions::dated(said, &before, generation))
                .collect(),
        };
        if status == before {
            continue;
        }
        let name = object.name_any();
        let api: Api<TailnetSite> = Api::all(context.client.clone());
        let patch =
            json!({ "apiVersion": "tsunaro.io/v1alpha1", "kind": "TailnetSite", "status": status });
        let conditions = status.conditions;
        match api
            .patch_status(&name, &apply::force(), &Patch::Apply(patch))
            .await
        {
            Ok(_) => conditions::tell("TailnetSite", &name, &before.conditions, &conditions),
            // It went meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                tracing::warn!(site = %name, error = %words(&error), "The status could not be written");
            }
        }
    }
}

/// An older site that has a prefix of this one, in words.
fn overlap(object: &TailnetSite, site: &gateway::Site, all: &[Arc<TailnetSite>]) -> Option<String> {
    conflicts::older(object, all)
        .filter_map(|other| crd::site(other).ok())
        .find_map(|other| {
            let theirs = other.prefixes.iter().find(|theirs| {
                let ours = site.prefixes.iter();
                ours.copied()
                    .any(|ours| ours.contains(*theirs) || theirs.contains(&ours))
            })?;
            Some(format!("TailnetSite {} has {theirs} too", other.name))
        })
}
