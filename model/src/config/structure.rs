//! First phase: fields and types. The tree becomes the document as written.

use super::wire::{
    Dns, Document, ExtraZone, Listen, RecordData, Routes, StaticRecord, Tailnet, Text,
};
use crate::document::fields::{self, Field, Fields};
use crate::document::tree::{Node, whole_file};
use crate::finding::{Report, quoted};

/// `apiVersion` of the file.
pub(super) const API_VERSION: &str = "agent.tsunaro.io/v1alpha1";
/// `kind` of the file.
pub(super) const KIND: &str = "GatewayConfig";

/// Reads the whole document. None: the root is no mapping.
pub(super) fn document(root: &Node, report: &mut Report) -> Option<Document> {
    let mut fields = Fields::open(
        Field {
            node: root,
            place: whole_file(root.position),
        },
        report,
    )?;
    constant(&mut fields, "apiVersion", API_VERSION, report);
    constant(&mut fields, "kind", KIND, report);
    let document = Document {
        listen: fields
            .take("listen")
            .and_then(|field| listen(field, report)),
        hosts: fields
            .take("hosts")
            .and_then(|field| fields::text(field, report)),
        dns: fields
            .require("dns", "add `dns:` with at least `zone: …` in it", report)
            .and_then(|field| dns(field, report)),
        tailnet: fields
            .take("tailnet")
            .and_then(|field| tailnet(field, report)),
        routes: fields
            .take("routes")
            .and_then(|field| routes(field, report)),
    };
    fields.close(report);
    Some(document)
}

fn constant(fields: &mut Fields<'_>, name: &'static str, wanted: &str, report: &mut Report) {
    let fix = format!("write `{name}: {wanted}`");
    let Some(field) = fields.require(name, &fix, report) else {
        return;
    };
    let Some(Text { value, place }) = fields::text(field, report) else {
        return;
    };
    if value != wanted {
        report.error(
            &place,
            format!("{} is not what this agent reads", quoted(&value)),
            fix,
        );
    }
}

fn listen(field: Field<'_>, report: &mut Report) -> Option<Listen> {
    let mut fields = Fields::open(field, report)?;
    let listen = Listen {
        dns: fields
            .take("dns")
            .and_then(|field| {
                fields::filled_list(
                    field,
                    "name an address such as `127.0.0.1:5300`, or remove the field",
                    report,
                    fields::text,
                )
            })
            .map(|list| list.value)
            .unwrap_or_default(),
        http: fields
            .take("http")
            .and_then(|field| fields::text(field, report)),
    };
    fields.close(report);
    Some(listen)
}

fn dns(field: Field<'_>, report: &mut Report) -> Option<Dns> {
    let mut fields = Fields::open(field, report)?;
    let dns = Dns {
        zone: fields
            .require(
                "zone",
                "add `zone: …`, the domain that the gateway answers for",
                report,
            )
            .and_then(|field| fields::text(field, report)),
        addresses: texts(fields.take("addresses"), report),
        static_records: fields
            .take("staticRecords")
            .and_then(|field| fields::list(field, report, static_record))
            .map(|list| list.value)
            .unwrap_or_default(),
        wildcard_address: fields
            .take("wildcardAddress")
            .and_then(|field| fields::text(field, report)),
        extra_zones: fields
            .take("extraZones")
            .and_then(|field| fields::list(field, report, extra_zone))
            .map(|list| list.value)
            .unwrap_or_default(),
        ttl: fields
            .take("ttl")
            .and_then(|field| fields::number(field, "seconds", report)),
        negative_ttl: fields
            .take("negativeTTL")
            .and_then(|field| fields::number(field, "seconds", report)),
    };
    fields.close(report);
    Some(dns)
}

pub(crate) fn static_record(field: Field<'_>, report: &mut Report) -> Option<StaticRecord> {
    let mut fields = Fields::open(field, report)?;
    let name = fields
        .require(
            "name",
            "add `name: …`, relative to the zone, or `name: \"@\"` for the zone itself",
            report,
        )
        .and_then(|field| fields::text(field, report));
    let data = match (fields.take("address"), fields.take("target")) {
        (Some(address), None) => fields::text(address, report).map(RecordData::Address),
        (None, Some(target)) => fields::text(target, report).map(RecordData::Target),
        (None, None) => {
            let what = "the record has neither `address` nor `target`";
            report.error(
                fields.place(),
                what,
                "add `address: …` for an IP address, or `target: …` for an alias",
            );
            None
        }
        (Some(_), Some(target)) => {
            let what = "the record has both `address` and `target`, and an alias can have no address of its own";
            report.error(&target.place, what, "remove one of the two");
            None
        }
    };
    fields.close(report);
    Some(StaticRecord { name, data })
}

pub(crate) fn extra_zone(field: Field<'_>, report: &mut Report) -> Option<ExtraZone> {
    const UPSTREAMS: &str =
        "add the address of at least one DNS server, as in `upstreams: [\"192.0.2.53\"]`";
    let mut fields = Fields::open(field, report)?;
    let zone = ExtraZone {
        zone: fields
            .require("zone", "add `zone: …`, the domain to forward", report)
            .and_then(|field| fields::text(field, report)),
        upstreams: fields
            .require("upstreams", UPSTREAMS, report)
            .and_then(|field| fields::filled_list(field, UPSTREAMS, report, fields::text))
            .map(|list| list.value)
            .unwrap_or_default(),
    };
    fields.close(report);
    Some(zone)
}

fn tailnet(field: Field<'_>, report: &mut Report) -> Option<Tailnet> {
    let mut fields = Fields::open(field, report)?;
    let tailnet = Tailnet {
        auth_key_file: fields
            .take("authKeyFile")
            .and_then(|field| fields::text(field, report)),
    };
    fields.close(report);
    Some(tailnet)
}

fn routes(field: Field<'_>, report: &mut Report) -> Option<Routes> {
    let mut fields = Fields::open(field, report)?;
    let routes = Routes {
        lan: fields
            .take("lan")
            .and_then(|field| fields::list(field, report, fields::text)),
        tailnet_lb_cidr: fields
            .take("tailnetLBCIDR")
            .and_then(|field| fields::text(field, report)),
        egress_targets: fields
            .take("egressTargets")
            .and_then(|field| fields::list(field, report, fields::text)),
        aggregate: fields
            .take("aggregate")
            .and_then(|field| fields::boolean(field, report)),
        snat: fields
            .take("snat")
            .and_then(|field| fields::boolean(field, report)),
    };
    fields.close(report);
    Some(routes)
}

pub(crate) fn texts(field: Option<Field<'_>>, report: &mut Report) -> Vec<Text> {
    field
        .and_then(|field| fields::list(field, report, fields::text))
        .map(|list| list.value)
        .unwrap_or_default()
}
