use super::*;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn up(upstream: usize) -> Candidate {
    Candidate {
        upstream,
        up: true,
        consecutive_failures: 0,
        hedge_after: ms(200),
        probe: false,
    }
}

fn down(upstream: usize, consecutive_failures: u32, probe: bool) -> Candidate {
    Candidate {
        upstream,
        up: false,
        consecutive_failures,
        hedge_after: ms(200),
        probe,
    }
}

fn asked(steps: &[Step]) -> Vec<usize> {
    let asked = |step: &Step| match step {
        Step::Ask { upstream, .. } => Some(*upstream),
        _ => None,
    };
    steps.iter().filter_map(asked).collect()
}

/// Lets time alone drive a race; gives every step with its millisecond.
fn idle(race: &mut Race, start: Instant) -> Vec<(u128, Step)> {
    let mut seen = Vec::new();
    while let Some(at) = race.next_time() {
        seen.extend(
            race.on_time(at)
                .into_iter()
                .map(|step| (at.duration_since(start).as_millis(), step)),
        );
        assert!(seen.len() < 100, "the race spins: {seen:?}");
    }
    seen
}

const LOST: Verdict = Verdict::Failed(Role::Regular);

// Holds rule 50.
#[test]
fn silent_upstreams_are_asked_in_turn_resent_at_900_ms_and_given_up_at_1800() {
    let start = Instant::now();
    let (mut race, steps) = Race::begin(vec![up(0), up(1)], start);
    let resend_at = Some(start + ms(900));
    assert_eq!(
        steps,
        [Step::Ask {
            upstream: 0,
            resend_at,
            hedged: false
        }]
    );
    assert_eq!(
        idle(&mut race, start),
        [
            (
                200,
                Step::Ask {
                    upstream: 1,
                    resend_at,
                    hedged: true
                }
            ),
            (
                1800,
                Step::Judge {
                    upstream: 0,
                    verdict: LOST
                }
            ),
            (
                1800,
                Step::Judge {
                    upstream: 1,
                    verdict: LOST
                }
            ),
            (1800, Step::OutOfTime),
            (5000, Step::End),
        ]
    );
}

