//! The stream of changes, from connecting to its end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of tests may fail the test"
)]

mod fake;

use std::time::Duration;

use fake::{Fake, Step, bus_head, chunk, fixture, last_chunk, reply};
use futures::{FutureExt, StreamExt};
use tsunaro_localapi::{Error, IpnBus, IpnEvent, LocalApi};
use tsunaro_model::tailnet::Backend;

const STARTING: &str = "{\"State\":5}\n";
const RUNNING: &str = "{\"State\":6}\n";

fn bus(steps: impl IntoIterator<Item = Step>) -> Fake {
    Fake::start(
        [Step::ReadRequest, bus_head()]
            .into_iter()
            .chain(steps)
            .collect(),
    )
}

/// Everything until the end, and that the end is final.
async fn all(fake: &Fake) -> Vec<Result<IpnEvent, Error>> {
    let mut bus = LocalApi::new(fake.socket()).watch().await.unwrap();
    let mut items = Vec::new();
    while let Some(item) = bus.next().await {
        items.push(item);
    }
    assert!(bus.next().await.is_none(), "it went on after its end");
    items
}

fn states(items: &[Result<IpnEvent, Error>]) -> Vec<Backend> {
    let state = |item: &Result<IpnEvent, Error>| match item {
        Ok(IpnEvent::State(state)) => Some(*state),
        _ => None,
    };
    items.iter().filter_map(state).collect()
}

#[tokio::test]
async fn the_watch_asks_for_state_prefs_and_health_and_for_nothing_else() {
    let fake = bus([last_chunk()]);
    assert!(all(&fake).await.is_empty());
    let request = fake.request();
    assert!(
        request.starts_with("GET /localapi/v0/watch-ipn-bus?mask=134 HTTP/1.1\r\n"),
        "{request}"
    );
}

#[tokio::test]
async fn a_recorded_login_leads_to_running() {
    let fake = bus([chunk(&fixture("bus-login.ndjson")), last_chunk()]);
    let items = all(&fake).await;
    assert!(items.iter().all(Result::is_ok), "{items:?}");
    use Backend::{NeedsLogin, Running, Starting};
    let mut states = states(&items);
    states.dedup();
    assert_eq!(states, [NeedsLogin, Starting, Running]);
}

#[tokio::test]
async fn messages_may_be_cut_anywhere() {
    let text = fixture("bus-login.ndjson");
    let whole = all(&bus([chunk(&text), last_chunk()])).await;
    let bytes: Vec<char> = text.chars().collect();
    for size in [7, 100, 1000] {
        let pieces = bytes
            .chunks(size)
            .map(|piece| chunk(&piece.iter().collect::<String>()));
        let cut = all(&bus(pieces.chain([last_chunk()]))).await;
        assert_eq!(format!("{cut:?}"), format!("{whole:?}"), "pieces of {size}");
    }
}

#[tokio::test]
async fn events_come_when_they_happen_and_silence_is_no_end() {
    let fake = bus([chunk(STARTING), Step::Hang]);
    // The limit per request is over long before the silence is.
    let api = LocalApi::with_timeout(fake.socket(), Duration::from_millis(300));
    let mut bus = api.watch().await.unwrap();
    assert!(matches!(
        bus.next().await,
        Some(Ok(IpnEvent::State(Backend::Starting)))
    ));
    let silence = tokio::time::timeout(Duration::from_millis(600), bus.next()).await;
    assert!(silence.is_err(), "{silence:?}");
}

#[tokio::test]
async fn giving_up_the_wait_for_an_event_loses_none() {
    let fake = bus([chunk(STARTING), chunk(RUNNING), last_chunk()]);
    let mut bus: IpnBus = LocalApi::new(fake.socket()).watch().await.unwrap();
    let mut seen = Vec::new();
    loop {
        // Polled once and dropped, as a select loop does with the branches that lose.
        match bus.next().now_or_never() {
            Some(Some(Ok(event))) => seen.push(event),
            Some(Some(Err(error))) => panic!("{error}"),
            Some(None) => break,
            None => tokio::task::yield_now().await,
        }
    }
    assert_eq!(
        seen,
        [
            IpnEvent::State(Backend::Starting),
            IpnEvent::State(Backend::Running)
        ]
    );
}

