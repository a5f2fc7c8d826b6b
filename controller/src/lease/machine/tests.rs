use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry: Duration::from_secs(3),
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn lease(holder: &str, renewed: &str) -> Seen {
    Seen {
        holder: Some(holder.to_owned()),
        renewed: renewed.to_owned(),
        duration: LIMITS.duration,
    }
}

fn machine(me: &str) -> Machine {
    Machine::new(me.to_owned(), LIMITS)
}

#[test]
fn a_lease_that_is_not_there_is_created_and_a_free_one_taken() {
    let mut machine = machine("a");
    assert_eq!(machine.read(None, at(0)), Do::Create);
    let free = Seen {
        holder: None,
        ..lease("", "t0")
    };
    assert_eq!(machine.read(Some(&free), at(1)), Do::Take);
}

#[test]
fn anothers_lease_is_taken_only_after_it_was_seen_unchanged_for_its_whole_duration() {
    let mut machine = machine("b");
    // However old the time in it looks to this machine's clock.
    let old = lease("a", "2001-01-01T00:00:00Z");
    assert_eq!(machine.read(Some(&old), at(100)), Do::Follow);
    assert_eq!(machine.read(Some(&old), at(114)), Do::Follow);
    let renewed = lease("a", "2001-01-01T00:00:05Z");
    assert_eq!(machine.read(Some(&renewed), at(114)), Do::Follow);
    assert_eq!(machine.read(Some(&renewed), at(128)), Do::Follow);
    assert_eq!(machine.read(Some(&renewed), at(129)), Do::Take);
}

#[test]
fn a_holder_that_cannot_renew_stops_before_anybody_else_may_begin() {
    let mut holder = machine("a");
    holder.read(None, at(0));
    // A slow write counts from its beginning.
    holder.wrote(at(0));
    assert_eq!(holder.works_for(at(4)), Some(at(6)));
    assert_eq!(holder.works_for(at(10)), None);
    let mut other = machine("b");
    let written = lease("a", "t0");
    assert_eq!(other.read(Some(&written), at(0)), Do::Follow);
    assert_eq!(other.read(Some(&written), at(14)), Do::Follow);
    assert_eq!(other.read(Some(&written), at(15)), Do::Take);
    // It comes back late: another has it.
    let taken = lease("b", "t15");
    assert_eq!(holder.read(Some(&taken), at(16)), Do::Follow);
    assert_eq!(holder.works_for(at(16)), None);
}

#[test]
fn a_holder_that_comes_back_in_time_goes_on() {
    let mut holder = machine("a");
    holder.wrote(at(0));
    let mine = lease("a", "t0");
    assert_eq!(holder.read(Some(&mine), at(12)), Do::Renew);
    assert_eq!(holder.works_for(at(12)), None);
    holder.wrote(at(12));
    assert_eq!(holder.works_for(at(12)), Some(at(10)));
}

/// The API server's one lease, with its version; a write on an older one is refused.
#[derive(Default)]
struct Server {
    lease: Option<Seen>,
    version: u64,
}

proptest! {
    /// Processes come to their turn late, their writes arrive late or never: two never work at once.
    #[test]
    fn never_do_two_work_at_once(
        turns in prop::collection::vec((0_usize..3, 0_u64..6, 0_u64..12, any::<bool>()), 1..80),
    ) {
        let mut server = Server::default();
        let mut machines: Vec<Machine> = ["a", "b", "c"].map(machine).into();
        let mut now = at(0);
        let mut number = 0;
        for (who, wait, slow, arrives) in turns {
            now += at(wait);
            let me = machines[who].me().to_owned();
            let version = server.version;
            let decision = machines[who].read(server.lease.as_ref(), now);
            if decision != Do::Follow && arrives {
                // Meanwhile others may write.
                let began = now;
                let other = (who + 1) % 3;
                if slow > 6 {
                    let decision = machines[other].read(server.lease.as_ref(), now);
                    if decision != Do::Follow {
                        number += 1;
                        server.lease = Some(lease(machines[other].me(), &number.to_string()));
                        server.version += 1;
                        machines[other].wrote(now);
                    }
                }
                now += at(slow);
                if server.version == version {
                    number += 1;
                    server.lease = Some(lease(&me, &number.to_string()));
                    server.version += 1;
                    machines[who].wrote(began);
                }
            }
            let working = machines.iter().filter(|machine| machine.works_for(now).is_some()).count();
            prop_assert!(working <= 1, "{working} work at {now:?}");
        }
    }
}
