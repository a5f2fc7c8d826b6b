//! `TailnetGateway`.

mod dns;
mod service;

use super::networks;
use super::syntax::{choice, gateway_name, hostname, object_name, tags};
use crate::document::{Given, Text};
use crate::finding::{Place, Report, quoted};
use crate::gateway::image::{Image, ImageError};
use crate::gateway::wire::{self, Rejected};
use crate::gateway::{DeletionPolicy, Gateway, Identity, OnGone, Routes};
use crate::routes::MAX_LAN_PREFIXES;

/// The tag of a gateway that names none.
const DEFAULT_TAG: &str = "tag:fabric";
/// Tags at most; the schema has the same limit.
const MAX_TAGS: usize = 16;
/// For messages.
const TAILSCALE_EXAMPLE: &str = "ghcr.io/tailscale/tailscale:v1.102.4";

pub(super) fn gateway(gateway: wire::Gateway, report: &mut Report) -> Option<Gateway> {
    let wire::Gateway {
        metadata,
        spec,
        pinned,
    } = gateway;
    let wire::Metadata {
        name,
        namespace,
        uid,
    } = metadata;
    let wire::GatewaySpec {
        suspend,
        deletion_policy,
        tailnet_ref,
        hostname: node,
        tags: given_tags,
        state_secret_ref,
        image: tailscale_image,
        replicas,
        routes: given_routes,
        service: given_service,
        dns: given_dns,
        identity: given_identity,
        rejected,
    } = spec;
    if let Some(Given { value, place }) = namespace {
        report.error(
            &place,
            format!(
                "a gateway has no namespace, and this names {}",
                quoted(&value)
            ),
            "remove the field; `--namespace` of the controller says where its objects live",
        );
    }
    rejected
        .iter()
        .for_each(|(rejected, place)| refuse(*rejected, place, report));
    one_replica(replicas, report);
    let name = name.and_then(|name| gateway_name(&name, report));
    let service = given_service.and_then(|given| service::service(given, report));
    let dns =
        given_dns.and_then(|given| dns::dns(given, name.as_deref(), service.as_ref(), report));
    let state_secret =
        state_secret_ref.and_then(|secret| state_secret(&secret, name.as_deref(), report));
    let tailnet = tailnet_ref.and_then(|name| object_name(&name, report));
    let hostname = node.and_then(|name| hostname(&name, report));
    let image = tailscale_image.and_then(|text| image(&text, TAILSCALE_EXAMPLE, report));
    let routes = given_routes.and_then(|given| routes(given, report));
    let deletion_policy = choice(deletion_policy, &DELETION, DeletionPolicy::Retain, report);
    let tags = own_tags(given_tags, report);
    let identity = identity(given_identity, report);
    Some(Gateway {
        name: name?,
        uid: uid.map(|uid| uid.value),
        suspend: suspend.is_none_or(|suspend| suspend.value),
        deletion_policy,
        tailnet: tailnet?,
        hostname: hostname?,
        tags,
        state_secret: state_secret?,
        image: image?,
        routes: routes?,
        service: service?,
        dns: dns?,
        identity,
        pinned: pinned.is_some_and(|pinned| pinned.value),
    })
}

const DELETION: [(&str, DeletionPolicy); 2] = [
    ("Retain", DeletionPolicy::Retain),
    ("Delete", DeletionPolicy::Delete),
];

const ON_GONE: [(&str, OnGone); 2] = [("Renew", OnGone::Renew), ("Hold", OnGone::Hold)];

fn refuse(rejected: Rejected, place: &Place, report: &mut Report) {
    let (what, fix) = match rejected {
        Rejected::Forwards | Rejected::ForwardImage => (
            "a gateway forwards no TCP ports",
            "remove the field, and make a TailnetIngress for each service",
        ),
        Rejected::AuthKeySecretRef => (
            "the controller makes its own pre-auth keys, single-use and tag-bound",
            "remove the field",
        ),
        Rejected::Adoption => (
            "a gateway is always a new node and never adopts an existing router",
            "remove the field, run both side by side, and delete the old router",
        ),
    };
    report.error(place, what, fix);
}

fn one_replica(replicas: Option<Given<i64>>, report: &mut Report) {
    if let Some(Given { value, place }) = replicas
        && value != 1
    {
        report.error(
            &place,
            format!("`{value}` replicas would be several Pods with one node identity"),
            "write 1 or remove the field, and make a second TailnetGateway for redundancy",
        );
    }
}

fn own_tags(given: Option<Given<Vec<Text>>>, report: &mut Report) -> Vec<String> {
    let Some(Given { value, place }) = given else {
        return vec![DEFAULT_TAG.to_owned()];
    };
    if value.is_empty() {
        report.error(
            &place,
            "the list `[]` is empty, and a node without tags belongs to a user and expires",
            format!("name a tag, or remove the field for `{DEFAULT_TAG}`"),
        );
    }
    if value.len() > MAX_TAGS {
        report.error(
            &place,
            format!(
                "the list has {} tags, and {MAX_TAGS} is the most",
                value.len()
            ),
            "keep the tags that your policy uses",
        );
    }
    tags(value, report)
}

fn routes(given: wire::GatewayRoutes, report: &mut Report) -> Option<Routes> {
    let wire::GatewayRoutes {
        lan,
        advertise_egress_targets,
        aggregate,
        snat,
    } = given;
    Some(Routes {
        lan: networks::prefixes(lan?, MAX_LAN_PREFIXES, report),
        advertise_egress_targets: advertise_egress_targets.is_none_or(|given| given.value),
        aggregate: aggregate.is_none_or(|given| given.value),
        snat: snat.is_none_or(|given| given.value),
    })
}

fn identity(given: Option<wire::Identity>, report: &mut Report) -> Identity {
    let default = Identity::default();
    let Some(wire::Identity {
        on_loss,
        on_revoked,
    }) = given
    else {
        return default;
    };
    Identity {
        on_loss: choice(on_loss, &ON_GONE, default.on_loss, report),
        on_revoked: choice(on_revoked, &ON_GONE, default.on_revoked, report),
    }
}

fn state_secret(text: &Text, gateway: Option<&str>, report: &mut Report) -> Option<String> {
    let name = object_name(text, report)?;
    let taken = gateway.is_some_and(|gateway| {
        ["authkey", "fresh"]
            .iter()
            .any(|own| name == format!("{gateway}-{own}"))
    });
    if taken {
        report.error(
            &text.place,
            format!("the controller keeps something else in {}", quoted(&name)),
            "write another name, such as the gateway's with `-state`",
        );
        return None;
    }
    Some(name)
}

fn image(text: &Text, example: &str, report: &mut Report) -> Option<Image> {
    let Given { value, place } = text;
    match Image::parse(value) {
        Ok(image) => Some(image),
        Err(error) => {
            let fix = match error {
                ImageError::Malformed => format!("write a reference such as `{example}`"),
                ImageError::Unversioned | ImageError::Latest => {
                    format!("name a version or a digest, as in `{example}`")
                }
            };
            report.error(place, format!("{} {error}", quoted(value)), fix);
            None
        }
    }
}
