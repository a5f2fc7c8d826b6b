use hickory_proto::rr::RecordType;

use super::super::fixtures::{kept, question};
use super::*;

fn key(name: &str) -> Key {
    question(name, RecordType::A).key().cache
}

fn reply(lifetime: Lifetime) -> Arc<Reply> {
    Arc::new(kept("a.corp.example.", lifetime, 100))
}

fn after(start: Instant, milliseconds: u64) -> Instant {
    start + Duration::from_millis(milliseconds)
}

// Holds rule 56.
#[test]
fn an_answer_is_fresh_until_its_lifetime_is_over() {
    let start = Instant::now();
    for lifetime in [Lifetime::Positive(5), Lifetime::Negative(5)] {
        let mut cache = Cache::new();
        cache.insert(key("a.corp.example."), reply(lifetime), start);
        for (at, fresh) in [(0, true), (4999, true), (5000, false)] {
            let found = cache.find(&key("A.corp.EXAMPLE."), after(start, at));
            let expected = match fresh {
                true => Found::Fresh(reply(lifetime), Duration::from_millis(at)),
                false => Found::Nothing,
            };
            assert_eq!(found, expected, "{lifetime:?} after {at} ms");
        }
    }
}

// Holds rule 56.
#[test]
fn uncacheable_answers_are_not_kept_and_replace_what_they_contradict() {
    let start = Instant::now();
    let mut cache = Cache::new();
    cache.insert(key("a.corp.example."), reply(Lifetime::Positive(1)), start);
    cache.insert(
        key("a.corp.example."),
        reply(Lifetime::Uncacheable),
        after(start, 2000),
    );
    assert_eq!(
        cache.find(&key("a.corp.example."), after(start, 2000)),
        Found::Nothing
    );
    assert_eq!(
        cache.find_stale(&key("a.corp.example."), after(start, 2000)),
        None
    );
    assert_eq!((cache.len(), cache.octets), (0, 0));
}

// Holds rule 56.
#[test]
fn failures_are_remembered_for_one_second_beside_a_stale_answer() {
    let start = Instant::now();
    let mut cache = Cache::new();
    cache.insert(key("a.corp.example."), reply(Lifetime::Positive(30)), start);
    cache.insert_failure(
        key("a.corp.example."),
        Failure::Timeout,
        after(start, 40_000),
    );
    cache.insert_failure(
        key("b.corp.example."),
        Failure::Network,
        after(start, 40_000),
    );
    for (name, failure) in [
        ("a.corp.example.", Failure::Timeout),
        ("b.corp.example.", Failure::Network),
    ] {
        assert_eq!(
            cache.find(&key(name), after(start, 40_999)),
            Found::Failed(failure)
        );
        assert_eq!(cache.find(&key(name), after(start, 41_000)), Found::Nothing);
    }
    assert!(
        cache
            .find_stale(&key("a.corp.example."), after(start, 41_000))
            .is_some()
    );
    assert!(
        cache
            .find_stale(&key("b.corp.example."), after(start, 41_000))
            .is_none()
    );
}

#[test]
fn an_answer_ends_the_memory_of_a_failure() {
    let start = Instant::now();
    let mut cache = Cache::new();
    cache.insert_failure(key("a.corp.example."), Failure::Timeout, start);
    cache.insert(key("a.corp.example."), reply(Lifetime::Positive(30)), start);
    assert!(matches!(
        cache.find(&key("a.corp.example."), start),
        Found::Fresh(..)
    ));
}

// Holds rule 57.
#[test]
fn stale_answers_are_positive_and_at_most_an_hour_old() {
    let start = Instant::now();
    let mut cache = Cache::new();
    cache.insert(key("a.corp.example."), reply(Lifetime::Positive(30)), start);
    cache.insert(
        key("nx.corp.example."),
        reply(Lifetime::Negative(10)),
        start,
    );
    assert!(
        cache
            .find_stale(&key("a.corp.example."), after(start, 3_600_000))
            .is_some()
    );
    assert!(
        cache
            .find_stale(&key("a.corp.example."), after(start, 3_600_001))
            .is_none()
    );
    assert!(
        cache
            .find_stale(&key("nx.corp.example."), after(start, 11_000))
            .is_none()
    );
}

// Holds rule 56.
#[test]
fn do_and_cd_have_entries_of_their_own() {
    let plain = question("a.corp.example.", RecordType::A);
    let with_do = super::super::Question {
        dnssec_ok: true,
        ..plain.clone()
    };
    let with_cd = super::super::Question {
        checking_disabled: true,
        ..plain.clone()
    };
    let mut cache = Cache::new();
    let now = Instant::now();
    cache.insert(plain.key().cache, reply(Lifetime::Positive(30)), now);
    assert_eq!(cache.find(&with_do.key().cache, now), Found::Nothing);
    assert_eq!(cache.find(&with_cd.key().cache, now), Found::Nothing);
}

// Holds rule 56.
#[test]
fn the_cache_is_bounded_in_entries_and_in_octets() {
    let now = Instant::now();
    let mut cache = Cache::new();
    for i in 0..10_100 {
        cache.insert(
            key(&format!("n{i}.corp.example.")),
            reply(Lifetime::Positive(30)),
            now,
        );
    }
    assert_eq!((cache.len(), cache.octets), (10_000, 1_000_000));
    assert_eq!(cache.find(&key("n0.corp.example."), now), Found::Nothing);
    let large = Arc::new(kept("a.corp.example.", Lifetime::Positive(30), 60_000));
    for i in 0..1000 {
        cache.insert(
            key(&format!("n{}.corp.example.", i % 400)),
            Arc::clone(&large),
            now,
        );
    }
    assert!(cache.octets <= MAX_OCTETS, "{}", cache.octets);
    let sum: usize = cache.entries.iter().map(|(_, entry)| entry.octets()).sum();
    assert_eq!(cache.octets, sum);
}
