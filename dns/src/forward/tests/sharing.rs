use futures::future::join_all;

use super::*;

// Holds rule 58.
#[tokio::test(start_paused = true)]
async fn identical_questions_share_one_query_and_keep_their_own_case() {
    let net = Net::new();
    net.udp(u1(), answer(50, 1));
    let forwarder = forwarder(&net, &[u1()]);
    let questions: Vec<Question> = (0..50)
        .map(|i| {
            question(
                if i % 2 == 0 {
                    "www.corp.example."
                } else {
                    "WWW.corp.example."
                },
                RecordType::A,
            )
        })
        .collect();
    let results = join_all(questions.iter().map(|question| timed(&forwarder, question))).await;
    for ((result, took), question) in results.iter().zip(&questions) {
        let result = result.as_ref().unwrap();
        assert!(result.answer[0].name.eq_case(&question.name));
        assert_eq!(*took, 50);
    }
    assert_eq!(net.seen().len(), 1);
    let counts = forwarder.metrics().snapshot();
    assert_eq!((counts.questions, counts.asked, counts.joined), (50, 1, 49));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_does_not_take_the_query_with_it() {
    let net = Net::new();
    net.udp(u1(), answer(50, 1));
    let forwarder = forwarder(&net, &[u1()]);
    let question = www();
    let impatient = tokio::time::timeout(Duration::from_millis(10), timed(&forwarder, &question));
    let (left, stayed) = tokio::join!(impatient, timed(&forwarder, &question));
    assert!(left.is_err());
    assert_eq!(addresses(&stayed.0.unwrap()), [1]);
    assert_eq!(net.seen().len(), 1);
}

// Holds rule 58.
#[tokio::test(start_paused = true)]
async fn more_than_a_thousand_questions_in_flight_are_turned_away() {
    let net = Net::new();
    net.udp(u1(), Play::Silent);
    let forwarder = forwarder(&net, &[u1()]);
    let ask = |i: usize| {
        let forwarder = forwarder.clone();
        async move {
            timed(
                &forwarder,
                &question(&format!("n{i}.corp.example."), RecordType::A),
            )
            .await
        }
    };
    let crowd = join_all((0..1001).map(ask));
    let check = async {
        pass(1).await;
        assert_eq!(forwarder.in_flight(), 1000);
        assert_eq!(
            timed(&forwarder, &question("n7.corp.example.", RecordType::A))
                .await
                .1,
            1799,
            "joining is free"
        );
    };
    let (results, ()) = tokio::join!(crowd, check);
    let overloaded = results
        .iter()
        .filter(|result| **result == (Err(Failure::Overloaded), 0))
        .count();
    let timed_out = results
        .iter()
        .filter(|result| **result == (Err(Failure::Timeout), 1800))
        .count();
    assert_eq!((overloaded, timed_out), (1, 1000));
    pass(1).await;
    assert_eq!(
        (forwarder.in_flight(), net.open_channels()),
        (0, 256),
        "few wait for late answers"
    );
    pass(4000).await;
    assert_eq!(net.open_channels(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_is_not_configured_has_no_answer() {
    let net = Net::new();
    let forwarder = forwarder(&net, &[u1()]);
    let result = forwarder.resolve(&dns_name("other.example"), &www()).await;
    assert_eq!(result, Err(Failure::NotConfigured));
    forwarder.configure(&config(&[]));
    assert_eq!(
        forwarder.resolve(&zone(), &www()).await,
        Err(Failure::NotConfigured)
    );
}

#[tokio::test(start_paused = true)]
async fn shutting_down_waits_for_queries_and_then_gives_them_up() {
    let net = Net::new();
    net.udp(u1(), answer(50, 1));
    let forwarder = forwarder(&net, &[u1()]);
    let asked = www();
    let stop = async {
        pass(10).await;
        forwarder.shut_down(Duration::from_secs(1)).await
    };
    let (result, drained) = tokio::join!(timed(&forwarder, &asked), stop);
    assert!(drained && result.0.is_ok());
    let other = question("other.corp.example.", RecordType::A);
    assert_eq!(timed(&forwarder, &other).await, (Err(Failure::GivenUp), 0));

    net.udp(u1(), Play::Silent);
    let forwarder = super::forwarder(&net, &[u1()]);
    let stop = async {
        pass(10).await;
        forwarder.shut_down(Duration::from_millis(100)).await
    };
    let (result, drained) = tokio::join!(timed(&forwarder, &asked), stop);
    assert_eq!((result, drained), ((Err(Failure::GivenUp), 110), false));
    assert_eq!(net.open_channels(), 0);
}

// Holds rule 78.
#[tokio::test(start_paused = true)]
async fn a_panic_in_one_query_is_a_failure_of_that_query_alone() {
    let net = Net::new();
    net.udp(u1(), Play::Panic);
    let forwarder = forwarder(&net, &[u1()]);
    let question = www();
    let crowd = join_all((0..3).map(|_| timed(&forwarder, &question))).await;
    assert_eq!(crowd, vec![(Err(Failure::GivenUp), 0); 3]);
    assert_eq!(forwarder.in_flight(), 0);
    net.udp(u1(), answer(1, 1));
    assert_eq!(
        addresses(&timed(&forwarder, &question).await.0.unwrap()),
        [1]
    );
}
