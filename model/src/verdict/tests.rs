use std::collections::BTreeMap;

use super::*;
use crate::plan::{LoginState, RefusalKind};
use crate::split_dns::SplitDns;
use crate::tailnet::Prefs;

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

fn check(name: &str, status: Tri, reason: &str) -> CheckReport {
    CheckReport {
        name: name.to_owned(),
        status,
        reason: reason.to_owned(),
        message: format!("about {reason}"),
    }
}

fn seen(backend: Backend, advertised: &[&str], login: LoginState) -> TailnetView {
    let advertise_routes = advertised
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    let prefs = Prefs {
        advertise_routes,
        want_running: true,
        ..Prefs::default()
    };
    TailnetView::Seen {
        observed: Box::new(Observed {
            backend,
            prefs,
            health: vec![],
            online: true,
            expired: false,
            login_error: None,
        }),
        login,
        refused: None,
        foreign_routes: false,
        unsaved: false,
        offline: false,
    }
}

/// A gateway that wants this, with nothing wrong about it.
fn facts<'a>(tailnet: &'a TailnetView, wanted: &'a [Ipv4Net]) -> Facts<'a> {
    Facts {
        listening: true,
        hosts: HostsState::Read,
        stale: vec![],
        tailnet,
        wanted: Some(wanted),
        refused: &[],
        snat: true,
        loops: &[],
        kernel: None,
        split_dns: &SplitDns::Unknown,
        deaf: &[],
    }
}

/// `prefix wanted advertised kernel reason`, one line per prefix.
fn lines(tailnet: &TailnetView, forwarding: Tri, path: Tri) -> Vec<String> {
    let wanted = [net("192.0.2.0/24")];
    let checks = [check("Ipv4Forwarding", forwarding, "ForwardingOff")];
    let kernel = KernelReport {
        checks: checks.to_vec(),
        paths: BTreeMap::from([(wanted[0], check("PathOut", path, "NoPath"))]),
        ..KernelReport::default()
    };
    let facts = Facts {
        kernel: Some(&kernel),
        ..facts(tailnet, &wanted)
    };
    routes(&facts)
        .into_iter()
        .map(|t| {
            format!(
                "{} {} {} {:?} {}",
                t.prefix, t.wanted, t.advertised, t.kernel, t.reason
            )
        })
        .collect()
}

#[test]
fn the_route_truth_names_the_first_step_that_fails() {
    let running = seen(Backend::Running, &["192.0.2.0/24"], LoginState::NotNeeded);
    let empty = seen(Backend::Running, &[], LoginState::NotNeeded);
    let expired = seen(Backend::NeedsLogin, &["192.0.2.0/24"], LoginState::NoKey);
    let away = TailnetView::Unreachable("no socket".to_owned());
    for (tailnet, forwarding, path, expected) in [
        (&running, Tri::True, Tri::True, "true true True Carried"),
        (
            &running,
            Tri::False,
            Tri::True,
            "true true False ForwardingOff",
        ),
        (&running, Tri::True, Tri::False, "true true False NoPath"),
        (
            &empty,
            Tri::True,
            Tri::True,
            "true false True NotAdvertised",
        ),
        (&expired, Tri::True, Tri::True, "true false True NeedsLogin"),
        (&away, Tri::True, Tri::True, "true false True Unreachable"),
    ] {
        assert_eq!(
            lines(tailnet, forwarding, path),
            [format!("192.0.2.0/24 {expected}")]
        );
    }
}

#[test]
fn a_prefix_that_nobody_wants_is_shown_as_such() {
    let view = seen(
        Backend::Running,
        &["192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32"],
        LoginState::NotNeeded,
    );
    let got = lines(&view, Tri::True, Tri::True);
    assert_eq!(
        got[1..],
        [
            "0.0.0.0/0 false true Unknown NotWanted",
            "2001:db8::/32 false true Unknown NotWanted"
        ]
    );
}

