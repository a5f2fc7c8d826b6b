use super::*;

fn message(kind: u16) -> Vec<u8> {
    [&16_u32.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat()
}

#[test]
fn each_kind_of_notification_is_one_kind_of_change() {
    for (kinds, expected) in [
        (vec![16], vec![Change::Link]),
        (vec![17], vec![Change::Link]),
        (vec![20], vec![Change::Address]),
        (vec![21], vec![Change::Address]),
        (vec![24], vec![Change::Route]),
        (vec![25], vec![Change::Route]),
        (vec![32], vec![Change::Rule]),
        (vec![33], vec![Change::Rule]),
        (vec![80], vec![Change::Settings]),
        (vec![81], vec![Change::Settings]),
        (vec![4], vec![Change::Resync]),
        (vec![28, 3], vec![]),
        (vec![24, 16, 24], vec![Change::Route, Change::Link]),
    ] {
        let datagram: Vec<u8> = kinds.iter().flat_map(|kind| message(*kind)).collect();
        assert_eq!(changes_in(&datagram), expected, "{kinds:?}");
    }
}

#[test]
fn a_notification_that_cannot_be_read_asks_for_a_new_view() {
    assert_eq!(changes_in(&[1, 2, 3]), [Change::Resync]);
    assert_eq!(
        changes_in(&[message(16), vec![9]].concat()),
        [Change::Link, Change::Resync]
    );
}
