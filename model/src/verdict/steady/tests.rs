use proptest::prelude::*;

use super::*;

fn condition(status: Tri) -> Condition {
    Condition {
        kind: "KernelReady".to_owned(),
        status,
        reason: format!("{status:?}Reason"),
        message: "the message".to_owned(),
        last_transition_time: String::new(),
    }
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn shown(steady: &mut Steady, status: Tri, now: Duration) -> Tri {
    steady.show(vec![condition(status)], now)[0].status
}

#[test]
fn three_faults_and_their_ends_show_at_once_and_a_fourth_fault_stays_until_it_is_over_for_good() {
    let mut steady = Steady::default();
    let mut now = at(0);
    let mut show = |status, pause: u64| {
        now += at(pause);
        let got = steady.show(vec![condition(status)], now).remove(0);
        (got.status, got.message.contains("again and again"))
    };
    show(Tri::True, 0);
    for _ in 0..3 {
        assert_eq!(show(Tri::False, 1000), (Tri::False, false));
        assert_eq!(show(Tri::True, 1000), (Tri::True, false));
    }
    assert_eq!(show(Tri::False, 1000), (Tri::False, false));
    assert_eq!(show(Tri::True, 1000), (Tri::False, true));
    assert_eq!(show(Tri::True, 19_000), (Tri::False, true));
    assert_eq!(show(Tri::True, 1000), (Tri::True, false));
}

#[test]
fn a_fault_that_shows_for_longer_than_it_lasts_starts_over_when_it_comes_back() {
    let mut steady = Steady::default();
    for step in 0..8 {
        let status = if step % 2 == 0 { Tri::True } else { Tri::False };
        shown(&mut steady, status, at(step * 100));
    }
    assert_eq!(shown(&mut steady, Tri::True, at(1_000)), Tri::False);
    assert!(steady.holds_back());
    assert_eq!(shown(&mut steady, Tri::False, at(15_000)), Tri::False);
    assert!(!steady.holds_back());
    assert_eq!(shown(&mut steady, Tri::True, at(22_000)), Tri::False);
    assert_eq!(shown(&mut steady, Tri::True, at(42_000)), Tri::True);
}

#[test]
fn rare_changes_show_at_once_for_ever() {
    let mut steady = Steady::default();
    for step in 0..100 {
        let status = if step % 2 == 0 { Tri::True } else { Tri::False };
        let now = at(step * 11_000);
        assert_eq!(shown(&mut steady, status, now), status, "{step}");
    }
}

#[test]
fn another_reason_of_the_same_status_shows_at_once() {
    let mut steady = Steady::default();
    shown(&mut steady, Tri::False, at(0));
    let other = Condition {
        reason: "Other".to_owned(),
        ..condition(Tri::False)
    };
    assert_eq!(steady.show(vec![other.clone()], at(1)), [other]);
}

fn any_status() -> impl Strategy<Value = Tri> {
    prop::sample::select(vec![Tri::True, Tri::False, Tri::Unknown])
}

proptest! {
    #[test]
    fn a_flap_is_no_storm_and_no_fault_is_hidden_and_peace_is_seen(
        steps in prop::collection::vec((any_status(), 0_u64..30_000), 1..400),
        last in any_status(),
    ) {
        let mut steady = Steady::default();
        let (mut now, mut changes, mut before) = (at(0), 0_u64, None);
        for (status, pause) in steps {
            now += at(pause);
            let got = shown(&mut steady, status, now);
            prop_assert!(badness(got) >= badness(status), "{got:?} hides {status:?}");
            changes += u64::from(before.is_some_and(|before| before != got));
            before = Some(got);
        }
        // Each window has its prompt changes; beyond them each end of a fault takes HOLD, and
        // comes down in two steps at most, over Unknown.
        let windows = now.as_secs() / WINDOW.as_secs() + 1;
        let held = now.as_secs() / HOLD.as_secs() + 1;
        let most = windows * u64::try_from(PROMPT_CHANGES).unwrap() + 4 * held;
        prop_assert!(changes <= most, "{changes} changes, at most {most}");
        shown(&mut steady, last, now);
        prop_assert_eq!(shown(&mut steady, last, now + HOLD), last);
        prop_assert!(!steady.holds_back());
    }

    #[test]
    fn a_minute_of_flapping_as_fast_as_it_may_be_shows_no_more_than_the_prompt_changes_and_a_few(
        period in 1_u64..2_000
    ) {
        let mut steady = Steady::default();
        let (mut changes, mut before, mut now, mut bad) = (0, Tri::True, 0, false);
        shown(&mut steady, Tri::True, at(0));
        while now < 60_000 {
            bad = !bad;
            let got = shown(&mut steady, if bad { Tri::False } else { Tri::True }, at(now));
            changes += u32::from(got != before);
            before = got;
            now += period;
        }
        prop_assert!(changes <= 7, "{changes}");
    }
}
