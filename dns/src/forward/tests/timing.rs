use hickory_proto::op::{Edns, Message, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;

use super::*;

// Holds rule 50.
#[tokio::test(start_paused = true)]
async fn silent_upstreams_cost_exactly_1800_ms_and_two_packets_each() {
    let net = Net::new();
    net.udp(u1(), Play::Silent);
    net.udp(u2(), Play::Silent);
    let forwarder = forwarder(&net, &[u1(), u2()]);
    let (result, took) = timed(&forwarder, &www()).await;
    assert_eq!((result.clone(), took), (Err(Failure::Timeout), 1800));
    assert_eq!(result.unwrap_err().extended_error().code, 22);
    assert_eq!(
        net.seen(),
        [udp(0, u1()), udp(200, u2()), udp(900, u1()), udp(900, u2())]
    );
}

// Holds rules 51 and 52.
#[tokio::test(start_paused = true)]
async fn closed_ports_fail_at_once_with_a_network_error() {
    let net = Net::new();
    let forwarder = forwarder(&net, &[u1(), u2()]);
    let (result, took) = timed(&forwarder, &www()).await;
    assert_eq!((result.clone(), took), (Err(Failure::Network), 0));
    assert_eq!(result.unwrap_err().extended_error().code, 23);
    assert_eq!(net.seen(), [udp(0, u1()), udp(0, u2())]);
}

// Holds rule 50.
#[tokio::test(start_paused = true)]
async fn a_hedge_goes_out_at_twice_the_smoothed_rtt_between_200_and_400_ms() {
    for (rtt, hedge) in [(20, 200), (150, 300), (190, 380), (199, 398)] {
        let net = Net::new();
        net.udp(u1(), answer(rtt, 1));
        net.udp(u2(), answer(5, 2));
        let forwarder = forwarder(&net, &[u1(), u2()]);
        timed(&forwarder, &www()).await.0.unwrap();
        assert_eq!(net.seen().len(), 1);
        net.udp(u1(), Play::Silent);
        let other = question("other.corp.example.", RecordType::A);
        let (_, took) = timed(&forwarder, &other).await;
        assert_eq!(took, hedge + 5_u128, "RTT {rtt} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resent_query_is_answered_too() {
    let net = Net::new();
    net.udp(u1(), Play::Silent);
    let forwarder = forwarder(&net, &[u1()]);
    let (result, took) = {
        let question = www();
        let asking = timed(&forwarder, &question);
        let healing = async {
            pass(500).await;
            net.udp(u1(), answer(10, 1));
        };
        tokio::join!(asking, healing).0
    };
    assert_eq!((addresses(&result.unwrap()), took), (vec![1], 910));
    assert_eq!(
        forwarder.upstreams()[0].smoothed_rtt,
        None,
        "its round trip is unknown"
    );
}

// Holds rule 53.
#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_demoted_after_three_queries_and_probed_beside_later_ones() {
    let net = Net::new();
    net.udp(u1(), Play::Silent);
    net.udp(u2(), answer(5, 2));
    let forwarder = forwarder(&net, &[u1(), u2()]);
    let ask = async |i: u32| {
        timed(
            &forwarder,
            &question(&format!("n{i}.corp.example."), RecordType::A),
        )
        .await
        .1
    };
    for i in 0..3 {
        assert_eq!(ask(i).await, 205);
    }
    let report = forwarder.upstreams();
    assert_eq!(
        (
            report[0].up,
            report[0].consecutive_failures,
            report[0].failures
        ),
        (false, 3, 3)
    );
    assert_eq!(
        (report[1].up, report[1].smoothed_rtt),
        (true, Some(Duration::from_millis(5)))
    );
    net.seen();
    assert_eq!(ask(3).await, 5);
    assert_eq!(
        net.seen(),
        [udp(615, u2())],
        "no probe before a second is over"
    );
    pass(1000).await;
    assert_eq!(ask(4).await, 5, "a probe does not hold up the client");
    assert_eq!(net.seen(), [udp(1620, u2()), udp(1620, u1())]);
    assert_eq!(ask(5).await, 5);
    assert_eq!(net.seen(), [udp(1625, u2())]);
    net.udp(u1(), answer(3, 1));
    pass(2400).await;
    assert_eq!(ask(6).await, 3, "the answer to a probe is as good as any");
    assert!(forwarder.upstreams()[0].up);
    net.seen();
    ask(7).await;
    assert_eq!(
        net.seen()
            .iter()
            .map(|seen| seen.upstream)
            .collect::<Vec<_>>(),
        [u1()],
        "back in its place"
    );
}

// Holds rule 53.
#[tokio::test(start_paused = true)]
async fn when_all_are_down_they_are_still_asked() {
    let net = Net::new();
    let forwarder = forwarder(&net, &[u1(), u2()]);
    for i in 0..3 {
        let _ = timed(
            &forwarder,
            &question(&format!("n{i}.corp.example."), RecordType::A),
        )
        .await;
    }
    assert!(forwarder.upstreams().iter().all(|upstream| !upstream.up));
    net.udp(u2(), answer(5, 2));
    assert_eq!(addresses(&timed(&forwarder, &www()).await.0.unwrap()), [2]);
}

// Holds rule 51.
#[tokio::test(start_paused = true)]
async fn an_rcode_that_is_not_final_sends_the_query_on_at_once() {
    for rcode in [
        ResponseCode::ServFail,
        ResponseCode::Refused,
        ResponseCode::NotImp,
        ResponseCode::FormErr,
        ResponseCode::NotAuth,
    ] {
        let net = Net::new();
        net.udp(u1(), Play::After(2, Reply::Denial(rcode, vec![])));
        net.udp(u2(), answer(5, 2));
        let (result, took) = timed(&forwarder(&net, &[u1(), u2()]), &www()).await;
        assert_eq!((addresses(&result.unwrap()), took), (vec![2], 7), "{rcode}");
    }
}

// Holds rule 51.
#[tokio::test(start_paused = true)]
async fn the_first_definite_answer_is_final() {
    let net = Net::new();
    net.udp(
        u1(),
        Play::After(2, Reply::Denial(ResponseCode::NXDomain, vec![])),
    );
    net.udp(u2(), answer(5, 2));
    let result = timed(&forwarder(&net, &[u1(), u2()]), &www())
        .await
        .0
        .unwrap();
    assert_eq!(result.rcode, ResponseCode::NXDomain);
    assert_eq!(net.seen(), [udp(0, u1())]);
}

// Holds rules 49 and 51.
#[tokio::test(start_paused = true)]
async fn a_malformed_reply_sends_the_query_on_and_a_foreign_one_does_not() {
    let cut_off = |query: &Message| {
        let mut octets = Reply::Records(vec![address(60, 1)]).to_query(query);
        octets.truncate(octets.len() - 2);
        octets
    };
    let foreign = |query: &Message| {
        let mut octets = Reply::Records(vec![address(60, 66)]).to_query(query);
        octets[0] ^= 1;
        octets
    };
    let net = Net::new();
    net.udp(u1(), Play::After(2, Reply::Custom(cut_off)));
    net.udp(u2(), answer(5, 2));
    let (result, took) = timed(&forwarder(&net, &[u1(), u2()]), &www()).await;
    assert_eq!((addresses(&result.unwrap()), took), (vec![2], 7));
    net.udp(u1(), Play::After(2, Reply::Custom(foreign)));
    let (result, took) = timed(&forwarder(&net, &[u1(), u2()]), &www()).await;
    assert_eq!((addresses(&result.unwrap()), took), (vec![2], 205));
}

// Holds rules 51 and 52.
#[tokio::test(start_paused = true)]
async fn the_extended_error_of_a_servfail_reaches_the_client() {
    fn bogus(query: &Message) -> Vec<u8> {
        let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
        reply.metadata.response_code = ResponseCode::ServFail;
        reply.add_queries(query.queries.clone());
        let mut edns = Edns::new();
        edns.options_mut()
            .insert(EdnsOption::Unknown(15, b"\0\x06signature expired".to_vec()));
        reply.set_edns(edns);
        reply.to_vec().unwrap()
    }
    let net = Net::new();
    net.udp(u1(), Play::After(2, Reply::Custom(bogus)));
    net.udp(
        u2(),
        Play::After(2, Reply::Denial(ResponseCode::Refused, vec![])),
    );
    let failure = timed(&forwarder(&net, &[u1(), u2()]), &www())
        .await
        .0
        .unwrap_err();
    let expected = ExtendedError {
        code: 6,
        text: "signature expired".to_owned(),
    };
    assert_eq!(failure.extended_error(), expected);
    assert!(matches!(
        failure,
        Failure::Upstream {
            rcode: ResponseCode::ServFail,
            ..
        }
    ));
}

// Holds rules 51 and 52.
#[tokio::test(start_paused = true)]
async fn unanimous_refusal_is_a_failure_that_says_so() {
    let net = Net::new();
    net.udp(
        u1(),
        Play::After(2, Reply::Denial(ResponseCode::Refused, vec![])),
    );
    let failure = timed(&forwarder(&net, &[u1()]), &www())
        .await
        .0
        .unwrap_err();
    assert_eq!(
        failure,
        Failure::Upstream {
            rcode: ResponseCode::Refused,
            extended: None
        }
    );
    assert_eq!(failure.extended_error().code, 22);
}

// Holds rule 48.
#[tokio::test(start_paused = true)]
async fn a_truncated_answer_is_fetched_over_tcp_from_the_same_upstream() {
    let net = Net::new();
    net.udp(u1(), Play::After(2, Reply::Truncated(vec![])));
    net.tcp(u1(), answer(3, 1));
    let (result, took) = timed(&forwarder(&net, &[u1(), u2()]), &www()).await;
    let result = result.unwrap();
    assert_eq!(
        (addresses(&result), result.truncated, took),
        (vec![1], false, 5)
    );
    assert_eq!(
        net.seen(),
        [
            udp(0, u1()),
            Seen {
                at: 2,
                upstream: u1(),
                tcp: true
            }
        ]
    );
}

// Holds rule 48.
#[tokio::test(start_paused = true)]
async fn without_tcp_a_udp_client_gets_what_came_with_tc_and_a_tcp_client_a_failure() {
    let over_tcp = Question {
        transport: ClientTransport::Tcp,
        ..www()
    };
    for (tcp, expected, at) in [
        (Play::Closed, Failure::Network, 2),
        (Play::Silent, Failure::Timeout, 1750),
    ] {
        let net = Net::new();
        net.udp(u1(), Play::After(2, Reply::Truncated(vec![address(60, 1)])));
        net.tcp(u1(), tcp);
        let forwarder = forwarder(&net, &[u1()]);
        let (result, took) = timed(&forwarder, &www()).await;
        let result = result.unwrap();
        assert_eq!(
            (addresses(&result), result.truncated, took),
            (vec![1], true, at)
        );
        assert_eq!(timed(&forwarder, &over_tcp).await.0, Err(expected));
        assert!(forwarder.upstreams()[0].up, "it did answer");
        assert_eq!(forwarder.cached(), 0, "a part of an answer is not kept");
    }
}

// Holds rule 58.
#[tokio::test(start_paused = true)]
async fn a_loop_through_ourselves_is_one_wait_and_at_most_four_packets() {
    let net = Net::new();
    net.udp(u1(), Play::Loop);
    let forwarder = forwarder(&net, &[u1()]);
    net.lead_back_to(&forwarder, &zone(), &www());
    let (result, took) = timed(&forwarder, &www()).await;
    assert_eq!((result, took), (Err(Failure::Timeout), 1800));
    assert_eq!(net.seen(), [udp(0, u1()), udp(900, u1())]);
}
