//! The forwarder against upstreams on real sockets (section H of the DNS contract). Times have
//! wide bounds here; the exact deadlines are tested on a paused clock beside the code.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

#[path = "support/mock_upstream.rs"]
mod mock_upstream;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RData, RecordType};
use mock_upstream::{Behaviour, MockUpstream, Tcp, closed_port};
use tsunaro_dns::forward::{
    ClientTransport, Failure, ForwardConfig, Forwarded, Forwarder, Question,
};
use tsunaro_model::name::DnsName;

const FIRST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const SECOND: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 8);

fn loopback(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

fn name(text: &str) -> DnsName {
    DnsName::parse_host(text).unwrap()
}

fn forwarder(upstreams: &[SocketAddr]) -> Forwarder {
    Forwarder::new(&ForwardConfig {
        primary: name("prod-1.tailnet.example.internal"),
        zones: vec![(name("corp.example.com"), upstreams.to_vec())],
    })
}

fn question(text: &str, qtype: RecordType) -> Question {
    Question {
        name: Name::from_ascii(text).unwrap(),
        qtype,
        dnssec_ok: false,
        checking_disabled: false,
        recursion_desired: true,
        authentic_data: false,
        transport: ClientTransport::Udp,
    }
}

async fn ask(forwarder: &Forwarder, text: &str) -> (Result<Forwarded, Failure>, Duration) {
    ask_for(forwarder, &question(text, RecordType::A)).await
}

async fn ask_for(
    forwarder: &Forwarder,
    question: &Question,
) -> (Result<Forwarded, Failure>, Duration) {
    let started = Instant::now();
    (
        forwarder.resolve(&name("corp.example.com"), question).await,
        started.elapsed(),
    )
}

fn addresses(forwarded: &Forwarded) -> Vec<Ipv4Addr> {
    let address = |data: &RData| match data {
        RData::A(address) => Some(address.0),
        _ => None,
    };
    forwarded
        .answer
        .iter()
        .filter_map(|record| address(&record.data))
        .collect()
}

async fn pair(first: Behaviour, second: Behaviour) -> (MockUpstream, MockUpstream, Forwarder) {
    let u1 = MockUpstream::start(loopback(11), first).await.unwrap();
    let u2 = MockUpstream::start(loopback(12), second).await.unwrap();
    let forwarder = forwarder(&[u1.address(), u2.address()]);
    (u1, u2, forwarder)
}

#[tokio::test]
async fn a_query_carries_our_own_edns_a_fresh_id_and_a_fresh_port() {
    let u1 = MockUpstream::start(loopback(11), Behaviour::Answer(FIRST))
        .await
        .unwrap();
    let forwarder = forwarder(&[u1.address()]);
    for i in 0..40 {
        let mut asked = question(&format!("N{i}.Corp.example.com."), RecordType::A);
        asked.dnssec_ok = true;
        asked.checking_disabled = true;
        assert_eq!(
            addresses(&ask_for(&forwarder, &asked).await.0.unwrap()),
            [FIRST]
        );
    }
    let seen = u1.seen();
    assert_eq!(seen.len(), 40);
    let ids: HashSet<u16> = seen.iter().map(|seen| seen.query.metadata.id).collect();
    let ports: HashSet<u16> = seen.iter().map(|seen| seen.from.port()).collect();
    assert!(
        ids.len() >= 38 && ports.len() >= 35,
        "{} ids, {} ports",
        ids.len(),
        ports.len()
    );
    for (i, seen) in seen.iter().enumerate() {
        let edns = seen.query.edns.as_ref().unwrap();
        assert_eq!(
            (
                edns.max_payload(),
                edns.flags().dnssec_ok,
                edns.options().as_ref().len()
            ),
            (1232, true, 0)
        );
        assert!(seen.query.metadata.checking_disabled && seen.query.metadata.recursion_desired);
        assert_eq!(seen.name(), format!("N{i}.Corp.example.com."));
    }
}

#[tokio::test]
async fn c098_to_c100_negatives_are_kept_by_their_soa_alone() {
    let u1 = MockUpstream::start(loopback(11), Behaviour::Answer(FIRST))
        .await
        .unwrap();
    let forwarder = forwarder(&[u1.address()]);
    for _ in 0..5 {
        for (asked, rcode, soa) in [
            ("nx.corp.example.com.", ResponseCode::NXDomain, 1),
            ("nxnosoa.corp.example.com.", ResponseCode::NXDomain, 0),
            ("ndnosoa.corp.example.com.", ResponseCode::NoError, 0),
        ] {
            let answer = ask(&forwarder, asked).await.0.unwrap();
            assert_eq!(
                (answer.rcode, answer.answer.len(), answer.authority.len()),
                (rcode, 0, soa),
                "{asked}"
            );
            assert!(answer.authority.iter().all(|record| record.ttl <= 10));
        }
    }
    assert_eq!(u1.count("nx.corp.example.com."), 1);
    assert_eq!(u1.count("nxnosoa.corp.example.com."), 5);
    assert_eq!(u1.count("ndnosoa.corp.example.com."), 5);
}

#[tokio::test]
async fn c101_a_silent_upstream_costs_little_and_after_three_queries_nothing() {
    let (_u1, _u2, forwarder) = pair(Behaviour::Silent, Behaviour::Answer(SECOND)).await;
    for i in 0..3 {
        let (answer, took) = ask(&forwarder, &format!("f1-{i}.corp.example.com.")).await;
        assert_eq!(addresses(&answer.unwrap()), [SECOND]);
        assert!(
            (Duration::from_millis(200)..Duration::from_millis(1800)).contains(&took),
            "{took:?}"
        );
    }
    assert!(!forwarder.upstreams()[0].up);
    let (answer, took) = ask(&forwarder, "f1.corp.example.com.").await;
    assert_eq!(addresses(&answer.unwrap()), [SECOND]);
    assert!(took < Duration::from_millis(250), "{took:?}");
}

#[tokio::test]
async fn c102_c103_an_upstream_that_answers_errors_is_passed_over_every_time() {
    for behaviour in [
        Behaviour::Rcode(ResponseCode::ServFail, None),
        Behaviour::Rcode(ResponseCode::Refused, None),
        Behaviour::Rcode(ResponseCode::NotImp, None),
        Behaviour::Broken,
    ] {
        let (_u1, _u2, forwarder) = pair(behaviour, Behaviour::Answer(SECOND)).await;
        for i in 0..20 {
            let (answer, took) = ask(&forwarder, &format!("f{i}.corp.example.com.")).await;
            assert_eq!(addresses(&answer.unwrap()), [SECOND]);
            assert!(took < Duration::from_millis(250), "{took:?}");
        }
    }
}

#[tokio::test]
async fn c105_silent_upstreams_end_in_a_timeout_within_the_budget() {
    let (u1, u2, forwarder) = pair(Behaviour::Silent, Behaviour::Silent).await;
    let (answer, took) = ask(&forwarder, "f4.corp.example.com.").await;
    let failure = answer.unwrap_err();
    assert_eq!(
        (&failure, failure.extended_error().code),
        (&Failure::Timeout, 22)
    );
    assert!(
        (Duration::from_millis(1700)..Duration::from_secs(4)).contains(&took),
        "{took:?}"
    );
    assert_eq!(
        (u1.seen().len(), u2.seen().len()),
        (2, 2),
        "one query and one resend each"
    );
}

#[tokio::test]
async fn c106_closed_ports_fail_at_once() {
    for ips in [
        [loopback(13), loopback(14)],
        [IpAddr::from(Ipv6Addr::LOCALHOST); 2],
    ] {
        let closed = [
            closed_port(ips[0]).await.unwrap(),
            closed_port(ips[1]).await.unwrap(),
        ];
        let (answer, took) = ask(&forwarder(&closed), "f5.corp.example.com.").await;
        let failure = answer.unwrap_err();
        assert_eq!(
            (&failure, failure.extended_error().code),
            (&Failure::Network, 23)
        );
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
}

#[tokio::test]
async fn c110_an_answer_after_three_seconds_is_there_for_the_next_client() {
    let slow = Behaviour::After(Duration::from_secs(3), Box::new(Behaviour::Answer(FIRST)));
    let (u1, _u2, forwarder) = pair(slow.clone(), slow).await;
    assert_eq!(
        ask(&forwarder, "slow.corp.example.com.").await.0,
        Err(Failure::Timeout)
    );
    tokio::time::sleep(Duration::from_millis(2200)).await;
    let before = u1.seen().len();
    let (answer, took) = ask(&forwarder, "slow.corp.example.com.").await;
    assert_eq!(addresses(&answer.unwrap()), [FIRST]);
    assert!(took < Duration::from_millis(250), "{took:?}");
    assert_eq!(u1.seen().len(), before);
}

#[tokio::test]
async fn c113_a_large_reply_over_udp_is_taken_and_one_beyond_measure_is_fetched_over_tcp() {
    let u1 = MockUpstream::start(loopback(11), Behaviour::Oversized(60))
        .await
        .unwrap();
    let forwarder = forwarder(&[u1.address()]);
    assert_eq!(
        ask(&forwarder, "bigudp.corp.example.com.")
            .await
            .0
            .unwrap()
            .answer
            .len(),
        60
    );
    u1.set(Behaviour::Oversized(400));
    let answer = ask(&forwarder, "huge.corp.example.com.").await.0.unwrap();
    assert_eq!((answer.answer.len(), answer.truncated), (400, false));
    assert!(u1.seen().last().unwrap().tcp);
}

#[tokio::test]
async fn c114_forged_replies_are_ignored() {
    let u1 = MockUpstream::start(loopback(11), Behaviour::ForgeriesFirst(FIRST))
        .await
        .unwrap();
    let forwarder = forwarder(&[u1.address()]);
    assert_eq!(
        addresses(
            &ask(&forwarder, "wrongid.corp.example.com.")
                .await
                .0
                .unwrap()
        ),
        [FIRST]
    );
    assert_eq!(forwarder.metrics().snapshot().ignored_replies, 2);
    u1.set(Behaviour::Garbage);
    assert_eq!(
        ask(&forwarder, "garbage.corp.example.com.").await.0,
        Err(Failure::Timeout)
    );
}

#[tokio::test]
async fn a_flood_of_forged_replies_moves_the_query_to_tcp() {
    let u1 = MockUpstream::start(loopback(11), Behaviour::Flood(200, FIRST))
        .await
        .unwrap();
    let forwarder = forwarder(&[u1.address()]);
    assert_eq!(
        addresses(&ask(&forwarder, "flood.corp.example.com.").await.0.unwrap()),
        [FIRST]
    );
    assert!(u1.seen().last().unwrap().tcp);
}

#[tokio::test]
async fn c114_replies_from_another_port_are_not_even_seen() {
    let u1 = MockUpstream::start(loopback(11), Behaviour::Silent)
        .await
        .unwrap();
    let forwarder = forwarder(&[u1.address()]);
    let stranger = tokio::net::UdpSocket::bind((loopback(11), 0))
        .await
        .unwrap();
    let forge = async {
        while u1.seen().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let seen = u1.seen().remove(0);
        let forged = mock_upstream::fixture(&seen.query, Ipv4Addr::new(203, 0, 113, 66));
        stranger
            .send_to(&forged.to_vec().unwrap(), seen.from)
            .await
            .unwrap();
    };
    let (answer, ()) = tokio::join!(ask(&forwarder, "port.corp.example.com."), forge);
    assert_eq!(answer.0, Err(Failure::Timeout));
}

#[tokio::test]
async fn c115_records_that_were_not_asked_for_stay_out_of_answer_and_cache() {
    let victim = Name::from_ascii("web.prod-1.tailnet.example.internal.").unwrap();
    let u1 = MockUpstream::start(loopback(11), Behaviour::Lying(FIRST, victim))
        .await
        .unwrap();
    let forwarder = forwarder(&[u1.address()]);
    for _ in 0..2 {
        let answer = ask(&forwarder, "alias-x.corp.example.com.")
            .await
            .0
            .unwrap();
        assert_eq!(addresses(&answer), [FIRST]);
        assert_eq!(
            (answer.answer.len(), answer.authority.len(), answer.links),
            (2, 0, 1)
        );
    }
    assert_eq!(u1.seen().len(), 1);
}

#[tokio::test]
async fn truncation_leads_to_tcp_and_without_tcp_to_a_truncated_answer() {
    let u1 = MockUpstream::start(loopback(11), Behaviour::TooBigForUdp(300))
        .await
        .unwrap();
    let answer = ask(&forwarder(&[u1.address()]), "big.corp.example.com.")
        .await
        .0
        .unwrap();
    assert_eq!((answer.answer.len(), answer.truncated), (300, false));

    let u1 = MockUpstream::start_with(loopback(11), Tcp::Refused, Behaviour::TooBigForUdp(300))
        .await
        .unwrap();
    let forwarder = forwarder(&[u1.address()]);
    let (answer, took) = ask(&forwarder, "big.corp.example.com.").await;
    let answer = answer.unwrap();
    assert_eq!(
        (answer.rcode, answer.truncated),
        (ResponseCode::NoError, true)
    );
    assert!(took < Duration::from_millis(250), "{took:?}");
    let over_tcp = Question {
        transport: ClientTransport::Tcp,
        ..question("big.corp.example.com.", RecordType::A)
    };
    assert_eq!(
        ask_for(&forwarder, &over_tcp).await.0,
        Err(Failure::Network)
    );
}

#[tokio::test]
async fn the_text_of_an_upstreams_servfail_reaches_the_client() {
    let bogus = Behaviour::Rcode(ResponseCode::ServFail, Some((6, "signature expired")));
    let u1 = MockUpstream::start(loopback(11), bogus).await.unwrap();
    let failure = ask(&forwarder(&[u1.address()]), "bogus.corp.example.com.")
        .await
        .0
        .unwrap_err();
    let extended = failure.extended_error();
    assert_eq!(
        (extended.code, extended.text.as_str()),
        (6, "signature expired")
    );
}

#[tokio::test]
async fn upstreams_are_reached_over_ipv6_too() {
    let u1 = MockUpstream::start(Ipv6Addr::LOCALHOST.into(), Behaviour::Answer(FIRST))
        .await
        .unwrap();
    assert_eq!(
        addresses(
            &ask(&forwarder(&[u1.address()]), "v6.corp.example.com.")
                .await
                .0
                .unwrap()
        ),
        [FIRST]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_clients_is_served_and_every_answer_fits_its_question() {
    let (u1, u2, forwarder) = pair(Behaviour::Answer(FIRST), Behaviour::Answer(SECOND)).await;
    let clients = (0..2000).map(|i| {
        let forwarder = forwarder.clone();
        async move {
            let asked = question(&format!("c{}.corp.example.com.", i % 400), RecordType::A);
            let answer = ask_for(&forwarder, &asked).await.0.unwrap();
            assert_eq!(answer.answer[0].name, asked.name);
        }
    });
    futures::future::join_all(clients).await;
    assert!(u1.seen().len() + u2.seen().len() >= 400);
    let counts = forwarder.metrics().snapshot();
    assert_eq!((counts.questions, counts.asked), (2000, 400));
    assert_eq!(counts.joined + counts.cache_hits, 1600);
    assert!(forwarder.shut_down(Duration::from_secs(2)).await);
}
