use super::*;

fn message(name: &[u8], opt: &[u8]) -> Vec<u8> {
    let additionals = u16::from(!opt.is_empty());
    let mut octets: Vec<u8> = [7, 0x0130, 1, 0, 0, additionals]
        .into_iter()
        .flat_map(u16::to_be_bytes)
        .collect();
    octets.extend(name);
    octets.extend([0, 28, 0, 1]);
    octets.extend(opt);
    octets
}

#[test]
fn a_query_keeps_its_question_as_sent_beside_the_canonical_name() {
    let octets = message(
        b"\x03WeB\x07Example\x00",
        &[0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 4, 0, 11, 0, 0],
    );
    let Incoming::Query(query) = parse(&octets, ClientTransport::Udp) else {
        panic!("a query")
    };
    assert_eq!(query.name_as_sent(), b"\x03WeB\x07Example\x00");
    assert_eq!(query.name().to_string(), "web.example.");
    assert_eq!((query.id, query.qtype()), (7, 28));
    let all = QueryFlags {
        recursion_desired: true,
        authentic_data: true,
        checking_disabled: true,
    };
    assert_eq!(query.flags, all);
    assert_eq!(
        query.edns,
        Some(Edns {
            udp_size: 4096,
            dnssec_ok: true,
            keepalive: true,
            version: 0
        })
    );
}

#[test]
fn a_name_of_255_octets_is_read_and_a_longer_one_is_formerr() {
    let name = |last: usize| {
        let mut name = [&[63], [b'x'; 63].as_slice()].concat().repeat(3);
        name.push(u8::try_from(last).unwrap());
        name.extend(vec![b'y'; last]);
        name.push(0);
        name
    };
    let longest = name(61);
    assert_eq!(longest.len(), 255);
    assert!(matches!(
        parse(&message(&longest, &[]), ClientTransport::Udp),
        Incoming::Query(_)
    ));
    let Incoming::Reply(reply) = parse(&message(&name(62), &[]), ClientTransport::Udp) else {
        panic!("a reply")
    };
    assert_eq!(reply.rcode, Rcode::FormErr);
}
