use proptest::prelude::*;

use super::*;
use crate::supervise::backoff::MAX_PAUSE;

/// A machine with a clock, and all that it asked for.
struct Rig {
    machine: Machine,
    now: Instant,
    asked: Vec<Action>,
}

impl Rig {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            machine: Machine::new(now, 7),
            now,
            asked: Vec::new(),
        }
    }

    /// One whose child runs.
    fn running() -> Self {
        let mut rig = Self::new();
        rig.feed([Event::Tick, Event::Started]);
        rig.asked.clear();
        rig
    }

    fn feed(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.asked.extend(self.machine.on(event, self.now));
        }
    }

    /// Time passes up to the deadline; the pause that this took.
    fn pass(&mut self) -> Duration {
        let until = self.machine.deadline().expect("a deadline");
        let pause = until.saturating_duration_since(self.now);
        self.now = until;
        self.feed([Event::Tick]);
        pause
    }

    /// The child ends after it ran for a time, and the next one starts; the pause in between.
    fn end_after(&mut self, ran: Duration) -> Duration {
        self.now += ran;
        self.feed([Event::Ended(End::Signal(9))]);
        let pause = self.pass();
        self.feed([Event::Started]);
        pause
    }
}

use Forwarded::{Hangup, Interrupt, Quit, Terminate, User1, User2};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_each_event_leads_to() {
    let ended = |code| Event::Ended(End::Code(code));
    let signal = Event::Signal;
    let check = |events: Vec<Event>, expected: &[Action]| {
        let mut rig = Rig::new();
        rig.feed(events.clone());
        assert_eq!(rig.asked, expected, "{events:?}");
    };
    let start = Action::Start;
    let pass = Action::Signal;
    let run = || vec![Event::Tick, Event::Started];
    let then = |more: Vec<Event>| [run(), more].concat();

    check(run(), &[start]);
    // The first restart comes at once, the second does not.
    check(then(vec![ended(1), Event::Tick]), &[start, start]);
    check(
        then(vec![
            ended(1),
            Event::Tick,
            Event::Started,
            ended(1),
            Event::Tick,
        ]),
        &[start, start],
    );
    // An end with code 0 is an end, too.
    check(then(vec![ended(0), Event::Tick]), &[start, start]);
    // A stop: the child's code is ours, and nothing starts again.
    for stop in [Terminate, Interrupt] {
        check(
            then(vec![signal(stop), ended(0), Event::Tick]),
            &[start, pass(stop), Action::Exit(0)],
        );
        check(
            then(vec![signal(stop), ended(3), Event::Tick]),
            &[start, pass(stop), Action::Exit(3)],
        );
    }
    check(
        then(vec![signal(Terminate), Event::Ended(End::Signal(15))]),
        &[start, pass(Terminate), Action::Exit(143)],
    );
    check(
        then(vec![signal(Terminate), Event::Ended(End::Signal(9))]),
        &[start, pass(Terminate), Action::Exit(137)],
    );
    // Every signal is passed on, a second one after a stop too.
    check(
        then(vec![
            signal(Terminate),
            signal(Terminate),
            signal(Quit),
            Event::Tick,
        ]),
        &[start, pass(Terminate), pass(Terminate), pass(Quit)],
    );
    // The others are passed on, and an end that follows is like any end.
    for other in [Hangup, Quit, User1, User2] {
        check(
            then(vec![signal(other), ended(2), Event::Tick]),
            &[start, pass(other), start],
        );
    }
    // Without a child there is nothing to wait for.
    check(vec![signal(Terminate), Event::Tick], &[Action::Exit(143)]);
    check(vec![signal(Interrupt), Event::Tick], &[Action::Exit(130)]);
    check(vec![signal(User1), Event::Tick], &[start]);
    check(
        then(vec![ended(1), signal(Terminate), Event::Tick]),
        &[start, Action::Exit(143)],
    );
    // A command that is not there.
    check(
        vec![
            Event::Tick,
            Event::NotStarted(NotStarted::NotFound),
            Event::Tick,
        ],
        &[start, Action::Exit(127)],
    );
    check(
        vec![Event::Tick, Event::NotStarted(NotStarted::NotExecutable)],
        &[start, Action::Exit(126)],
    );
    // One that may come back: the machine was short of something, or the command was there before.
    check(
        vec![
            Event::Tick,
            Event::NotStarted(NotStarted::Other),
            Event::Tick,
        ],
        &[start, start],
    );
    check(
        then(vec![
            ended(1),
            Event::Tick,
            Event::NotStarted(NotStarted::NotFound),
        ]),
        &[start, start],
    );
    // Stuck: told to end once, then started again.
    check(
        then(vec![Event::Stuck, Event::Stuck, ended(0), Event::Tick]),
        &[start, pass(Terminate), start],
    );
    // Stuck, and then stopped: not started again.
    check(
        then(vec![Event::Stuck, signal(Terminate), ended(0), Event::Tick]),
        &[start, pass(Terminate), pass(Terminate), Action::Exit(0)],
    );
    check(
        then(vec![signal(Terminate), Event::Stuck]),
        &[start, pass(Terminate)],
    );
    check(vec![Event::Stuck], &[]);
}