#[test]
fn conditions_tell_state_and_reason() {
    let wanted = [net("192.0.2.0/24")];
    let base = seen(Backend::Running, &["192.0.2.0/24"], LoginState::NotNeeded);
    let no_checks = KernelReport::default();
    let facts = Facts {
        kernel: Some(&no_checks),
        ..facts(&base, &wanted)
    };
    let show = |facts: &Facts<'_>| {
        conditions(facts, &routes(facts))
            .iter()
            .map(|c| format!("{}={:?}/{}", c.kind, c.status, c.reason))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        show(&facts),
        "DNSReady=True/Serving TailnetReady=True/Running RoutesAdvertised=True/Advertised \
         KernelReady=True/ChecksPassed SplitDNS=Unknown/NoNetworkMap"
    );
    let none = TailnetView::NotConfigured;
    let dns_only = Facts {
        wanted: None,
        tailnet: &none,
        hosts: HostsState::Unread,
        kernel: None,
        ..facts.clone()
    };
    assert_eq!(
        show(&dns_only),
        "DNSReady=Unknown/Starting TailnetReady=Unknown/NotConfigured RoutesAdvertised=Unknown/NotConfigured \
         KernelReady=Unknown/NotRead SplitDNS=Unknown/NoNetworkMap"
    );
    let login = seen(Backend::NeedsLogin, &["192.0.2.0/24"], LoginState::Tried);
    let stale = Facts {
        tailnet: &login,
        stale: vec!["hosts: garbage".to_owned()],
        ..facts
    };
    assert_eq!(
        show(&stale),
        "DNSReady=True/ServingLastGood TailnetReady=False/LoginPending \
         RoutesAdvertised=False/TailnetLoginPending KernelReady=True/ChecksPassed SplitDNS=Unknown/NoNetworkMap"
    );
}

#[test]
fn trouble_with_prefs_writers_and_logins_has_its_own_reasons() {
    let wanted = [net("192.0.2.0/24")];
    let base = |backend, login| seen(backend, &["192.0.2.0/24"], login);
    let with = |view: TailnetView, change: fn(&mut Observed)| match view {
        TailnetView::Seen {
            mut observed,
            login,
            refused,
            foreign_routes,
            unsaved,
            offline,
        } => {
            change(&mut observed);
            TailnetView::Seen {
                observed,
                login,
                refused,
                foreign_routes,
                unsaved,
                offline,
            }
        }
        other => other,
    };
    let foreign = match base(Backend::Running, LoginState::NotNeeded) {
        TailnetView::Seen {
            observed,
            login,
            refused,
            ..
        } => TailnetView::Seen {
            observed,
            login,
            refused,
            foreign_routes: true,
            unsaved: false,
            offline: false,
        },
        other => other,
    };
    let unsaved = match base(Backend::Running, LoginState::NotNeeded) {
        TailnetView::Seen {
            observed,
            login,
            refused,
            foreign_routes,
            ..
        } => TailnetView::Seen {
            observed,
            login,
            refused,
            foreign_routes,
            unsaved: true,
            offline: false,
        },
        other => other,
    };
    let offline = match base(Backend::Running, LoginState::NotNeeded) {
        TailnetView::Seen {
            observed,
            login,
            refused,
            foreign_routes,
            unsaved,
            ..
        } => TailnetView::Seen {
            observed,
            login,
            refused,
            foreign_routes,
            unsaved,
            offline: true,
        },
        other => other,
    };
    let refused_by = |kind| refused_in(Backend::Running, kind);
    fn refused_in(backend: Backend, kind: RefusalKind) -> TailnetView {
        match seen(backend, &[], LoginState::NotNeeded) {
            TailnetView::Seen {
                observed, login, ..
            } => TailnetView::Seen {
                observed,
                login,
                refused: Some(Refusal {
                    kind,
                    why: "its words".to_owned(),
                }),
                foreign_routes: false,
                unsaved: false,
                offline: false,
            },
            other => other,
        }
    }
    let accepts = with(base(Backend::Running, LoginState::NotNeeded), |o| {
        o.prefs.route_all = true;
    });
    for (view, expected) in [
        (foreign, "RoutesAdvertised=False/ForeignWriter"),
        (accepts, "TailnetReady=False/PrefsDiffer"),
        (offline, "TailnetReady=True/ControlServerUnreachable"),
        (
            with(base(Backend::NoState, LoginState::NotNeeded), |o| {
                o.health = vec!["State store failed to initialize, …".to_owned()];
            }),
            "TailnetReady=False/StateStoreFailed",
        ),
        (unsaved, "TailnetReady=True/StateNotSaved"),
        (
            refused_by(RefusalKind::Locked),
            "RoutesAdvertised=False/ConfigLocked",
        ),
        (
            refused_by(RefusalKind::NotOperator),
            "RoutesAdvertised=False/NotOperator",
        ),
        (
            refused_by(RefusalKind::Other),
            "RoutesAdvertised=False/Refused",
        ),
        (
            refused_in(Backend::NeedsLogin, RefusalKind::NotOperator),
            "TailnetReady=False/NotOperator",
        ),
        (
            refused_in(Backend::NeedsLogin, RefusalKind::NotOperator),
            "RoutesAdvertised=False/TailnetNotOperator",
        ),
        (
            base(Backend::Stopped, LoginState::NotNeeded),
            "TailnetReady=False/Stopped",
        ),
        (
            base(Backend::NeedsLogin, LoginState::Expired),
            "TailnetReady=False/NodeExpired",
        ),
        (
            base(Backend::NeedsLogin, LoginState::Refused),
            "TailnetReady=False/LoginRefused",
        ),
        (
            base(Backend::NeedsLogin, LoginState::NoKey),
            "TailnetReady=False/NeedsLogin",
        ),
        (
            base(Backend::NoState, LoginState::NotNeeded),
            "TailnetReady=False/NoState",
        ),
        (
            base(Backend::Starting, LoginState::NotNeeded),
            "TailnetReady=False/Starting",
        ),
        (TailnetView::Unseen, "TailnetReady=Unknown/Starting"),
    ] {
        let facts = facts(&view, &wanted);
        let all = conditions(&facts, &routes(&facts));
        let shown: Vec<String> = all
            .iter()
            .map(|c| format!("{}={:?}/{}", c.kind, c.status, c.reason))
            .collect();
        assert!(
            shown.iter().any(|line| line == expected),
            "{expected} is not in {shown:?}"
        );
    }
}

