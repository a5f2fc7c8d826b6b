use super::*;

fn payload(family: i32, attributes: &[(u16, i32)]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(family).unwrap(), 0, 0, 0];
    for (kind, value) in attributes {
        bytes.extend(8_u16.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
    }
    bytes
}

#[test]
fn the_index_tells_whom_the_settings_are_about() {
    for (index, scope) in [(-1, Scope::All), (-2, Scope::Default), (7, Scope::Link(7))] {
        let message = payload(libc::AF_INET, &[(1, index), (2, 1), (3, 2)]);
        let expected = Netconf {
            scope,
            forwarding: Some(true),
            rp_filter: Some(2),
        };
        assert_eq!(Netconf::parse(&message).unwrap(), Some(expected));
    }
}

#[test]
fn what_the_kernel_does_not_say_stays_unknown() {
    let message = payload(libc::AF_INET, &[(1, -1), (4, 0), (99, 1)]);
    let expected = Netconf {
        scope: Scope::All,
        forwarding: None,
        rp_filter: None,
    };
    assert_eq!(Netconf::parse(&message).unwrap(), Some(expected));
}

#[test]
fn settings_of_ipv6_are_not_ours() {
    assert_eq!(
        Netconf::parse(&payload(libc::AF_INET6, &[(1, -1), (2, 1)])).unwrap(),
        None
    );
}

#[test]
fn malformed_settings_are_an_error() {
    for message in [
        vec![],
        vec![2, 0, 0],
        payload(libc::AF_INET, &[(2, 1)]),
        payload(libc::AF_INET, &[(1, -3)]),
        [payload(libc::AF_INET, &[]), vec![6, 0, 1, 0, 1, 2]].concat(),
    ] {
        assert!(Netconf::parse(&message).is_err(), "{message:?}");
    }
}
