use proptest::prelude::*;

use super::{LineTooLong, Lines};

fn drain(lines: &mut Lines) -> Result<Vec<Vec<u8>>, LineTooLong> {
    let mut all = Vec::new();
    while let Some(line) = lines.next_line()? {
        all.push(line.to_vec());
    }
    Ok(all)
}

#[test]
fn a_line_as_long_as_the_limit_passes_and_one_byte_more_does_not() {
    let mut lines = Lines::new(4);
    lines.push(b"abcd\nef");
    assert_eq!(drain(&mut lines), Ok(vec![b"abcd".to_vec()]));
    lines.push(b"ghi\n");
    assert_eq!(drain(&mut lines), Err(LineTooLong));
}

#[test]
fn a_line_that_never_ends_is_refused_before_it_ends() {
    let mut lines = Lines::new(4);
    lines.push(b"abcd");
    assert_eq!(lines.next_line(), Ok(None));
    lines.push(b"e");
    assert_eq!(lines.next_line(), Err(LineTooLong));
}

#[test]
fn what_is_left_without_a_line_feed_is_partial() {
    let mut lines = Lines::new(10);
    assert!(!lines.is_partial());
    lines.push(b"a\nb");
    assert_eq!(drain(&mut lines), Ok(vec![b"a".to_vec()]));
    assert!(lines.is_partial());
    lines.push(b"\n");
    assert_eq!(drain(&mut lines), Ok(vec![b"b".to_vec()]));
    assert!(!lines.is_partial());
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_how_the_bytes_were_cut(
        text in prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..200),
        cuts in prop::collection::vec(1usize..20, 0..60),
    ) {
        let mut lines = Lines::new(1000);
        let mut got = Vec::new();
        let mut rest = text.as_slice();
        for cut in cuts {
            let (chunk, left) = rest.split_at(cut.min(rest.len()));
            lines.push(chunk);
            got.extend(drain(&mut lines).unwrap());
            rest = left;
        }
        lines.push(rest);
        got.extend(drain(&mut lines).unwrap());
        let mut expected: Vec<Vec<u8>> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        let partial = expected.pop().unwrap_or_default();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(lines.is_partial(), !partial.is_empty());
    }
}
