use super::*;

fn key(text: &str) -> AuthKey {
    AuthKey::from_file_content(text).unwrap()
}

fn nets(list: &[&str]) -> Vec<Ipv4Net> {
    list.iter().map(|net| net.parse().unwrap()).collect()
}

fn observed(backend: Backend, routes: &[&str], login_error: &[&str]) -> Observed {
    let prefs = Prefs {
        advertise_routes: routes.iter().map(|net| net.parse().unwrap()).collect(),
        ..Prefs::default()
    };
    Observed {
        backend,
        prefs,
        health: vec![],
        login_error: login_error.first().map(|line| (*line).to_owned()),
    }
}

const SITE: &[&str] = &["192.0.2.0/24", "198.51.100.0/24"];

#[test]
fn routes_are_set_only_while_running_and_only_when_they_differ() {
    let desired = Desired {
        routes: Some(nets(SITE)),
        key: None,
    };
    let set = Some(Action::SetRoutes(nets(SITE)));
    let memory = LoginMemory::default();
    for (backend, present, expected) in [
        (Backend::Running, &[][..], set.clone()),
        (Backend::Running, &["192.0.2.0/24"], set.clone()),
        (
            Backend::Running,
            &["192.0.2.0/24", "198.51.100.0/24", "0.0.0.0/0"],
            set,
        ),
        (Backend::Running, SITE, None),
        (Backend::Running, &["198.51.100.0/24", "192.0.2.0/24"], None),
        (Backend::Starting, &[], None),
        (Backend::NoState, &[], None),
        (Backend::Stopped, &[], None),
        (Backend::NeedsLogin, &[], None),
    ] {
        let got = plan(
            &desired,
            &observed(backend, present, &[]),
            &memory,
            Duration::ZERO,
        );
        assert_eq!(got, expected, "{backend:?} {present:?}");
    }
}

#[test]
fn without_a_routes_section_the_daemon_is_left_alone() {
    let seen = observed(Backend::Running, &["10.0.0.0/8"], &[]);
    assert_eq!(
        plan(
            &Desired::default(),
            &seen,
            &LoginMemory::default(),
            Duration::ZERO
        ),
        None
    );
}

#[test]
fn an_empty_set_withdraws() {
    let desired = Desired {
        routes: Some(vec![]),
        key: None,
    };
    let got = plan(
        &desired,
        &observed(Backend::Running, SITE, &[]),
        &LoginMemory::default(),
        Duration::ZERO,
    );
    assert_eq!(got, Some(Action::SetRoutes(vec![])));
}

#[test]
fn a_needed_login_is_asked_for_once_and_again_only_after_an_error_and_a_pause() {
    let desired = Desired {
        routes: Some(nets(SITE)),
        key: Some(key("k1")),
    };
    let mut memory = LoginMemory::default();
    let quiet = observed(Backend::NeedsLogin, &[], &[]);
    let failed = observed(Backend::NeedsLogin, &[], &["register request: http 401"]);
    assert_eq!(
        plan(&desired, &quiet, &memory, Duration::ZERO),
        Some(Action::LogIn(key("k1")))
    );
    memory.tried(key("k1"), Duration::ZERO);
    for (seen, at, expected) in [
        (&quiet, 3600, None),
        (&failed, 29, None),
        (&failed, 30, Some(Action::LogIn(key("k1")))),
    ] {
        assert_eq!(
            plan(&desired, seen, &memory, Duration::from_secs(at)),
            expected,
            "{at}"
        );
    }
    let renewed = Desired {
        key: Some(key("k2")),
        ..desired
    };
    assert_eq!(
        plan(&renewed, &quiet, &memory, Duration::from_secs(1)),
        Some(Action::LogIn(key("k2")))
    );
}

#[test]
fn a_key_beside_a_running_node_is_not_used_but_a_new_one_is() {
    let mut memory = LoginMemory::default();
    let running = observed(Backend::Running, SITE, &[]);
    let old = Desired {
        routes: Some(nets(SITE)),
        key: Some(key("old")),
    };
    assert_eq!(plan(&old, &running, &memory, Duration::ZERO), None);
    memory.observe(&old, &running);
    assert_eq!(plan(&old, &running, &memory, Duration::ZERO), None);
    let emptied = Desired {
        key: None,
        ..old.clone()
    };
    assert_eq!(plan(&emptied, &running, &memory, Duration::ZERO), None);
    let new = Desired {
        key: Some(key("new")),
        ..old
    };
    assert_eq!(
        plan(&new, &running, &memory, Duration::ZERO),
        Some(Action::LogInAgain(key("new")))
    );
    memory.tried(key("new"), Duration::ZERO);
    assert_eq!(plan(&new, &running, &memory, Duration::ZERO), None);
}

#[test]
fn a_first_key_that_appears_beside_a_running_node_is_used() {
    let mut memory = LoginMemory::default();
    let running = observed(Backend::Running, SITE, &[]);
    memory.observe(&Desired::default(), &running);
    let with_key = Desired {
        routes: None,
        key: Some(key("k1")),
    };
    assert_eq!(
        plan(&with_key, &running, &memory, Duration::ZERO),
        Some(Action::LogInAgain(key("k1")))
    );
}

#[test]
fn the_key_that_logged_the_node_in_is_not_used_a_second_time() {
    let desired = Desired {
        routes: None,
        key: Some(key("k1")),
    };
    let mut memory = LoginMemory::default();
    memory.tried(key("k1"), Duration::ZERO);
    let running = observed(Backend::Running, &[], &[]);
    memory.observe(&desired, &running);
    assert_eq!(
        plan(&desired, &running, &memory, Duration::from_secs(60)),
        None
    );
}

#[test]
fn keys_never_show() {
    assert_eq!(
        format!("{:?}", Action::LogIn(key("tskey-secret"))),
        "LogIn(AuthKey(redacted))"
    );
}