#[test]
fn a_stop_waits_for_the_child_for_as_long_as_it_takes() {
    let mut rig = Rig::running();
    rig.feed([Event::Signal(Terminate)]);
    assert_eq!(rig.machine.deadline(), None);
    rig.now += 3600 * SECOND;
    rig.feed([Event::Tick]);
    assert_eq!(rig.asked, [Action::Signal(Terminate)]);
}

#[test]
fn a_stuck_child_that_does_not_end_is_killed_once() {
    let mut rig = Rig::running();
    rig.feed([Event::Stuck]);
    assert_eq!(rig.pass(), REPLACE_TIMEOUT);
    assert_eq!(rig.machine.deadline(), None);
    rig.feed([Event::Tick, Event::Ended(End::Signal(9))]);
    rig.pass();
    assert_eq!(
        rig.asked,
        [Action::Signal(Terminate), Action::Kill, Action::Start]
    );
}

#[test]
fn the_pause_grows_with_each_end_and_is_none_again_after_the_child_ran_well() {
    let mut rig = Rig::running();
    assert_eq!(rig.end_after(SECOND), Duration::ZERO);
    let mut last = Duration::ZERO;
    for _ in 0..3 {
        let pause = rig.end_after(SECOND);
        assert!(pause > last, "{pause:?} after {last:?}");
        last = pause;
    }
    for _ in 0..10 {
        last = rig.end_after(RAN_WELL - SECOND);
    }
    assert!(last >= MAX_PAUSE / 2 && last <= MAX_PAUSE, "{last:?}");
    assert_eq!(rig.end_after(RAN_WELL), Duration::ZERO);
    assert!(rig.end_after(SECOND) > Duration::ZERO);
}

#[test]
fn a_stuck_child_never_counts_as_one_that_ran_well() {
    let mut rig = Rig::running();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        rig.now += 2 * RAN_WELL;
        rig.feed([Event::Stuck, Event::Ended(End::Code(0))]);
        pauses.push(rig.pass());
        rig.feed([Event::Started]);
    }
    assert_eq!(pauses[0], Duration::ZERO);
    assert!(pauses[11] >= MAX_PAUSE / 2, "{pauses:?}");
}

/// What happens to a supervisor: the world keeps to its rules (only a child that runs ends), the
/// rest is random.
#[derive(Debug, Clone)]
enum Step {
    Signal(Forwarded),
    /// The child, if one runs, ends.
    End(End),
    Stuck,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = prop_oneof![
        any::<u8>().prop_map(End::Code),
        (1..65).prop_map(End::Signal)
    ];
    // Stops are rare, so that long rows of restarts are seen too.
    let step = prop_oneof![
        1 => prop::sample::select(vec![Terminate, Interrupt]).prop_map(Step::Signal),
        6 => prop::sample::select(vec![Hangup, Quit, User1, User2]).prop_map(Step::Signal),
        10 => end.prop_map(Step::End),
        4 => Just(Step::Stuck),
        10 => (0..90_000_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn never_two_children_never_a_start_after_a_stop_and_an_exit_ends_all(
        steps in steps(),
        seed: u64,
        starts in prop::collection::vec(any::<Option<bool>>(), 1..8),
    ) {
        let mut starts = starts.into_iter().cycle();
        let mut now = Instant::now();
        let mut machine = Machine::new(now, seed);
        let (mut runs, mut stopped, mut exited) = (false, false, false);
        for step in [Step::Wait(0)].into_iter().chain(steps) {
            let mut next = match step {
                Step::Signal(signal) => {
                    stopped |= signal.stops() && !exited;
                    Some(Event::Signal(signal))
                }
                Step::End(end) if runs => {
                    runs = false;
                    Some(Event::Ended(end))
                }
                Step::End(_) => continue,
                Step::Stuck => Some(Event::Stuck),
                Step::Wait(milliseconds) => {
                    now += Duration::from_millis(milliseconds);
                    Some(Event::Tick)
                }
            };
            while let Some(event) = next.take() {
                let ends = matches!(event, Event::Ended(_) | Event::Signal(_));
                let action = machine.on(event, now);
                prop_assert!(!exited || action.is_none(), "{:?} after the exit", action);
                match action {
                    Some(Action::Start) => {
                        prop_assert!(!runs, "a second child");
                        prop_assert!(!stopped, "a start after a stop");
                        next = Some(match starts.next().flatten() {
                            Some(true) => Event::NotStarted(NotStarted::Other),
                            _ => { runs = true; Event::Started }
                        });
                    }
                    Some(Action::Signal(_) | Action::Kill) => prop_assert!(runs, "a signal to nobody"),
                    Some(Action::Exit(_)) => {
                        prop_assert!(stopped && ends && !runs, "an exit without a stop, or before the child's end");
                        exited = true;
                    }
                    None => {}
                }
            }
            prop_assert!(exited || runs || machine.deadline().is_some(), "nothing runs and nothing ever will");
            prop_assert!(!stopped || runs || exited, "stopped, no child, and still here");
        }
    }
}
