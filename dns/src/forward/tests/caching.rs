use hickory_proto::op::{Message, ResponseCode};

use super::super::fixtures::{cname, name, soa};
use super::*;

fn denial(milliseconds: u64, rcode: ResponseCode, ttl: u32) -> Play {
    Play::After(
        milliseconds,
        Reply::Denial(rcode, vec![soa("corp.example.", ttl, 60)]),
    )
}

// Holds rule 50.
#[tokio::test(start_paused = true)]
async fn a_late_answer_fills_the_cache_until_five_seconds_are_over() {
    for (delay, cached) in [(3000, true), (4900, true), (5100, false)] {
        let net = Net::new();
        net.udp(u1(), answer(delay, 1));
        let forwarder = forwarder(&net, &[u1()]);
        assert_eq!(
            timed(&forwarder, &www()).await,
            (Err(Failure::Timeout), 1800)
        );
        pass(4000).await;
        assert_eq!(net.open_channels(), 0, "nothing listens after 5 s");
        net.udp(u1(), Play::Silent);
        net.seen();
        let (result, took) = timed(&forwarder, &www()).await;
        assert_eq!(
            (result.is_ok(), took == 0, net.seen().is_empty()),
            (cached, cached, cached),
            "delay {delay} ms"
        );
        assert_eq!(
            forwarder.metrics().snapshot().late_answers,
            u64::from(cached)
        );
    }
}

// Holds rule 56.
#[tokio::test(start_paused = true)]
async fn ttls_are_capped_and_count_down() {
    let net = Net::new();
    net.udp(u1(), answer(1, 1));
    let forwarder = forwarder(&net, &[u1()]);
    let mut ttls = Vec::new();
    for _ in 0..4 {
        ttls.push(timed(&forwarder, &www()).await.0.unwrap().answer[0].ttl);
        pass(9_900).await;
    }
    assert_eq!(ttls, [30, 21, 11, 1]);
    assert_eq!(net.seen().len(), 1);
    timed(&forwarder, &www()).await.0.unwrap();
    assert_eq!(net.seen().len(), 1, "asked again after 30 s");
}

// Holds rule 56.
#[tokio::test(start_paused = true)]
async fn answers_with_ttl_zero_are_sent_on_as_they_are_and_not_kept() {
    let net = Net::new();
    net.udp(u1(), Play::After(1, Reply::Records(vec![address(0, 1)])));
    let forwarder = forwarder(&net, &[u1()]);
    for _ in 0..3 {
        assert_eq!(timed(&forwarder, &www()).await.0.unwrap().answer[0].ttl, 0);
    }
    assert_eq!(net.seen().len(), 3);
}

// Holds rule 56.
#[tokio::test(start_paused = true)]
async fn negative_answers_are_kept_for_ten_seconds_at_most_and_only_with_a_soa() {
    for rcode in [ResponseCode::NXDomain, ResponseCode::NoError] {
        let net = Net::new();
        net.udp(u1(), denial(1, rcode, 60));
        let forwarder = forwarder(&net, &[u1()]);
        let first = timed(&forwarder, &www()).await.0.unwrap();
        assert_eq!((first.rcode, first.authority[0].ttl), (rcode, 10));
        pass(9_500).await;
        let second = timed(&forwarder, &www()).await.0.unwrap();
        assert_eq!((second.rcode, second.authority[0].ttl), (rcode, 1));
        assert_eq!(net.seen().len(), 1);
        pass(500).await;
        timed(&forwarder, &www()).await.0.unwrap();
        assert_eq!(net.seen().len(), 1);

        net.udp(u1(), Play::After(1, Reply::Denial(rcode, vec![])));
        for _ in 0..5 {
            let bare = timed(&forwarder, &question("bare.corp.example.", RecordType::A))
                .await
                .0
                .unwrap();
            assert_eq!((bare.rcode, bare.authority.len()), (rcode, 0));
        }
        assert_eq!(net.seen().len(), 5);
    }
}

