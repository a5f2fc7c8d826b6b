use super::*;
use crate::plan::LoginState;
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
            expired: false,
            login_error: None,
        }),
        login,
        refused: None,
        foreign_routes: false,
    }
}

/// `prefix wanted advertised kernel reason`, one line per prefix.
fn lines(tailnet: &TailnetView, forwarding: Tri, path: Tri) -> Vec<String> {
    let wanted = [net("192.0.2.0/24")];
    let checks = [check("Ipv4Forwarding", forwarding, "ForwardingOff")];
    let paths = BTreeMap::from([(wanted[0], check("PathOut", path, "NoPath"))]);
    let facts = Facts {
        listening: true,
        hosts: HostsState::Read,
        stale: vec![],
        tailnet,
        wanted: Some(&wanted),
        kernel: Some(&checks),
        split_dns: &SplitDns::Unknown,
        deaf: &[],
        paths: &paths,
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
    let paths = BTreeMap::new();
    let base = seen(Backend::Running, &["192.0.2.0/24"], LoginState::NotNeeded);
    let facts = Facts {
        listening: true,
        hosts: HostsState::Read,
        stale: vec![],
        tailnet: &base,
        wanted: Some(&wanted),
        kernel: Some(&[]),
        split_dns: &SplitDns::Unknown,
        deaf: &[],
        paths: &paths,
    };
    let show = |facts: &Facts<'_>| {
        conditions(facts)
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
    let paths = BTreeMap::new();
    let base = |backend, login| seen(backend, &["192.0.2.0/24"], login);
    let with = |view: TailnetView, change: fn(&mut Observed)| match view {
        TailnetView::Seen {
            mut observed,
            login,
            refused,
            foreign_routes,
        } => {
            change(&mut observed);
            TailnetView::Seen {
                observed,
                login,
                refused,
                foreign_routes,
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
        },
        other => other,
    };
    let accepts = with(base(Backend::Running, LoginState::NotNeeded), |o| {
        o.prefs.route_all = true;
    });
    for (view, expected) in [
        (foreign, "RoutesAdvertised=False/ForeignWriter"),
        (accepts, "TailnetReady=False/PrefsDiffer"),
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
        let facts = Facts {
            listening: true,
            hosts: HostsState::Read,
            stale: vec![],
            tailnet: &view,
            wanted: Some(&wanted),
            kernel: Some(&[]),
            split_dns: &SplitDns::Unknown,
            deaf: &[],
            paths: &paths,
        };
        let all = conditions(&facts);
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
