//! Prefs, and changes of them.

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};
use tsunaro_model::tailnet::{Prefs, PrefsChange};

/// `ipn.Prefs`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PrefsReply {
    #[serde(rename = "ControlURL")]
    control_url: String,
    route_all: bool,
    #[serde(rename = "ExitNodeID", default)]
    exit_node_id: String,
    #[serde(rename = "ExitNodeIP", default)]
    exit_node_ip: String,
    #[serde(rename = "CorpDNS")]
    corp_dns: bool,
    want_running: bool,
    logged_out: bool,
    #[serde(default)]
    shields_up: bool,
    hostname: String,
    advertise_routes: Option<Vec<String>>,
    #[serde(rename = "NoSNAT", default)]
    no_snat: bool,
    #[serde(default)]
    operator_user: String,
}

/// `ipn.MaskedPrefs`: tailscaled ignores a field without its `…Set`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PrefsPatch {
    #[serde(flatten)]
    advertise_routes: Option<AdvertiseRoutesPatch>,
    #[serde(flatten)]
    want_running: Option<WantRunningPatch>,
    #[serde(flatten)]
    route_all: Option<RouteAllPatch>,
    #[serde(flatten)]
    corp_dns: Option<CorpDnsPatch>,
    #[serde(flatten)]
    shields_up: Option<ShieldsUpPatch>,
    #[serde(flatten)]
    exit_node: Option<ExitNodePatch>,
    #[serde(flatten)]
    no_snat: Option<NoSnatPatch>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AdvertiseRoutesPatch {
    advertise_routes: Vec<Ipv4Net>,
    advertise_routes_set: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct WantRunningPatch {
    want_running: bool,
    want_running_set: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct RouteAllPatch {
    route_all: bool,
    route_all_set: bool,
}

#[derive(Debug, Serialize)]
struct CorpDnsPatch {
    #[serde(rename = "CorpDNS")]
    corp_dns: bool,
    #[serde(rename = "CorpDNSSet")]
    corp_dns_set: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShieldsUpPatch {
    shields_up: bool,
    shields_up_set: bool,
}

#[derive(Debug, Serialize)]
struct NoSnatPatch {
    #[serde(rename = "NoSNAT")]
    no_snat: bool,
    #[serde(rename = "NoSNATSet")]
    no_snat_set: bool,
}

/// Both ways to name an exit node, emptied.
#[derive(Debug, Serialize)]
struct ExitNodePatch {
    #[serde(rename = "ExitNodeID")]
    id: &'static str,
    #[serde(rename = "ExitNodeIDSet")]
    id_set: bool,
    #[serde(rename = "ExitNodeIP")]
    ip: &'static str,
    #[serde(rename = "ExitNodeIPSet")]
    ip_set: bool,
}

impl From<PrefsReply> for Prefs {
    fn from(reply: PrefsReply) -> Self {
        let PrefsReply {
            control_url,
            route_all,
            exit_node_id,
            exit_node_ip,
            corp_dns,
            want_running,
            logged_out,
            shields_up,
            hostname,
            advertise_routes,
            no_snat,
            operator_user,
        } = reply;
        let mut readable = Vec::new();
        let mut unreadable_routes = Vec::new();
        for text in advertise_routes.unwrap_or_default() {
            match text.parse::<IpNet>() {
                Ok(prefix) => readable.push(prefix),
                Err(_) => unreadable_routes.push(text),
            }
        }
        Self {
            advertise_routes: readable,
            unreadable_routes,
            operator_user,
            want_running,
            logged_out,
            route_all,
            corp_dns,
            no_snat,
            shields_up,
            exit_node: if exit_node_id.is_empty() {
                exit_node_ip
            } else {
                exit_node_id
            },
            control_url,
            hostname,
        }
    }
}

impl From<&PrefsChange> for PrefsPatch {
    fn from(change: &PrefsChange) -> Self {
        let PrefsChange {
            advertise_routes,
            want_running,
            route_all,
            corp_dns,
            shields_up,
            no_exit_node,
            no_snat,
        } = change;
        Self {
            advertise_routes: advertise_routes
                .as_ref()
                .map(|routes| AdvertiseRoutesPatch {
                    advertise_routes: routes.clone(),
                    advertise_routes_set: true,
                }),
            want_running: want_running.map(|want_running| WantRunningPatch {
                want_running,
                want_running_set: true,
            }),
            route_all: route_all.map(|route_all| RouteAllPatch {
                route_all,
                route_all_set: true,
            }),
            corp_dns: corp_dns.map(|corp_dns| CorpDnsPatch {
                corp_dns,
                corp_dns_set: true,
            }),
            shields_up: shields_up.map(|shields_up| ShieldsUpPatch {
                shields_up,
                shields_up_set: true,
            }),
            exit_node: no_exit_node.then_some(ExitNodePatch {
                id: "",
                id_set: true,
                ip: "",
                ip_set: true,
            }),
            no_snat: no_snat.map(|no_snat| NoSnatPatch {
                no_snat,
                no_snat_set: true,
            }),
        }
    }
}
