//! The file as written: its structure is right, its values are not judged yet.

pub(crate) use crate::document::{Given, Text};

/// The file. `apiVersion` and `kind` have been checked.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) listen: Option<Listen>,
    pub(crate) hosts: Option<Text>,
    pub(crate) dns: Option<Dns>,
    pub(crate) tailnet: Option<Tailnet>,
    pub(crate) routes: Option<Routes>,
}

/// `listen`.
#[derive(Debug)]
pub(crate) struct Listen {
    pub(crate) dns: Vec<Text>,
    pub(crate) http: Option<Text>,
}

/// `dns`.
#[derive(Debug)]
pub(crate) struct Dns {
    pub(crate) zone: Option<Text>,
    pub(crate) addresses: Vec<Text>,
    pub(crate) static_records: Vec<StaticRecord>,
    pub(crate) wildcard_address: Option<Text>,
    pub(crate) extra_zones: Vec<ExtraZone>,
    pub(crate) ttl: Option<Given<i64>>,
    pub(crate) negative_ttl: Option<Given<i64>>,
}

/// An entry of `dns.staticRecords`. What is absent has been reported.
#[derive(Debug)]
pub(crate) struct StaticRecord {
    pub(crate) name: Option<Text>,
    pub(crate) data: Option<RecordData>,
}

/// What a static record holds.
#[derive(Debug)]
pub(crate) enum RecordData {
    /// `address`.
    Address(Text),
    /// `target`.
    Target(Text),
}

/// An entry of `dns.extraZones`. What is absent has been reported.
#[derive(Debug)]
pub(crate) struct ExtraZone {
    pub(crate) zone: Option<Text>,
    pub(crate) upstreams: Vec<Text>,
}

/// `tailnet`.
#[derive(Debug)]
pub(crate) struct Tailnet {
    pub(crate) auth_key_file: Option<Text>,
}

/// `routes`.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) lan: Option<Given<Vec<Text>>>,
    pub(crate) tailnet_lb_cidr: Option<Text>,
    pub(crate) egress_targets: Option<Given<Vec<Text>>>,
    pub(crate) aggregate: Option<Given<bool>>,
    pub(crate) snat: Option<Given<bool>>,
}
