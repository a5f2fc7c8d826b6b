use super::*;

#[test]
fn a_control_server_inside_an_advertised_prefix_is_a_warning() {
    for (addresses, expected) in [
        (None, "NotResolved"),
        (Some(&[][..]), "Ok"),
        (Some(&["203.0.113.1"]), "Ok"),
        (Some(&["2001:db8::1"]), "Ok"),
        (Some(&["203.0.113.1", "192.0.2.9"]), "ControlServerInside"),
    ] {
        let (reason, message) = outcome(CheckName::ControlServerOutside, |_, inputs| {
            inputs.control_server =
                addresses.map(|list| list.iter().map(|text| text.parse().unwrap()).collect());
        });
        assert_eq!(reason, expected, "{addresses:?}");
        if reason == "ControlServerInside" {
            assert!(
                message.contains("192.0.2.0/24 holds 192.0.2.9"),
                "{message}"
            );
        }
    }
}

#[test]
fn what_tailscaled_warns_of_is_told_in_its_words_and_with_the_command() {
    let warns = || Opinion::Warns("its words".to_owned());
    for (name, reason, command) in [
        (
            CheckName::TailscaledForwarding,
            "TailscaledWarns",
            "sysctl -w net.ipv4.ip_forward=1",
        ),
        (
            CheckName::UdpGroForwarding,
            "UdpGroForwardingSlow",
            "rx-udp-gro-forwarding on",
        ),
    ] {
        let (got, message) = outcome(name, |_, inputs| {
            inputs.opinions = Opinions {
                forwarding: warns(),
                udp_gro: warns(),
            };
        });
        assert_eq!(got, reason);
        assert!(
            message.contains("its words") && message.contains(command),
            "{message}"
        );
        let (unasked, _) = outcome(name, |_, inputs| inputs.opinions = Opinions::default());
        assert_eq!(unasked, "NotAsked");
    }
}

#[test]
fn ipv6_is_nothing_that_a_gateway_forwards() {
    let reason = reason(CheckName::TailscaledForwarding, |_, inputs| {
        inputs.opinions.forwarding = Opinion::Warns("IPv6 forwarding is disabled.".to_owned());
    });
    assert_eq!(reason, "Ok");
}
