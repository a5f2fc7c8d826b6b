//! Deadlines and concurrency of a connection, on a paused clock and a stream in memory.

use tokio::io::{AsyncReadExt, DuplexStream, duplex};

use super::super::testing::{Sleepy, handler, query};
use super::*;

struct Connection {
    client: DuplexStream,
    serving: tokio::task::JoinSet<()>,
    stop: CancellationToken,
    handler: Arc<Handler<Sleepy>>,
    slot: Arc<Slot>,
}

/// A connection over a stream that holds `buffer` octets per direction.
fn connection(buffer: usize) -> Connection {
    let (client, server) = duplex(buffer);
    let stop = CancellationToken::new();
    let handler = handler();
    let Admission::Free(slot) =
        Connections::new(1, None).admit([192, 0, 2, 1].into(), Instant::now())
    else {
        panic!("refused");
    };
    let slot = Arc::new(slot);
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn({
        let (stop, handler, slot) = (stop.clone(), Arc::clone(&handler), Arc::clone(&slot));
        async move {
            let (read, write) = tokio::io::split(server);
            serve_connection(read, write, &slot, &handler, &stop).await;
        }
    });
    Connection {
        client,
        serving,
        stop,
        handler,
        slot,
    }
}

impl Connection {
    async fn send(&mut self, id: u16, name: &str) {
        let mut framed = vec![];
        frame(&mut framed, &query(id, name));
        self.client.write_all(&framed).await.unwrap();
    }

    /// The next reply's ID and RCODE.
    async fn receive(&mut self) -> (u16, u8) {
        let mut reply = vec![0; usize::from(self.client.read_u16().await.unwrap())];
        self.client.read_exact(&mut reply).await.unwrap();
        (u16::from_be_bytes([reply[0], reply[1]]), reply[3] & 0xf)
    }

