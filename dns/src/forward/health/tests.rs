use super::*;

fn failed(health: &mut Health, now: Instant, times: u32) {
    for _ in 0..times {
        health.record(Verdict::Failed(Role::Regular), now);
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

// Holds rule 53.
#[test]
fn three_failures_in_a_row_put_an_upstream_down_and_one_answer_brings_it_back() {
    let now = Instant::now();
    let mut health = Health::new();
    failed(&mut health, now, 2);
    health.record(Verdict::Answered(None), now);
    failed(&mut health, now, 2);
    assert!(health.is_up());
    assert_eq!(
        health.record(Verdict::Failed(Role::Regular), now),
        Some(Change::WentDown)
    );
    assert!(!health.is_up());
    assert_eq!(health.record(Verdict::Failed(Role::Regular), now), None);
    assert_eq!(health.consecutive_failures(), 4);
    assert_eq!(
        health.record(Verdict::Answered(None), now),
        Some(Change::CameUp)
    );
    assert!(health.is_up());
    assert_eq!(health.consecutive_failures(), 0);
}

// Holds rule 53.
#[test]
fn probes_are_due_after_1_2_4_8_16_and_then_every_30_seconds() {
    let mut now = Instant::now();
    let mut health = Health::new();
    failed(&mut health, now, 3);
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        let pause = Duration::from_secs(seconds);
        assert!(
            !health.take_probe(now + pause - ms(1)),
            "before {seconds} s"
        );
        now += pause;
        assert!(health.take_probe(now), "after {seconds} s");
        assert!(!health.take_probe(now), "one query carries the probe");
        health.record(Verdict::Failed(Role::Probe), now);
    }
}

#[test]
fn a_crowd_of_failures_at_once_does_not_lengthen_the_pause() {
    let now = Instant::now();
    let mut health = Health::new();
    failed(&mut health, now, 100);
    assert!(health.take_probe(now + Duration::from_secs(1)));
}

// Holds rule 53.
#[test]
fn a_healthy_upstream_is_never_probed() {
    let now = Instant::now();
    let mut health = Health::new();
    failed(&mut health, now, 2);
    assert!(!health.take_probe(now + Duration::from_secs(100)));
}

// Holds rule 50.
#[test]
fn the_wait_before_a_hedge_is_twice_the_smoothed_rtt_within_200_and_400_ms() {
    for (rtt, expected) in [(1, 200), (100, 200), (150, 300), (200, 400), (900, 400)] {
        let mut health = Health::new();
        assert_eq!(health.hedge_after(), ms(200), "no sample yet");
        health.record(Verdict::Answered(Some(ms(rtt))), Instant::now());
        assert_eq!(health.hedge_after(), ms(expected), "RTT {rtt} ms");
    }
}

#[test]
fn a_new_rtt_sample_weighs_one_eighth() {
    let now = Instant::now();
    let mut health = Health::new();
    for (sample, expected) in [(Some(80), 80), (Some(160), 90), (None, 90), (Some(90), 90)] {
        health.record(Verdict::Answered(sample.map(ms)), now);
        assert_eq!(health.smoothed_rtt(), Some(ms(expected)));
    }
}
