use super::*;

/// Loops of which one ends with `end` and the other serves until told to stop.
fn two_loops(
    end: impl Future<Output = LoopEnd> + Send + 'static,
    serving: &CancellationToken,
) -> Loops<LoopEnd> {
    let mut loops = Loops::new();
    loops.spawn(end);
    let serving = serving.clone();
    loops.spawn(async move {
        serving.cancelled().await;
        Ok(())
    });
    loops
}

fn no_threads() -> Result<Stopper, ServeError> {
    Ok(Stopper::new(vec![]))
}

fn broken() -> ServeError {
    let address = SocketAddr::from(([192, 0, 2, 1], 53));
    ServeError::Socket {
        address,
        transport: ClientTransport::Udp,
        source: io::Error::other("gone"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_any_loop_is_an_error_and_stops_the_others() {
    let stop = CancellationToken::new();
    let serving = stop.child_token();
    let outcome = supervise(
        two_loops(async { Err(broken()) }, &serving),
        &stop,
        &serving,
        no_threads(),
    )
    .await;
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "the listener on 192.0.2.1:53 (Udp) failed: gone"
    );
    assert!(
        !stop.is_cancelled(),
        "the owner's token is not ours to cancel"
    );

    let serving = stop.child_token();
    let outcome = supervise(
        two_loops(async { Ok(()) }, &serving),
        &stop,
        &serving,
        no_threads(),
    )
    .await;
    assert!(matches!(outcome, Err(ServeError::Ended)));

    let serving = stop.child_token();
    let outcome = supervise(
        two_loops(async { panic!("a bug") }, &serving),
        &stop,
        &serving,
        no_threads(),
    )
    .await;
    assert!(matches!(outcome, Err(ServeError::Panicked)));
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_was_asked_for_is_no_error() {
    let stop = CancellationToken::new();
    let serving = stop.child_token();
    let ends_too = {
        let serving = serving.clone();
        async move {
            serving.cancelled().await;
            Ok(())
        }
    };
    let loops = two_loops(ends_too, &serving);
    stop.cancel();
    assert!(
        supervise(loops, &stop, &serving, no_threads())
            .await
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_that_outlast_the_drain_are_ended_and_counted() {
    let tasks = Tasks::default();
    tasks.spawn(std::future::pending());
    tasks.spawn(std::future::pending());
    tasks.spawn(tokio::time::sleep(Duration::from_secs(1)));
    let start = tokio::time::Instant::now();
    assert_eq!(tasks.drain(Duration::from_secs(2)).await, 2);
    assert_eq!(start.elapsed().as_secs(), 2);

    let tasks = Tasks::default();
    tasks.spawn(tokio::time::sleep(Duration::from_secs(1)));
    let start = tokio::time::Instant::now();
    assert_eq!(tasks.drain(Duration::from_secs(2)).await, 0);
    assert_eq!(start.elapsed().as_secs(), 1);
}