// Holds rule 56.
#[tokio::test(start_paused = true)]
async fn a_failure_is_remembered_for_a_second() {
    let net = Net::new();
    let forwarder = forwarder(&net, &[u1()]);
    for (wait, packets) in [(0, 1), (999, 0), (1, 1)] {
        pass(wait).await;
        assert_eq!(timed(&forwarder, &www()).await, (Err(Failure::Network), 0));
        assert_eq!(net.seen().len(), packets, "after {wait} ms more");
    }
}

// Holds rule 57.
#[tokio::test(start_paused = true)]
async fn a_positive_answer_is_served_stale_for_an_hour_when_everything_else_failed() {
    let net = Net::new();
    net.udp(u1(), answer(0, 1));
    let forwarder = forwarder(&net, &[u1()]);
    timed(&forwarder, &www()).await.0.unwrap();
    net.udp(u1(), Play::Silent);
    pass(31_000).await;
    let (result, took) = timed(&forwarder, &www()).await;
    let result = result.unwrap();
    assert_eq!(
        (addresses(&result), result.answer[0].ttl, result.stale, took),
        (vec![1], 30, true, 1800)
    );
    assert_eq!(
        timed(&forwarder, &www()).await.1,
        0,
        "while the failure is remembered, at once"
    );
    pass(3_600_000 - 31_000).await;
    assert_eq!(
        timed(&forwarder, &www()).await,
        (Err(Failure::Timeout), 1800)
    );
}

// Holds rule 57.
#[tokio::test(start_paused = true)]
async fn a_negative_answer_is_never_served_stale() {
    let net = Net::new();
    net.udp(u1(), denial(0, ResponseCode::NXDomain, 60));
    let forwarder = forwarder(&net, &[u1()]);
    timed(&forwarder, &www()).await.0.unwrap();
    net.udp(u1(), Play::Closed);
    pass(11_000).await;
    assert_eq!(timed(&forwarder, &www()).await.0, Err(Failure::Network));
}

// Holds rule 57.
#[tokio::test(start_paused = true)]
async fn a_definite_denial_ends_the_life_of_a_stale_answer() {
    let net = Net::new();
    net.udp(u1(), answer(0, 1));
    let forwarder = forwarder(&net, &[u1()]);
    timed(&forwarder, &www()).await.0.unwrap();
    pass(31_000).await;
    net.udp(
        u1(),
        Play::After(0, Reply::Denial(ResponseCode::NXDomain, vec![])),
    );
    assert_eq!(
        timed(&forwarder, &www()).await.0.unwrap().rcode,
        ResponseCode::NXDomain
    );
    net.udp(u1(), Play::Closed);
    assert_eq!(timed(&forwarder, &www()).await.0, Err(Failure::Network));
}

