use super::*;
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
        ..Prefs::default()
    };
    TailnetView::Seen {
        observed: Box::new(Observed {
            backend,
            prefs,
            health: vec![],
            login_error: None,
        }),
        login,
        refused: None,
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
         KernelReady=True/ChecksPassed SplitDNS=Unknown/NotChecked"
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
         KernelReady=Unknown/NotRead SplitDNS=Unknown/NotChecked"
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
         RoutesAdvertised=False/TailnetLoginPending KernelReady=True/ChecksPassed SplitDNS=Unknown/NotChecked"
    );
}