#[test]
fn an_upstream_asked_late_is_resent_no_sooner_than_400_ms_after_and_only_within_the_budget() {
    let start = Instant::now();
    let candidates = (0..6)
        .map(|i| Candidate {
            hedge_after: ms(400),
            ..up(i)
        })
        .collect();
    let (mut race, _) = Race::begin(candidates, start);
    let resends: Vec<_> = idle(&mut race, start)
        .into_iter()
        .filter_map(|(at, step)| match step {
            Step::Ask { resend_at, .. } => {
                Some((at, resend_at.map(|at| at.duration_since(start).as_millis())))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        resends,
        [
            (400, Some(900)),
            (800, Some(1200)),
            (1200, Some(1600)),
            (1600, None)
        ]
    );
}

// Holds rule 51.
#[test]
fn a_failure_sends_the_next_upstream_at_once() {
    for class in [Class::Failed, Class::ServFail, Class::Truncated(None)] {
        let start = Instant::now();
        let (mut race, _) = Race::begin(vec![up(0), up(1)], start);
        let steps = race.on_result(0, class, start + ms(3));
        assert_eq!(asked(&steps), [1], "{class:?}");
        let steps = race.on_result(1, Class::Definite(None), start + ms(5));
        assert!(
            steps.contains(&Step::Answer { attempt: 1 }) && steps.contains(&Step::End),
            "{class:?}"
        );
    }
}

#[test]
fn when_the_last_one_fails_the_client_is_told_at_once() {
    let start = Instant::now();
    let (mut race, _) = Race::begin(vec![up(0), up(1)], start);
    assert!(
        !race
            .on_result(0, Class::Failed, start)
            .contains(&Step::AllFailed)
    );
    let steps = race.on_result(1, Class::Failed, start);
    assert!(steps.ends_with(&[Step::AllFailed, Step::End]), "{steps:?}");
    assert_eq!(race.next_time(), None);
}

#[test]
fn a_failure_beside_a_silent_upstream_waits_for_that_one() {
    let start = Instant::now();
    let (mut race, _) = Race::begin(vec![up(0), up(1)], start);
    race.on_time(start + ms(200));
    let steps = race.on_result(1, Class::Failed, start + ms(210));
    assert_eq!(
        steps,
        [Step::Judge {
            upstream: 1,
            verdict: LOST
        }]
    );
    let steps = race.on_result(0, Class::Definite(Some(ms(700))), start + ms(700));
    assert_eq!(
        steps,
        [
            Step::Judge {
                upstream: 0,
                verdict: Verdict::Answered(Some(ms(700)))
            },
            Step::Answer { attempt: 0 },
            Step::End
        ]
    );
}

#[test]
fn one_that_loses_to_a_hedge_has_failed_and_one_asked_after_the_winner_has_not() {
    let start = Instant::now();
    let (mut race, _) = Race::begin(vec![up(0), up(1), up(2)], start);
    race.on_time(start + ms(200));
    race.on_time(start + ms(400));
    let steps = race.on_result(1, Class::Definite(None), start + ms(410));
    assert!(
        steps.contains(&Step::Judge {
            upstream: 0,
            verdict: LOST
        }),
        "{steps:?}"
    );
    assert!(
        !steps
            .iter()
            .any(|step| matches!(step, Step::Judge { upstream: 2, .. })),
        "{steps:?}"
    );
}

#[test]
fn servfail_is_held_against_an_upstream_only_when_another_one_answers() {
    let start = Instant::now();
    let (mut race, _) = Race::begin(vec![up(0), up(1)], start);
    let mut steps = race.on_result(0, Class::ServFail, start);
    steps.extend(race.on_result(1, Class::ServFail, start));
    assert!(
        !steps.iter().any(|step| matches!(step, Step::Judge { .. })),
        "{steps:?}"
    );

    let (mut race, _) = Race::begin(vec![up(0), up(1)], start);
    let mut steps = race.on_result(0, Class::ServFail, start);
    steps.extend(race.on_result(1, Class::Definite(None), start));
    assert!(
        steps.contains(&Step::Judge {
            upstream: 0,
            verdict: LOST
        }),
        "{steps:?}"
    );
}

// Holds rule 53.
#[test]
fn upstreams_that_are_down_come_last_those_with_fewer_failures_first() {
    let start = Instant::now();
    for (candidates, expected) in [
        (vec![down(0, 3, false), up(1), up(2)], vec![1, 2, 0]),
        (
            vec![down(0, 9, false), down(1, 3, false), down(2, 5, false)],
            vec![1, 2, 0],
        ),
        (vec![down(0, 3, false), down(1, 3, false)], vec![0, 1]),
    ] {
        let (mut race, steps) = Race::begin(candidates, start);
        let mut order = asked(&steps);
        order.extend(
            idle(&mut race, start)
                .iter()
                .flat_map(|(_, step)| asked(&[*step])),
        );
        assert_eq!(order, expected);
    }
}

// Holds rule 53.
#[test]
fn a_probe_rides_along_and_never_holds_up_the_client() {
    let start = Instant::now();
    let (mut race, steps) = Race::begin(vec![down(0, 3, true), up(1)], start);
    assert_eq!(asked(&steps), [1, 0]);
    let steps = race.on_result(0, Class::Definite(Some(ms(3))), start + ms(3));
    assert_eq!(steps.last(), Some(&Step::Answer { attempt: 0 }));
    let steps = race.on_time(race.next_time().unwrap());
    assert_eq!(
        steps,
        [
            Step::Judge {
                upstream: 0,
                verdict: Verdict::Failed(Role::Probe)
            },
            Step::End
        ]
    );
}

#[test]
fn a_probe_that_answers_in_time_brings_its_upstream_back() {
    let start = Instant::now();
    let (mut race, _) = Race::begin(vec![down(0, 3, true), up(1)], start);
    race.on_result(0, Class::Definite(None), start + ms(3));
    let steps = race.on_result(1, Class::Definite(Some(ms(20))), start + ms(20));
    assert_eq!(
        steps,
        [
            Step::Judge {
                upstream: 0,
                verdict: Verdict::Answered(Some(ms(20)))
            },
            Step::End
        ]
    );
}

// Holds rule 50.
#[test]
fn a_late_answer_goes_to_the_cache_and_redeems_nobody() {
    let start = Instant::now();
    let (mut race, _) = Race::begin(vec![up(0), up(1)], start);
    race.on_time(start + ms(200));
    race.on_time(start + ms(1800));
    assert_eq!(race.on_result(0, Class::Failed, start + ms(2000)), []);
    let steps = race.on_result(1, Class::Definite(Some(ms(3000))), start + ms(3200));
    assert_eq!(steps, [Step::Late { attempt: 1 }, Step::End]);
}

#[test]
fn without_upstreams_everything_has_failed() {
    let (race, steps) = Race::begin(vec![], Instant::now());
    assert_eq!(steps, [Step::AllFailed, Step::End]);
    assert_eq!(race.next_time(), None);
}

#[derive(Debug, Clone)]
enum Move {
    Wait,
    Result(usize, Class),
}

fn any_move() -> impl proptest::strategy::Strategy<Value = Move> {
    use proptest::prelude::*;
    let class = prop::sample::select(vec![
        Class::Definite(None),
        Class::Truncated(None),
        Class::ServFail,
        Class::Failed,
        Class::Failed,
    ]);
    prop_oneof![
        Just(Move::Wait),
        (0_usize..4, class).prop_map(|(attempt, class)| Move::Result(attempt, class))
    ]
}

proptest::proptest! {
    #[test]
    fn every_race_tells_the_client_once_and_ends(
        moves in proptest::collection::vec(any_move(), 0..12),
        states in proptest::collection::vec(proptest::prelude::any::<(bool, bool)>(), 1..5),
    ) {
        let start = Instant::now();
        let any_up = states.iter().any(|(up, _)| *up);
        let candidates: Vec<_> = states
            .iter()
            .enumerate()
            .map(|(i, (is_up, probe))| if *is_up { up(i) } else { down(i, 3, *probe && any_up) })
            .collect();
        let (mut race, mut steps) = Race::begin(candidates, start);
        let mut now = start;
        for step in moves {
            match step {
                Move::Wait => {
                    let Some(at) = race.next_time() else { break };
                    now = at;
                    steps.extend(race.on_time(now));
                }
                Move::Result(attempt, class) => steps.extend(race.on_result(attempt, class, now)),
            }
        }
        steps.extend(idle(&mut race, start).into_iter().map(|(_, step)| step));
        let told = steps.iter().filter(|s| matches!(s, Step::Answer { .. } | Step::AllFailed | Step::OutOfTime)).count();
        proptest::prop_assert_eq!(told, 1);
        proptest::prop_assert_eq!(steps.iter().filter(|s| **s == Step::End).count(), 1);
        let mut upstreams = asked(&steps);
        upstreams.sort_unstable();
        let all = upstreams.len();
        upstreams.dedup();
        proptest::prop_assert_eq!(all, upstreams.len(), "nobody is asked twice");
    }
}

#[test]
fn a_query_that_never_left_is_no_verdict_on_its_upstream() {
    let start = Instant::now();
    let (mut race, _) = Race::begin(vec![up(0), up(1)], start);
    let steps = race.on_result(0, Class::NotAsked, start + ms(1));
    assert_eq!(asked(&steps), [1]);
    assert!(
        !steps.iter().any(|step| matches!(step, Step::Judge { .. })),
        "{steps:?}"
    );
    let steps = race.on_result(1, Class::NotAsked, start + ms(2));
    assert_eq!(steps, [Step::AllFailed, Step::End]);
}
