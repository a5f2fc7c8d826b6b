//! Kernel checks as they are reported.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;

use crate::kernel::checks::{CheckState, INTERFACE, KernelCheck, host_to_ask};
use crate::kernel::{KernelView, Path};
use crate::report::{CheckReport, LinkReport, PathReport, Tri};

/// Prefixes that one message names at most.
const MAX_NAMED: usize = 5;

/// Kernel checks, and what they found per prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelReport {
    /// One entry per check, however many prefixes it looks at.
    pub checks: Vec<CheckReport>,
    /// The check of the path to each wanted prefix.
    pub paths: BTreeMap<Ipv4Net, CheckReport>,
    /// The path itself.
    pub ways: BTreeMap<Ipv4Net, PathReport>,
    /// The interfaces that carry the gateway's traffic, tailscale0 first.
    pub links: Vec<LinkReport>,
}

/// Puts checks into the form of the report. The checks of single prefixes become one entry, which
/// names the first prefixes that fail.
pub fn report(view: &KernelView, checks: Vec<KernelCheck>) -> KernelReport {
    let mut report = KernelReport::default();
    let own = view.own_ipv4();
    let mut used = Vec::new();
    let mut place = None;
    for KernelCheck {
        name,
        prefix,
        state,
    } in checks
    {
        let check = check_report(name.as_str(), state);
        let Some(prefix) = prefix else {
            report.checks.push(check);
            continue;
        };
        place.get_or_insert((report.checks.len(), name.as_str()));
        if let Some(Path::Via {
            link,
            gateway,
            table: _,
            advmss,
        }) = view.paths.get(&host_to_ask(prefix, &own))
            && let Some(interface) = view.links.get(link)
        {
            used.push(*link);
            let way = PathReport {
                interface: interface.name.clone(),
                gateway: gateway.map(|gateway| gateway.to_string()),
                mtu: interface.mtu,
                advmss: *advmss,
            };
            report.ways.insert(prefix, way);
        }
        report.paths.insert(prefix, check);
    }
    if let Some((place, name)) = place {
        report.checks.insert(place, together(name, &report.paths));
    }
    used.sort_unstable();
    used.dedup();
    let tailscale = view.link_named(INTERFACE).map(|(_, link)| link);
    let others = used.iter().filter_map(|index| view.links.get(index));
    report.links = tailscale
        .into_iter()
        .chain(others.filter(|link| link.name != INTERFACE))
        .map(|link| LinkReport {
            name: link.name.clone(),
            up: link.up && link.lower_up,
            mtu: link.mtu,
        })
        .collect();
    report
}

fn check_report(name: &str, state: CheckState) -> CheckReport {
    let (status, reason, message) = match state {
        CheckState::Ok => (Tri::True, "Ok", String::new()),
        CheckState::Failed { reason, message } => (Tri::False, reason, message),
        CheckState::Warned { reason, message } => (Tri::True, reason, message),
        CheckState::Unknown { reason, command } => {
            (Tri::Unknown, reason, format!("see: {command}"))
        }
    };
    CheckReport {
        name: name.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
    }
}

/// One entry for the checks of many prefixes: the worst of them.
fn together(name: &str, paths: &BTreeMap<Ipv4Net, CheckReport>) -> CheckReport {
    let of = |status| {
        paths
            .iter()
            .filter(move |(_, check)| check.status == status)
    };
    let worst = of(Tri::False).next().or_else(|| of(Tri::Unknown).next());
    let Some((_, first)) = worst else {
        return check_report(name, CheckState::Ok);
    };
    let others: Vec<String> = of(first.status)
        .skip(1)
        .map(|(prefix, _)| prefix.to_string())
        .collect();
    let message = if others.is_empty() {
        first.message.clone()
    } else {
        format!("{}; the same check of {}", first.message, some(&others))
    };
    CheckReport {
        name: name.to_owned(),
        message,
        ..first.clone()
    }
}

/// The first of many, and how many more there are.
pub(super) fn some(list: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = list.iter().take(MAX_NAMED).map(AsRef::as_ref).collect();
    match list.len().saturating_sub(MAX_NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
