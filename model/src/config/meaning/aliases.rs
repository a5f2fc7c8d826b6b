//! The graph of static aliases: no circles, no long chains.

use std::collections::{HashMap, HashSet};

use super::records::Placed;
use super::zones::shown;
use crate::config::{StaticData, StaticRecord};
use crate::finding::{Place, Report, quoted};
use crate::name::DnsName;
use crate::zone::MAX_LINKS;

struct Alias<'a> {
    target: &'a DnsName,
    place: &'a Place,
}

/// Reports circles and chains that no answer can follow (rule 21 of the DNS contract).
pub(super) fn check(records: &[Placed], report: &mut Report) {
    let mut order = Vec::new();
    let mut aliases = HashMap::new();
    for Placed {
        record: StaticRecord { name, data },
        place,
    } in records
    {
        if let StaticData::Alias(target) = data {
            order.push(name);
            aliases.insert(name, Alias { target, place });
        }
    }
    let in_circle = circles(&order, &aliases, report);
    chains(&order, &aliases, &in_circle, report);
}

/// Reports every circle once, at the member that the file names first; gives all members.
fn circles<'a>(
    order: &[&'a DnsName],
    aliases: &HashMap<&'a DnsName, Alias<'a>>,
    report: &mut Report,
) -> HashSet<&'a DnsName> {
    let mut members = HashSet::new();
    // The start of the walk that came by a name.
    let mut seen: HashMap<&DnsName, &DnsName> = HashMap::with_capacity(order.len());
    for start in order {
        let mut name: &DnsName = start;
        while let Some(alias) = aliases.get(name) {
            match seen.insert(name, start) {
                Some(earlier) if earlier == *start => {
                    let circle = walk_circle(name, aliases);
                    report_circle(&circle, order, aliases, report);
                    members.extend(circle);
                    break;
                }
                Some(_) => break,
                None => name = alias.target,
            }
        }
    }
    members
}

fn walk_circle<'a>(
    start: &'a DnsName,
    aliases: &HashMap<&'a DnsName, Alias<'a>>,
) -> Vec<&'a DnsName> {
    let mut circle = vec![start];
    let mut next = aliases.get(start).map(|alias| alias.target);
    while let Some(name) = next.filter(|name| *name != start) {
        circle.push(name);
        next = aliases.get(name).map(|alias| alias.target);
    }
    circle
}

fn report_circle(
    circle: &[&DnsName],
    order: &[&DnsName],
    aliases: &HashMap<&DnsName, Alias<'_>>,
    report: &mut Report,
) {
    let set: HashSet<&DnsName> = circle.iter().copied().collect();
    let Some(first) = order.iter().find(|name| set.contains(**name)) else {
        return;
    };
    let Some(Alias { place, .. }) = aliases.get(*first) else {
        return;
    };
    if circle.len() == 1 {
        report.error(
            place,
            format!("{} is an alias of itself", quoted(&shown(first))),
            "name another target, or an address",
        );
        return;
    }
    let turned = circle
        .iter()
        .cycle()
        .skip_while(|name| *name != first)
        .take(circle.len() + 1);
    let names: Vec<String> = turned.map(|name| quoted(&shown(name))).collect();
    report.error(
        place,
        format!("these aliases form a circle: {}", names.join(" → ")),
        "let one of them end at an address",
    );
}

/// Reports chains that are too long, at their first alias.
fn chains<'a>(
    order: &[&'a DnsName],
    aliases: &HashMap<&'a DnsName, Alias<'a>>,
    in_circle: &HashSet<&'a DnsName>,
    report: &mut Report,
) {
    let targets: HashSet<&DnsName> = aliases.values().map(|alias| alias.target).collect();
    for head in order.iter().filter(|name| !targets.contains(**name)) {
        let links = std::iter::successors(Some(*head), |name| {
            aliases.get(name).map(|alias| alias.target)
        });
        let chain: Vec<&DnsName> = links.take(MAX_LINKS + 2).collect();
        if chain.len() < MAX_LINKS + 2 || chain.iter().any(|name| in_circle.contains(name)) {
            continue;
        }
        if let Some(Alias { place, .. }) = aliases.get(*head) {
            let names: Vec<String> = chain.iter().map(|name| quoted(&shown(name))).collect();
            let what = format!(
                "more than {MAX_LINKS} aliases follow each other: {}",
                names.join(" → ")
            );
            report.error(
                place,
                what,
                "let the first ones point nearer to the end of the chain",
            );
        }
    }
}
