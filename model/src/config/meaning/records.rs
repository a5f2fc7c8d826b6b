//! Static records: names relative to the zone, one RRset or one alias per name.

use std::collections::HashMap;
use std::net::IpAddr;

use super::super::wire::{self, Given, RecordData, Text};
use super::zones::{Apex, Zones, bad_name, shown};
use super::{addresses, aliases};
use crate::config::{StaticData, StaticRecord};
use crate::finding::{Place, Report, quoted};
use crate::name::DnsName;

/// A record with the place of its first entry.
pub(super) struct Placed {
    pub(super) record: StaticRecord,
    pub(super) place: Place,
}

/// `dns.staticRecords`, grouped by name in the order of first mention.
pub(super) fn static_records(
    given: Vec<wire::StaticRecord>,
    zones: &Zones,
    report: &mut Report,
) -> Vec<StaticRecord> {
    let mut set = Set::default();
    for wire::StaticRecord { name, data } in given {
        let owner = name.and_then(|name| owner(name, zones, report));
        let data = data.and_then(|data| read(data, zones, report));
        if let (Some(owner), Some(data)) = (owner, data) {
            set.add(owner, data, zones, report);
        }
    }
    aliases::check(&set.records, report);
    set.records
        .into_iter()
        .map(|placed| placed.record)
        .collect()
}

struct Owner {
    name: DnsName,
    given: Text,
}

enum Value {
    Address(IpAddr, Text),
    Alias(DnsName, Text),
}

#[derive(Default)]
struct Set {
    records: Vec<Placed>,
    index: HashMap<DnsName, usize>,
}

impl Set {
    fn add(&mut self, owner: Owner, value: Value, zones: &Zones, report: &mut Report) {
        let Owner { name, given } = owner;
        let text = quoted(&given.value);
        let at_apex = zones.primary.as_ref().is_some_and(|zone| zone.name == name);
        if at_apex && let Value::Alias(_, target) = &value {
            let what = "the zone itself cannot be an alias, since it has SOA and NS records (RFC 1034 §3.6.2)";
            report.error(
                &target.place,
                what,
                "write `address: …` with the addresses of the target",
            );
            return;
        }
        let existing = self
            .index
            .get(&name)
            .and_then(|index| self.records.get_mut(*index));
        let Some(Placed {
            record,
            place: first,
        }) = existing
        else {
            let (data, place) = match value {
                Value::Address(address, given) => {
                    (StaticData::Addresses(vec![address]), given.place)
                }
                Value::Alias(target, given) => (StaticData::Alias(target), given.place),
            };
            self.index.insert(name.clone(), self.records.len());
            self.records.push(Placed {
                record: StaticRecord { name, data },
                place,
            });
            return;
        };
        let line = first.position.line;
        match (&mut record.data, value) {
            (StaticData::Addresses(addresses), Value::Address(address, given)) => {
                if addresses.contains(&address) {
                    let what = format!(
                        "the address {} of {text} is listed twice",
                        quoted(&given.value)
                    );
                    report.warn(&given.place, what, "remove one of them");
                } else {
                    addresses.push(address);
                }
            }
            (StaticData::Alias(_), Value::Alias(_, given)) => {
                let what =
                    format!("{text} has two targets, the first on line {line} (RFC 2181 §10.1)");
                report.error(&given.place, what, "keep one of them");
            }
            (StaticData::Alias(_), Value::Address(_, given))
            | (StaticData::Addresses(_), Value::Alias(_, given)) => {
                let what = format!(
                    "{text} has a target and an address, the first of them on line {line} (RFC 1034 §3.6.2)"
                );
                report.error(
                    &given.place,
                    what,
                    "keep either the target or the addresses",
                );
            }
        }
    }
}

/// A record's own name: relative, `@` for the zone.
fn owner(given: Text, zones: &Zones, report: &mut Report) -> Option<Owner> {
    let Given { value, place } = &given;
    let text = quoted(value);
    let zone = zones.primary.as_ref();
    if value == "@" {
        return zone.map(|Apex { name, .. }| Owner {
            name: name.clone(),
            given,
        });
    }
    if value.split('.').any(|label| label == "*") {
        let what = format!("{text} is a wildcard, and static records have none");
        report.error(place, what, "use `dns.wildcardAddress`, or write each name");
        return None;
    }
    let name = match DnsName::parse_host(value) {
        Ok(name) => name,
        Err(error) => {
            let fix =
                "write a name relative to the zone, such as `api`, or \"@\" for the zone itself";
            report.error(place, bad_name(value, &error), fix);
            return None;
        }
    };
    let zone = zone?;
    let in_zone = name.is_within(&zone.name);
    if in_zone || value.ends_with('.') {
        let problem = if in_zone {
            "repeats the zone"
        } else {
            "ends with a dot"
        };
        let fix = match (in_zone, relative(&name, &zone.name)) {
            (true, Some(relative)) => format!("write `{relative}`"),
            (true, None) => "write \"@\"".to_owned(),
            (false, _) if value == "." => "write \"@\" for the zone itself".to_owned(),
            (false, _) => format!("write `{}` if it lies in the zone", shown(&name)),
        };
        report.error(
            place,
            format!("{text} {problem}, and names of static records are relative to the zone"),
            fix,
        );
        return None;
    }
    match name.below(&zone.name) {
        Ok(name) => Some(Owner { name, given }),
        Err(error) => {
            report.error(
                place,
                format!("{text} below the zone is not a name: {error}"),
                "shorten it",
            );
            None
        }
    }
}

/// The part of `name` before the zone; None for the apex.
fn relative(name: &DnsName, zone: &DnsName) -> Option<String> {
    let own = name
        .labels()
        .count()
        .checked_sub(zone.labels().count())
        .filter(|count| *count > 0)?;
    DnsName::from_labels(name.labels().take(own))
        .ok()
        .map(|name| shown(&name))
}

fn read(data: RecordData, zones: &Zones, report: &mut Report) -> Option<Value> {
    match data {
        RecordData::Address(text) => {
            addresses::host(&text, report).map(|address| Value::Address(address, text))
        }
        RecordData::Target(text) => target(text, zones, report),
    }
}

/// An alias's target: relative to the zone without dots, absolute with one.
fn target(given: Text, zones: &Zones, report: &mut Report) -> Option<Value> {
    let Given { value, place } = &given;
    let name = match DnsName::parse_host(value) {
        Ok(name) if name.is_root() => {
            report.error(place, "`.` is no host", "write the name of a host");
            return None;
        }
        Ok(name) => name,
        Err(error) => {
            let fix = "write a full name such as `web.example.org`, or one label such as `web` for a name in the zone";
            report.error(place, bad_name(value, &error), fix);
            return None;
        }
    };
    let zone = zones.primary.as_ref()?;
    if !value.contains('.') {
        return match name.below(&zone.name) {
            Ok(name) => Some(Value::Alias(name, given)),
            Err(error) => {
                report.error(
                    place,
                    format!("{} below the zone is not a name: {error}", quoted(value)),
                    "shorten it",
                );
                None
            }
        };
    }
    if !zones.contain(&name) {
        let what = format!(
            "the target {} lies outside all zones here, and clients with glibc or musl do not follow such an alias",
            quoted(value)
        );
        let zone = shown(&zone.name);
        let fix = format!(
            "write `address: …`, or the full name `{}.{zone}` if it lies in the zone",
            shown(&name)
        );
        report.warn(place, what, fix);
    }
    Some(Value::Alias(name, given))
}
