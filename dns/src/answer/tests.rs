use super::*;

// Holds rule 36.
#[test]
fn rotation_starts_anywhere_and_keeps_the_set() {
    let set = [1, 2, 3];
    let rotations: Vec<Vec<i32>> = (0..4)
        .map(|rotation| rotated(&set, rotation).copied().collect())
        .collect();
    assert_eq!(
        rotations,
        [vec![1, 2, 3], vec![2, 3, 1], vec![3, 1, 2], vec![1, 2, 3]]
    );
    assert_eq!(rotated(&set, usize::MAX).count(), 3);
    assert_eq!(rotated::<i32>(&[], 7).count(), 0);
}

#[test]
fn names_reach_the_forwarder_label_by_label_in_their_case() {
    for wire in [
        b"\x03WeB\x03a.b\x00".as_slice(),
        b"\x00",
        b"\x02\x00\xff\x01*\x00",
    ] {
        let name = hickory_name(wire);
        assert_eq!(wire_name(&name), wire);
        assert!(name.is_fqdn());
    }
}
