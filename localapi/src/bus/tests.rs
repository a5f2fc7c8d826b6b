use proptest::prelude::*;
use tsunaro_model::tailnet::{Backend, HealthWarning};

use super::{IpnEvent, decode_line};

/// A first login, recorded from tailscaled 1.102.4: first with a wrong key, then with a good one.
/// Repeated lines were left out.
const LOGIN: &str = include_str!("../../tests/fixtures/bus-login.ndjson");

fn recorded() -> Vec<Vec<IpnEvent>> {
    LOGIN
        .lines()
        .map(|line| decode_line(line.as_bytes()).unwrap())
        .collect()
}

#[test]
fn the_first_message_tells_all_and_its_state_comes_last() {
    let first = recorded().swap_remove(0);
    let [
        IpnEvent::Session(session),
        IpnEvent::Prefs(prefs),
        IpnEvent::Health(health),
        IpnEvent::State(Backend::NeedsLogin),
    ] = first.as_slice()
    else {
        panic!("{first:?}");
    };
    assert_eq!(session.len(), 16);
    assert_eq!(prefs.operator_user, "nobody");
    assert_eq!(
        health,
        &[HealthWarning {
            code: "warming-up".to_owned(),
            text: "Tailscale is starting. Please wait.".to_owned(),
            impacts_connectivity: false,
        }]
    );
}

#[test]
fn a_login_shows_the_refusal_of_the_wrong_key_then_the_way_to_running() {
    let events: Vec<IpnEvent> = recorded().into_iter().flatten().collect();
    let at = |wanted: &dyn Fn(&IpnEvent) -> bool| {
        events
            .iter()
            .position(wanted)
            .unwrap_or_else(|| panic!("not in {events:#?}"))
    };
    let refused = at(&|event| *event == IpnEvent::ErrorMessage("invalid pre auth key".to_owned()));
    let explained = at(&|event| {
        matches!(event, IpnEvent::Health(warnings) if warnings.iter().any(|warning| {
            warning.code == HealthWarning::LOGIN_STATE && warning.text.contains("invalid pre auth key")
        }))
    });
    let finished = at(&|event| *event == IpnEvent::LoginFinished);
    let node = at(&|event| *event == IpnEvent::NodeChanged);
    let starting = at(&|event| *event == IpnEvent::State(Backend::Starting));
    let running = at(&|event| *event == IpnEvent::State(Backend::Running));
    assert!(refused < explained && explained < finished && finished < node);
    assert!(node < starting && starting < running);
}

#[test]
fn messages_about_other_things_bring_no_event() {
    fn check(line: &str) {
        assert_eq!(decode_line(line.as_bytes()), Ok(Vec::new()), "{line}");
    }
    check("");
    check(" \r");
    check("{}");
    check(r#"{"Version":"1.102.4","State":null,"Health":null,"Engine":{"NumLive":1},"Later":[1]}"#);
    check(r#"{"BrowseToURL":""}"#);
}

#[test]
fn messages_of_unknown_shape_are_errors() {
    fn check(line: &str, expected: &str) {
        let error = decode_line(line.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
    check(r#"{"State":7}"#, "unknown State 7");
    check(r#"{"State":"Running"}"#, "invalid type: string");
    check(r#"{"Prefs":{}}"#, "missing field");
    check("[]", "Notify");
    check("null", "Notify");
    check(r#"{"State":6"#, "EOF");
    check("{} {}", "trailing");
}

#[test]
fn an_url_to_log_in_with_is_an_event() {
    let line = r#"{"BrowseToURL":"https://headscale.example.com/register/x","State":2}"#;
    assert_eq!(
        decode_line(line.as_bytes()).unwrap(),
        [
            IpnEvent::BrowseToUrl("https://headscale.example.com/register/x".to_owned()),
            IpnEvent::State(Backend::NeedsLogin),
        ]
    );
}

proptest! {
    #[test]
    fn no_bytes_make_decoding_panic(line in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_line(&line);
    }

    /// Bytes that are close to real ones reach deeper than random ones.
    #[test]
    fn no_damage_to_a_real_message_makes_decoding_panic(
        which in 0usize..22,
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 0..4),
        cut in 0usize..40,
    ) {
        let mut line = LOGIN.lines().nth(which).unwrap().as_bytes().to_vec();
        let start = at.index(line.len());
        let end = (start + cut).min(line.len());
        line.splice(start..end, with);
        let _ = decode_line(&line);
    }
}
