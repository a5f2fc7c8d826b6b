use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_node_with_no_expiry_or_gos_zero_time_never_expires() {
    assert_eq!(Expiry::of_node(None), Expiry::Never);
    assert_eq!(
        Expiry::of_node(Some(at("0001-01-01T00:00:00Z"))),
        Expiry::Never
    );
    assert_eq!(
        Expiry::of_node(Some(at("0001-12-31T23:59:59Z"))),
        Expiry::Never
    );
    let year_two = at("0002-01-01T00:00:00Z");
    assert_eq!(Expiry::of_node(Some(year_two)), Expiry::At(year_two));
    assert!(!Expiry::Never.is_over(Timestamp::MAX));
}

#[test]
fn a_key_with_gos_zero_time_was_born_expired() {
    assert_eq!(Expiry::of_key(None), Expiry::Never);
    let zero = Expiry::of_key(Some(at("0001-01-01T00:00:00Z")));
    assert!(zero.is_over(at("2026-01-01T00:00:00Z")));
}

#[test]
fn an_expiry_is_over_from_its_moment_on() {
    let moment = at("2026-01-01T00:00:00.000000001Z");
    assert!(Expiry::At(moment).is_over(moment));
    assert!(!Expiry::At(moment).is_over(at("2026-01-01T00:00:00Z")));
}
