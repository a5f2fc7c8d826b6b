//! The file as written: its structure is right, its values are not judged yet.

use crate::finding::Place;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Given<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// A text and where it stands.
pub(super) type Text = Given<String>;

/// The file. `apiVersion` and `kind` have been checked.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) listen: Option<Listen>,
    pub(super) hosts: Option<Text>,
    pub(super) dns: Option<Dns>,
    pub(super) tailnet: Option<Tailnet>,
    pub(super) routes: Option<Routes>,
}

/// `listen`.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) dns: Vec<Text>,
    pub(super) http: Option<Text>,
}

/// `dns`.
#[derive(Debug)]
pub(super) struct Dns {
    pub(super) zone: Option<Text>,
    pub(super) addresses: Vec<Text>,
    pub(super) static_records: Vec<StaticRecord>,
    pub(super) wildcard_address: Option<Text>,
    pub(super) extra_zones: Vec<ExtraZone>,
    pub(super) ttl: Option<Given<i64>>,
    pub(super) negative_ttl: Option<Given<i64>>,
}

/// An entry of `dns.staticRecords`. What is absent has been reported.
#[derive(Debug)]
pub(super) struct StaticRecord {
    pub(super) name: Option<Text>,
    pub(super) data: Option<RecordData>,
}

/// What a static record holds.
#[derive(Debug)]
pub(super) enum RecordData {
    /// `address`.
    Address(Text),
    /// `target`.
    Target(Text),
}

/// An entry of `dns.extraZones`. What is absent has been reported.
#[derive(Debug)]
pub(super) struct ExtraZone {
    pub(super) zone: Option<Text>,
    pub(super) upstreams: Vec<Text>,
}

/// `tailnet`.
#[derive(Debug)]
pub(super) struct Tailnet {
    pub(super) auth_key_file: Option<Text>,
}

/// `routes`.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) lan: Option<Given<Vec<Text>>>,
    pub(super) tailnet_lb_cidr: Option<Text>,
    pub(super) egress_targets: Vec<Text>,
    pub(super) aggregate: Option<Given<bool>>,
}