#[tokio::test]
async fn a_daemon_that_dies_between_messages_ends_the_stream() {
    let fake = bus([chunk(RUNNING)]);
    let items = all(&fake).await;
    assert_eq!(states(&items), [Backend::Running]);
    assert_eq!(items.len(), 1, "{items:?}");
}

#[tokio::test]
async fn an_end_in_the_middle_of_a_message_is_an_error() {
    for end in [vec![], vec![last_chunk()]] {
        let fake = bus([vec![chunk(RUNNING), chunk("{\"State\":")], end].concat());
        let items = all(&fake).await;
        assert!(
            matches!(items.as_slice(), [Ok(_), Err(Error::Io { .. })]),
            "{items:?}"
        );
    }
}

#[tokio::test]
async fn an_error_of_the_daemon_is_an_event_and_the_stream_goes_on() {
    let message = "{\"ErrMessage\":\"invalid pre auth key hskey-auth-1\"}\n";
    let fake = bus([chunk(message), chunk(RUNNING), last_chunk()]);
    let items = all(&fake).await;
    assert!(
        matches!(
            items.as_slice(),
            [Ok(IpnEvent::ErrorMessage(text)), Ok(IpnEvent::State(Backend::Running))]
                if text == "invalid pre auth key [redacted]"
        ),
        "{items:?}"
    );
}

#[tokio::test]
async fn a_message_of_unknown_shape_ends_the_stream_with_an_error() {
    let fake = bus([
        chunk(STARTING),
        chunk("{\"State\":99}\n"),
        chunk(RUNNING),
        Step::Hang,
    ]);
    let items = all(&fake).await;
    assert!(
        matches!(items.as_slice(), [Ok(_), Err(Error::Decode { .. })]),
        "{items:?}"
    );
    let text = items[1].as_ref().unwrap_err().to_string();
    assert!(
        text.contains("GET watch-ipn-bus") && text.contains("unknown State 99"),
        "{text}"
    );
}

#[tokio::test]
async fn three_thousand_routes_fit_and_four_mebibytes_do_not() {
    let routes: Vec<String> = (0..3000)
        .map(|n| format!("10.{}.{}.0/24", n / 256, n % 256))
        .collect();
    let mut prefs: serde_json::Value =
        serde_json::from_str(&fixture("prefs-running.json")).unwrap();
    prefs["AdvertiseRoutes"] = routes.into();
    let line = format!("{}\n", serde_json::json!({"Prefs": prefs}));
    assert!(line.len() > 40_000, "{}", line.len());
    let items = all(&bus([chunk(&line), last_chunk()])).await;
    let [Ok(IpnEvent::Prefs(prefs))] = items.as_slice() else {
        panic!("{items:?}");
    };
    assert_eq!(prefs.advertise_routes.len(), 3000);

    // A line that never ends is given up although the peer stays.
    let endless = chunk(&" ".repeat((4 << 20) + 1));
    let items = all(&bus([chunk(RUNNING), endless, Step::Hang])).await;
    assert!(
        matches!(items.as_slice(), [Ok(_), Err(Error::TooLarge { .. })]),
        "{items:?}"
    );
}

#[tokio::test]
async fn a_watch_that_is_refused_is_never_connected() {
    let fake = Fake::answering(reply("403 Forbidden", "watch ipn bus access denied"));
    let error = LocalApi::new(fake.socket()).watch().await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");

    let fake = Fake::start(vec![Step::ReadRequest, Step::Hang]);
    let api = LocalApi::with_timeout(fake.socket(), Duration::from_millis(100));
    let error = api.watch().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
}
