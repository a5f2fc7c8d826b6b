//! The status report, as `GET /status` serves it.

use serde::{Deserialize, Serialize};

/// Version of the report's form.
pub const API_VERSION: &str = "status.tsunaro.io/v1alpha1";

/// What the agent knows of itself and of its surroundings, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// [`API_VERSION`].
    pub api_version: String,
    /// Always `GatewayStatus`.
    pub kind: String,
    /// Who reports.
    pub agent: AgentInfo,
    /// Where the agent is in its life.
    pub phase: Phase,
    /// The config file.
    pub config: FileStatus,
    /// The hosts file; absent when the config names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<FileStatus>,
    /// The authoritative zone.
    pub zone: ZoneStatus,
    /// The extra zones with their upstreams.
    pub extra_zones: Vec<ExtraZoneStatus>,
    /// tailscaled; absent when the config has neither routes nor a key file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tailnet: Option<TailnetReport>,
    /// The route truth, one entry per prefix that is wanted or advertised.
    pub routes: Vec<RouteTruth>,
    /// Kernel checks by name.
    pub kernel_checks: Vec<CheckReport>,
    /// The interfaces that carry the gateway's traffic.
    #[serde(default)]
    pub links: Vec<LinkReport>,
    /// Summaries for machines and people.
    pub conditions: Vec<Condition>,
}

/// The reporting binary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInfo {
    /// Its version.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// RFC 3339 time of its start.
    pub started: String,
}

/// Where the agent is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Not yet ready.
    Starting,
    /// Ready, and meant to stay.
    Serving,
    /// Told to stop: still ready and serving during the lame duck.
    Leaving,
}

/// One watched file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStatus {
    /// Its path.
    pub path: String,
    /// Counts up by one per accepted content; 0 while there was none.
    pub generation: u64,
    /// SHA-256 of the accepted content, hexadecimal; empty while there was none.
    pub hash: String,
    /// Why the newest content is not in use, while the last good one still is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Remarks about the accepted content, as `file:line:column: field: what; fix`.
    pub findings: Vec<String>,
}

/// The authoritative zone of the served snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneStatus {
    /// Its apex.
    pub name: String,
    /// Counts up by one per snapshot.
    pub generation: u64,
    /// SOA serial.
    pub serial: u32,
    /// Names with static records.
    pub static_names: usize,
    /// Names from the hosts file.
    pub dynamic_names: usize,
    /// Overridden names of extra zones.
    pub overrides: usize,
    /// Hosts entries that belong to no zone of ours.
    pub foreign_entries: usize,
    /// Hosts lines or names that were skipped as wrong.
    pub skipped: usize,
    /// Dynamic names hidden by a static record; the first 100.
    pub shadowed_names: Vec<String>,
}

/// An extra zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtraZoneStatus {
    /// Its apex.
    pub zone: String,
    /// Its servers in order of preference.
    pub upstreams: Vec<UpstreamStatus>,
}

/// One server of an extra zone, judged by the queries it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamStatus {
    /// Address and port.
    pub address: String,
    /// False after three failures in a row, until it answers again.
    pub healthy: bool,
    /// Failures since the last answer.
    pub consecutive_failures: u32,
    /// Smoothed round-trip time in microseconds; absent before the first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smoothed_rtt_micros: Option<u64>,
}

/// tailscaled as last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TailnetReport {
    /// The LocalAPI's socket.
    pub socket: String,
    /// Why there is no connection to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `ipn.State`, such as `Running`; `Unknown` before the first contact.
    pub backend_state: String,
    /// tailscaled's version.
    pub version: String,
    /// Tailnet addresses of this node.
    pub addresses: Vec<String>,
    /// Host name in the tailnet.
    pub hostname: String,
    /// Tags of the node.
    pub tags: Vec<String>,
    /// Connected to the control server.
    pub online: bool,
    /// RFC 3339 time at which the node key expires; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_expiry: Option<String>,
    /// Health warnings of tailscaled.
    pub health: Vec<String>,
    /// Where the login stands.
    pub login: String,
    /// Times that routes or prefs which another writer changed were put right.
    pub healings: u64,
}

/// How far one prefix got, from the wish to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTruth {
    /// The prefix.
    pub prefix: String,
    /// The config asks for it.
    pub wanted: bool,
    /// tailscaled advertises it, read back.
    pub advertised: bool,
    /// The kernel forwards and has a way to it that is not the tailnet.
    pub kernel: Tri,
    /// The way that the kernel takes; absent when it has none or was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathReport>,
    /// The first step that fails, or `Carried` when all hold.
    pub reason: String,
    /// What that means and what to do.
    pub message: String,
}

/// The kernel's way to a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathReport {
    /// The interface that packets leave by.
    pub interface: String,
    /// The next hop; absent on the link itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// MTU of the interface in octets.
    pub mtu: u32,
    /// TCP's advertised MSS in octets where the route sets one; else the kernel takes the MTU's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advmss: Option<u32>,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// Up, with a carrier.
    pub up: bool,
    /// MTU in octets.
    pub mtu: u32,
}

/// Yes, no, or not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tri {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It could not be seen.
    Unknown,
}

/// One kernel check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// Its stable name.
    pub name: String,
    /// Whether it holds.
    pub status: Tri,
    /// Stable, in CamelCase.
    pub reason: String,
    /// What was seen, and the remedy.
    pub message: String,
}

/// A condition in the manner of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its stable name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Tri,
    /// Stable, in CamelCase.
    pub reason: String,
    /// For people.
    pub message: String,
    /// RFC 3339 time of the last change of `status`.
    pub last_transition_time: String,
}

/// Carries over `last_transition_time` from the conditions before; those whose status changed get
/// `now`, an RFC 3339 time.
pub fn carry_transitions(conditions: &mut [Condition], before: &[Condition], now: &str) {
    for condition in conditions {
        let same = before
            .iter()
            .find(|old| old.kind == condition.kind && old.status == condition.status);
        condition.last_transition_time =
            same.map_or_else(|| now.to_owned(), |old| old.last_transition_time.clone());
    }
}
