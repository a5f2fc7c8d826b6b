use super::*;
use crate::headscale::error::At;

fn at() -> At {
    At {
        server: "https://hs.example.com".into(),
        request: "GET /x".to_owned(),
    }
}

fn unavailable(phase: Phase, retry_after: Option<u64>) -> Error {
    Error::Unavailable {
        at: at(),
        phase,
        cause: String::new(),
        retry_after: retry_after.map(Duration::from_secs),
    }
}

fn timeout(phase: Phase) -> Error {
    Error::Timeout {
        at: at(),
        phase,
        after: Duration::from_secs(1),
    }
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn only_what_may_be_done_twice_is_asked_again_after_it_may_have_arrived() {
    fn check(endpoint: Endpoint, error: &Error, again: bool) {
        let pause = next_pause(endpoint, error, Some(SECOND), MINUTE);
        assert_eq!(pause.is_some(), again, "{endpoint} {error}");
    }
    let node = "7".parse().unwrap();
    let idempotent = [
        Endpoint::Health,
        Endpoint::Version,
        Endpoint::ApiKeys,
        Endpoint::Keys,
        Endpoint::ExpireKey,
        Endpoint::Nodes,
        Endpoint::ExpireNode(node),
        Endpoint::DisableExpiry(node),
        Endpoint::DeleteNode(node),
        Endpoint::ApproveRoutes(node),
        Endpoint::Policy,
        Endpoint::SetPolicy,
    ];
    for (endpoint, again) in idempotent
        .map(|endpoint| (endpoint, true))
        .into_iter()
        .chain([(Endpoint::MintKey, false)])
    {
        check(endpoint, &unavailable(Phase::Answering, None), again);
        check(endpoint, &timeout(Phase::Answering), again);
        check(endpoint, &unavailable(Phase::Connecting, None), true);
        check(endpoint, &timeout(Phase::Connecting), true);
        check(
            endpoint,
            &Error::Internal {
                at: at(),
                message: String::new(),
            },
            false,
        );
        check(
            endpoint,
            &Error::Unauthorized {
                at: at(),
                status: 401,
            },
            false,
        );
        check(
            endpoint,
            &Error::Decode {
                at: at(),
                detail: String::new(),
            },
            false,
        );
        check(
            endpoint,
            &Error::NotFound {
                at: at(),
                message: String::new(),
            },
            false,
        );
    }
}

#[test]
fn the_pause_is_the_servers_if_that_is_longer_and_must_fit_into_the_calls_time() {
    let pause = |retry_after, pause, left| {
        next_pause(
            Endpoint::Nodes,
            &unavailable(Phase::Answering, retry_after),
            pause,
            left,
        )
    };
    assert_eq!(pause(None, Some(SECOND), MINUTE), Some(SECOND));
    assert_eq!(pause(Some(5), Some(SECOND), MINUTE), Some(5 * SECOND));
    assert_eq!(pause(Some(0), Some(SECOND), MINUTE), Some(SECOND));
    assert_eq!(pause(Some(60), Some(SECOND), MINUTE), None);
    assert_eq!(pause(None, None, MINUTE), None);
    assert_eq!(pause(None, Some(SECOND), Duration::ZERO), None);
}

#[test]
fn there_is_one_pause_less_than_tries_and_each_is_bounded() {
    assert_eq!(pauses(0).count(), 0);
    assert_eq!(pauses(1).count(), 0);
    let pauses: Vec<Duration> = pauses(20).collect();
    assert_eq!(pauses.len(), 19);
    for pause in pauses {
        assert!(
            (FIRST_PAUSE..=2 * LONGEST_PAUSE).contains(&pause),
            "{pause:?}"
        );
    }
}
