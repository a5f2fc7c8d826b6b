use hickory_proto::op::Message;
use proptest::prelude::*;

use super::*;
use crate::query::{Incoming, parse};

fn query(name: &[u8]) -> Query {
    let mut octets: Vec<u8> = [7, 0x0100, 1, 0, 0, 0]
        .into_iter()
        .flat_map(u16::to_be_bytes)
        .collect();
    octets.extend(name);
    octets.extend([0, 1, 0, 1]);
    match parse(&octets, ClientTransport::Tcp) {
        Incoming::Query(query) => query,
        other => panic!("{other:?}"),
    }
}

fn name(labels: &[Vec<u8>]) -> Vec<u8> {
    let mut wire: Vec<u8> = labels
        .iter()
        .flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_slice()].concat())
        .collect();
    wire.push(0);
    wire
}

// Holds rule 64.
#[test]
fn a_repeated_owner_is_two_octets() {
    let mut builder = Builder::new(&query(b"\x03web\x07example\x00"));
    for last in 1..=3 {
        builder.answer(
            b"\x03web\x07example\x00",
            30,
            Data::Address(&[192, 0, 2, last]),
        );
    }
    let question = b"\x03web\x07example\x00\x00\x01\x00\x01".len();
    assert_eq!(
        builder.finish(Rcode::NoError).octets.len(),
        HEADER + question + 3 * 16
    );
}

#[test]
fn the_same_octets_inside_a_label_are_no_suffix() {
    // The label "x\x03web" ends with the octets of the name "web.".
    let tricky = b"\x05x\x03web\x00";
    let mut builder = Builder::new(&query(tricky));
    builder.answer(tricky, 30, Data::Cname(b"\x03web\x00"));
    let message = Message::from_vec(&builder.finish(Rcode::NoError).octets).unwrap();
    let RData::CNAME(target) = &message.answers[0].data else {
        panic!("{message}")
    };
    assert_eq!(target.0.to_string(), "web.");
}

proptest! {
    #[test]
    fn whatever_is_compressed_reads_back_as_written(
        names in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(prop::sample::select(b"aAb\x01\x02.".to_vec()), 1..4), 0..5),
            2..20,
        ),
    ) {
        let wires: Vec<Vec<u8>> = names.iter().map(|labels| name(labels)).collect();
        let mut builder = Builder::new(&query(&wires[0]));
        for pair in wires.windows(2) {
            builder.answer(&pair[0], 1, Data::Cname(&pair[1]));
        }
        let message = Message::from_vec(&builder.finish(Rcode::NoError).octets).unwrap();
        prop_assert_eq!(message.answers.len(), wires.len() - 1);
        for (record, pair) in message.answers.iter().zip(wires.windows(2)) {
            prop_assert!(wire_name(&record.name).eq_ignore_ascii_case(&pair[0]));
            let RData::CNAME(target) = &record.data else { panic!("{record}") };
            prop_assert!(wire_name(&target.0).eq_ignore_ascii_case(&pair[1]));
        }
    }
}