// Holds rules 53 and 56.
#[tokio::test(start_paused = true)]
async fn a_changed_configuration_flushes_the_cache_and_keeps_the_health_of_those_who_stay() {
    let net = Net::new();
    net.udp(u1(), Play::Closed);
    net.udp(u2(), answer(7, 2));
    let forwarder = forwarder(&net, &[u1(), u2()]);
    timed(&forwarder, &www()).await.0.unwrap();
    let before = forwarder.upstreams();
    forwarder.configure(&config(&[u1(), u2()]));
    assert_eq!(forwarder.cached(), 1, "nothing has changed");
    let u3 = SocketAddr::from(([192, 0, 2, 3], 53));
    forwarder.configure(&config(&[u2(), u3]));
    assert_eq!(forwarder.cached(), 0);
    let after = forwarder.upstreams();
    assert_eq!(after[0], before[1]);
    assert_eq!((after[1].address, after[1].queries), (u3, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_arrives_after_a_change_of_configuration_does_not_enter_the_new_cache() {
    let net = Net::new();
    net.udp(u1(), answer(100, 1));
    let forwarder = forwarder(&net, &[u1()]);
    let question = www();
    let change = async {
        pass(50).await;
        forwarder.configure(&config(&[u2()]));
    };
    let (result, ()) = tokio::join!(timed(&forwarder, &question), change);
    assert_eq!(addresses(&result.0.unwrap()), [1]);
    assert_eq!(forwarder.cached(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_cache_answers_without_a_runtime_and_in_the_case_of_the_question() {
    let net = Net::new();
    net.udp(u1(), answer(1, 1));
    let forwarder = forwarder(&net, &[u1()]);
    assert_eq!(forwarder.resolve_from_cache(&www()), None);
    timed(&forwarder, &www()).await.0.unwrap();
    let shouted = question("WWW.Corp.EXAMPLE.", RecordType::A);
    let answer = forwarder.resolve_from_cache(&shouted).unwrap().unwrap();
    assert!(answer.answer[0].name.eq_case(&shouted.name));
    let counts = forwarder.metrics().snapshot();
    assert_eq!(
        (counts.questions, counts.cache_hits, counts.asked),
        (2, 1, 1)
    );
}

// Holds rules 47 and 56.
#[tokio::test(start_paused = true)]
async fn do_and_cd_reach_the_upstream_and_answers_without_rd_are_not_kept() {
    let net = Net::new();
    net.udp(u1(), answer(1, 1));
    let forwarder = forwarder(&net, &[u1()]);
    let plain = www();
    let questions = [
        plain.clone(),
        Question {
            dnssec_ok: true,
            ..plain.clone()
        },
        Question {
            checking_disabled: true,
            ..plain.clone()
        },
        Question {
            dnssec_ok: true,
            checking_disabled: true,
            recursion_desired: false,
            ..plain.clone()
        },
    ];
    for question in &questions {
        timed(&forwarder, question).await.0.unwrap();
    }
    let bits: Vec<_> = net
        .messages()
        .into_iter()
        .map(|(_, m)| {
            let dnssec_ok = m.edns.as_ref().unwrap().flags().dnssec_ok;
            (
                dnssec_ok,
                m.metadata.checking_disabled,
                m.metadata.recursion_desired,
            )
        })
        .collect();
    assert_eq!(
        bits,
        [
            (false, false, true),
            (true, false, true),
            (false, true, true),
            (true, true, false)
        ]
    );
    assert_eq!(forwarder.cached(), 3);
}

// Holds rule 55.
#[tokio::test(start_paused = true)]
async fn a_chain_into_the_primary_zone_is_handed_back_with_its_links_also_from_the_cache() {
    let net = Net::new();
    net.udp(
        u1(),
        Play::After(
            1,
            Reply::Records(vec![cname("www.corp.example.", 60, "web.prod.example.")]),
        ),
    );
    let forwarder = forwarder(&net, &[u1()]);
    for _ in 0..2 {
        let result = timed(&forwarder, &www()).await.0.unwrap();
        assert_eq!(
            (result.continue_at, result.links, result.answer.len()),
            (Some(name("web.prod.example.")), 1, 1)
        );
    }
    assert_eq!(net.seen().len(), 1);
}

// Holds rule 54.
#[tokio::test(start_paused = true)]
async fn ad_is_shown_to_clients_that_understand_it() {
    fn validated(query: &Message) -> Vec<u8> {
        let mut octets = Reply::Records(vec![address(60, 1)]).to_query(query);
        octets[3] |= 0x20;
        octets
    }
    let net = Net::new();
    net.udp(u1(), Play::After(1, Reply::Custom(validated)));
    for (authentic_data, dnssec_ok, expected) in [
        (false, false, false),
        (true, false, true),
        (false, true, true),
    ] {
        let forwarder = forwarder(&net, &[u1()]);
        let question = Question {
            authentic_data,
            dnssec_ok,
            ..www()
        };
        for _ in 0..2 {
            let result = timed(&forwarder, &question).await.0.unwrap();
            assert_eq!(
                result.authentic_data, expected,
                "AD {authentic_data}, DO {dnssec_ok}"
            );
        }
    }
}
