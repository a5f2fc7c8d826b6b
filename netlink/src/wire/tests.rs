use netlink_packet_core::NetlinkMessage;

use super::*;

fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + payload.len()).unwrap();
    [
        &length.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &[0; 10],
        payload,
    ]
    .concat()
}

#[test]
fn a_datagram_is_split_at_aligned_lengths() {
    let mut datagram = message(1, &[1, 2, 3]);
    datagram.push(0);
    datagram.extend(message(2, &[]));
    datagram.extend(message(3, &[9]));
    let parts: Vec<_> = split(&datagram).map(Result::unwrap).collect();
    assert_eq!(
        parts,
        [message(1, &[1, 2, 3]), message(2, &[]), message(3, &[9])]
    );
}

#[test]
fn a_length_that_cannot_be_true_ends_the_datagram_with_an_error() {
    for bad in [
        vec![1, 2, 3],
        message(1, &[0; 8])[..20].to_vec(),
        vec![0; 16],
    ] {
        let mut parts = split(&bad);
        assert!(parts.next().unwrap().is_err(), "{bad:?}");
        assert!(parts.next().is_none(), "{bad:?}");
    }
}

#[test]
fn a_link_is_read_whatever_else_its_driver_tells() {
    let mut payload = vec![0; 16];
    payload[4..8].copy_from_slice(&7_u32.to_ne_bytes());
    payload[8..12].copy_from_slice(&(0x1_0000_u32 | 1).to_ne_bytes());
    // IFLA_LINKINFO with nonsense inside, which the full decoder of links would refuse.
    payload.extend([8, 0, 18, 0, 0xff, 0xff, 0xff, 0xff]);
    payload.extend([10, 0, 3, 0, b't', b'u', b'n', b'7', b'x', 0, 0, 0]);
    payload.extend([8, 0, 4, 0]);
    payload.extend(1280_u32.to_ne_bytes());
    let bytes = message(RTM_NEWLINK, &payload);
    let parsed = NetlinkMessage::<Reply>::deserialize(&bytes).unwrap();
    let NetlinkPayload::InnerMessage(Reply::Link(link)) = parsed.payload else {
        panic!("{parsed:?}");
    };
    assert_eq!(
        (link.index, link.name.as_str(), link.mtu),
        (7, "tun7x", 1280)
    );
    assert!(link.flags.contains(LinkFlags::Up | LinkFlags::LowerUp));
}

#[test]
fn a_list_of_netconf_is_asked_for_ipv4_only() {
    let bytes = encode(Request::Netconf, Extent::All, 5);
    let buffer = NetlinkBuffer::new_checked(&bytes).unwrap();
    assert_eq!(
        (
            buffer.message_type(),
            buffer.flags(),
            buffer.sequence_number()
        ),
        (82, 0x301, 5)
    );
    assert_eq!(buffer.payload(), [2, 0, 0, 0]);
}
