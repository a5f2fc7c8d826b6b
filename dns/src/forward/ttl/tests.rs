use super::*;

// Holds rule 56.
#[test]
fn positive_ttls_are_capped_at_thirty_seconds_and_zero_is_not_raised() {
    for (received, expected) in [
        (0, 0),
        (1, 1),
        (29, 29),
        (30, 30),
        (31, 30),
        (86_400, 30),
        (0x7fff_ffff, 30),
    ] {
        assert_eq!(positive(received), expected, "TTL {received}");
    }
}

#[test]
fn a_ttl_with_the_top_bit_set_counts_as_zero() {
    assert_eq!(positive(0x8000_0000), 0);
    assert_eq!(negative(u32::MAX, 60), 0);
    assert_eq!(negative(60, u32::MAX), 0);
}

// Holds rule 56.
#[test]
fn negative_ttls_are_the_least_of_soa_ttl_minimum_and_ten_seconds() {
    for (ttl, minimum, expected) in [
        (60, 60, 10),
        (3, 60, 3),
        (60, 4, 4),
        (0, 60, 0),
        (60, 0, 0),
        (10, 10, 10),
    ] {
        assert_eq!(
            negative(ttl, minimum),
            expected,
            "SOA TTL {ttl}, MINIMUM {minimum}"
        );
    }
}

// Holds rule 56.
#[test]
fn ttls_count_down_by_whole_seconds_and_stop_at_zero() {
    for (age, expected) in [
        (0, 30),
        (999, 30),
        (1000, 29),
        (29_999, 1),
        (30_000, 0),
        (99_000, 0),
    ] {
        assert_eq!(
            remaining(30, Duration::from_millis(age)),
            expected,
            "after {age} ms"
        );
    }
}