#[test]
fn an_entry_that_cannot_be_advertised_is_named_and_the_others_are_carried() {
    let wanted = [net("192.0.2.0/24")];
    let running = seen(Backend::Running, &["192.0.2.0/24"], LoginState::NotNeeded);
    let refused = [RefusedRoute {
        text: "0.0.0.0/0".to_owned(),
        why: "it is the default route; remove it".to_owned(),
    }];
    let facts = Facts {
        refused: &refused,
        ..facts(&running, &wanted)
    };
    let truths = routes(&facts);
    let shown: Vec<String> = truths
        .iter()
        .map(|t| format!("{} {} {} {}", t.prefix, t.wanted, t.advertised, t.reason))
        .collect();
    assert_eq!(
        shown,
        [
            "192.0.2.0/24 true true KernelUnknown",
            "0.0.0.0/0 true false Unroutable"
        ]
    );
    let all = conditions(&facts, &truths);
    let advertised = all.iter().find(|c| c.kind == "RoutesAdvertised").unwrap();
    assert_eq!(advertised.reason, "Unroutable");
    assert_eq!(
        advertised.message,
        "1 of 2 entries cannot be advertised, the others are: 0.0.0.0/0: it is the default route; remove it"
    );
}

#[test]
fn messages_stay_short_with_thousands_of_prefixes() {
    let wanted: Vec<Ipv4Net> = (0..3000_u32)
        .map(|n| Ipv4Net::from(std::net::Ipv4Addr::from(0x0a07_0000 + n)))
        .collect();
    let empty = seen(Backend::Running, &[], LoginState::NotNeeded);
    let facts = facts(&empty, &wanted);
    for condition in conditions(&facts, &routes(&facts)) {
        assert!(condition.message.len() < 400, "{}", condition.message);
    }
}

#[test]
fn a_refused_write_names_the_command_that_does_it_by_hand() {
    let wanted = [net("192.0.2.0/24"), net("198.51.100.0/24")];
    let TailnetView::Seen {
        observed, login, ..
    } = seen(Backend::Running, &[], LoginState::NotNeeded)
    else {
        panic!()
    };
    let view = TailnetView::Seen {
        observed,
        login,
        refused: Some(Refusal {
            kind: RefusalKind::NotOperator,
            why: "tailscaled forbids it".to_owned(),
        }),
        foreign_routes: false,
        unsaved: false,
        offline: false,
    };
    let facts = facts(&view, &wanted);
    let all = conditions(&facts, &routes(&facts));
    let advertised = all.iter().find(|c| c.kind == "RoutesAdvertised").unwrap();
    assert_eq!(
        advertised.message,
        "tailscaled forbids it; or by hand: tailscale set --advertise-routes=192.0.2.0/24,198.51.100.0/24"
    );
}

#[test]
fn warnings_of_the_kernel_leave_it_ready_and_are_told() {
    let wanted = [net("192.0.2.0/24")];
    let running = seen(Backend::Running, &["192.0.2.0/24"], LoginState::NotNeeded);
    let kernel = KernelReport {
        checks: vec![check("UdpGroForwarding", Tri::True, "UdpGroForwardingSlow")],
        ..KernelReport::default()
    };
    let facts = Facts {
        kernel: Some(&kernel),
        ..facts(&running, &wanted)
    };
    let all = conditions(&facts, &routes(&facts));
    let ready = all.iter().find(|c| c.kind == "KernelReady").unwrap();
    assert_eq!(
        (ready.status, ready.reason.as_str()),
        (Tri::True, "ChecksPassed")
    );
    assert!(
        ready
            .message
            .contains("UdpGroForwarding: about UdpGroForwardingSlow"),
        "{}",
        ready.message
    );
}