    async fn closed(&mut self) {
        assert_eq!(
            self.client.read(&mut [0; 1]).await.unwrap(),
            0,
            "closed without another octet"
        );
        self.serving.join_next().await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn rule_75_a_connection_without_a_first_octet_is_closed_after_10_seconds() {
    let start = Instant::now();
    let mut connection = connection(1024);
    connection.closed().await;
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn rule_75_an_idle_connection_is_closed_10_seconds_after_its_last_reply() {
    let mut connection = connection(1024);
    tokio::time::sleep(Duration::from_secs(7)).await;
    connection.send(1, "x.example.internal").await;
    connection.receive().await;
    let replied = Instant::now();
    connection.closed().await;
    assert_eq!(replied.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn rule_75_a_query_sent_octet_by_octet_does_not_hold_a_connection_open() {
    let start = Instant::now();
    let mut connection = connection(1024);
    let mut framed = vec![];
    frame(&mut framed, &query(1, "x.example.internal"));
    for octet in framed {
        if connection.client.write_all(&[octet]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(
        start.elapsed().as_secs(),
        10 + 1,
        "the write after the close fails"
    );
}

#[tokio::test(start_paused = true)]
async fn rule_75_a_client_that_takes_no_replies_is_closed_after_5_seconds() {
    let mut connection = connection(64);
    // The stream holds 64 octets: replies pile up unread.
    let start = Instant::now();
    for id in 0..8 {
        let mut framed = vec![];
        frame(&mut framed, &query(id, "x.example.internal"));
        if connection.client.write_all(&framed).await.is_err() {
            break;
        }
    }
    connection.serving.join_next().await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn rule_75_zero_length_and_short_frames_close_the_connection() {
    for bad in [vec![0, 0], vec![0, 11, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]] {
        let start = Instant::now();
        let mut connection = connection(1024);
        connection.send(1, "x.example.internal").await;
        assert_eq!(connection.receive().await, (1, 0));
        connection.client.write_all(&bad).await.unwrap();
        connection.closed().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "at once");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_75_a_half_closed_connection_still_gets_its_replies() {
    let mut connection = connection(1024);
    connection.send(1, "500.example.com").await;
    connection.send(2, "x.example.internal").await;
    connection.client.shutdown().await.unwrap();
    assert_eq!(connection.receive().await, (2, 0));
    assert_eq!(connection.receive().await, (1, 2));
    connection.closed().await;
}

#[tokio::test(start_paused = true)]
async fn rule_74_replies_come_in_the_order_they_are_ready() {
    let mut connection = connection(4096);
    for (id, name) in [
        (1, "900.example.com"),
        (2, "x.example.internal"),
        (3, "300.example.com"),
    ] {
        connection.send(id, name).await;
    }
    let start = Instant::now();
    assert_eq!(connection.receive().await, (2, 0));
    assert_eq!(
        start.elapsed(),
        Duration::ZERO,
        "a local answer waits for nothing"
    );
    assert_eq!(connection.receive().await, (3, 2));
    assert_eq!(connection.receive().await, (1, 2));
    assert_eq!(start.elapsed(), Duration::from_millis(900));
}

#[tokio::test(start_paused = true)]
async fn rule_74_at_most_16_queries_of_a_connection_are_in_flight() {
    let mut connection = connection(1 << 16);
    for id in 0..40 {
        connection.send(id, "1000.example.com").await;
    }
    let start = Instant::now();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(connection.handler.metrics().snapshot().in_flight, 16);
    let mut ids = vec![];
    for round in [16, 16, 8] {
        for _ in 0..round {
            ids.push(connection.receive().await.0);
        }
    }
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    ids.sort_unstable();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
    assert_eq!(connection.handler.metrics().snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn rule_50_upstreams_that_never_end_are_servfail_before_the_client_gives_up() {
    let mut connection = connection(1024);
    let start = Instant::now();
    connection.send(1, "60000.example.com").await;
    assert_eq!(connection.receive().await, (1, 2));
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn rule_78_a_panic_in_one_query_leaves_the_others_alone() {
    let mut connection = connection(1024);
    connection.send(1, "500.example.com").await;
    connection.send(2, "panic.example.com").await;
    assert_eq!(connection.receive().await, (2, 2));
    assert_eq!(connection.receive().await, (1, 2));
    connection.send(3, "x.example.internal").await;
    assert_eq!(connection.receive().await, (3, 0));
    let counts = connection.handler.metrics().snapshot();
    assert_eq!((counts.panics, counts.in_flight), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn rule_80_a_stop_finishes_what_is_in_flight_and_closes() {
    let mut connection = connection(1024);
    connection.send(1, "800.example.com").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    connection.stop.cancel();
    assert_eq!(connection.receive().await, (1, 2));
    connection.closed().await;
}

#[tokio::test(start_paused = true)]
async fn rule_76_a_connection_counts_as_busy_while_a_query_is_in_flight() {
    let mut connection = connection(1024);
    let connections = Arc::clone(connection.slot.connections());
    connection.send(1, "800.example.com").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let other = [192, 0, 2, 2].into();
    assert!(matches!(
        connections.admit(other, Instant::now()),
        Admission::Refused
    ));
    connection.receive().await;
    assert!(matches!(
        connections.admit(other, Instant::now()),
        Admission::Evicting(_)
    ));
    let start = Instant::now();
    connection.closed().await;
    assert_eq!(start.elapsed(), Duration::ZERO, "at once");
}

#[tokio::test(start_paused = true)]
async fn a_failure_to_accept_that_goes_on_is_said_once_a_minute() {
    let mut trouble = Trouble::default();
    assert_eq!(trouble.over(), None);
    let start = Instant::now();
    let mut said = vec![];
    for turn in 0..1300 {
        said.extend(trouble.goes_on(start + PAUSE * turn));
    }
    assert_eq!(said, [1, 1201]);
    assert_eq!(trouble.over(), Some(1300));
    assert_eq!(trouble.over(), None);
}
