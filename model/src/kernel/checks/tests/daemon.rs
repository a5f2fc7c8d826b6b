use super::*;

#[test]
fn the_interface_must_be_there_and_up_and_served() {
    let reason_when = |change: fn(&mut Link)| {
        reason(CheckName::TailscaleInterface, |view, _| {
            change(view.links.get_mut(&TAILSCALE0).unwrap());
        })
    };
    assert_eq!(reason_when(|_| {}), "Ok");
    assert_eq!(reason_when(|link| link.up = false), "InterfaceDown");
    assert_eq!(
        reason_when(|link| link.lower_up = false),
        "InterfaceWithoutDaemon"
    );
    assert_eq!(
        reason_when(|link| link.name = "tailscale1".to_owned()),
        "InterfaceMissing"
    );
}

#[test]
fn a_missing_interface_is_told_with_what_to_look_at() {
    let (_, message) = outcome(CheckName::TailscaleInterface, |view, _| {
        view.links.remove(&TAILSCALE0);
    });
    assert!(message.contains("/dev/net/tun"), "{message}");
    assert!(
        message.contains("systemctl restart tailscaled"),
        "{message}"
    );
}

#[test]
fn the_interface_must_have_the_address_that_tailscaled_tells() {
    for (told, expected) in [
        (&["100.64.0.7"][..], "Ok"),
        (&["100.64.0.8"], "AddressMissing"),
        (&["100.64.0.7", "100.64.0.8"], "AddressMissing"),
        (&["100.64.0.7", "fd7a:115c:a1e0::8"], "Ok"),
        (&["fd7a:115c:a1e0::7"], "Ok"),
        (&["fd7a:115c:a1e0::8"], "AddressMissing"),
        (&[], "NotLoggedIn"),
    ] {
        let reason = reason(CheckName::TailscaleAddress, |_, inputs| {
            inputs.tailnet_addresses = told.iter().map(|text| text.parse().unwrap()).collect();
        });
        assert_eq!(reason, expected, "{told:?}");
    }
}

#[test]
fn an_address_on_another_interface_does_not_count() {
    let reason = reason(CheckName::TailscaleAddress, |view, _| {
        let moved = std::mem::take(&mut view.links.get_mut(&TAILSCALE0).unwrap().addresses);
        view.links.get_mut(&ETH0).unwrap().addresses.extend(moved);
    });
    assert_eq!(reason, "AddressMissing");
}

#[test]
fn without_the_interface_nothing_is_said_of_its_address() {
    let reason = reason(CheckName::TailscaleAddress, |view, _| {
        view.links.remove(&TAILSCALE0);
    });
    assert_eq!(reason, "InterfaceMissing");
}

#[test]
fn every_one_of_the_four_rules_must_be_there_unaltered() {
    assert_eq!(reason(CheckName::PolicyRules, |_, _| {}), "Ok");
    for priority in [5210, 5230, 5250, 5270] {
        let (reason, message) = outcome(CheckName::PolicyRules, |view, _| {
            view.rules.retain(|rule| rule.priority != priority);
        });
        assert_eq!(reason, "PolicyRulesMissing");
        assert!(message.contains(&priority.to_string()), "{message}");

        let altered = outcome(CheckName::PolicyRules, |view, _| {
            for rule in view
                .rules
                .iter_mut()
                .filter(|rule| rule.priority == priority)
            {
                rule.table = Some(100);
            }
        });
        assert_eq!(altered.0, "PolicyRulesMissing", "{priority}");
    }
}

#[test]
fn rules_of_others_are_no_concern() {
    let reason = reason(CheckName::PolicyRules, |view, _| {
        view.rules.push(Rule {
            priority: 100,
            table: Some(100),
            fwmark: Some((0x200, 0xf00)),
        });
    });
    assert_eq!(reason, "Ok");
}

#[test]
fn table_52_must_be_looked_up_and_hold_routes() {
    assert_eq!(reason(CheckName::Table52, |_, _| {}), "Ok");
    assert_eq!(
        reason(CheckName::Table52, |view, _| view.table_52.clear()),
        "Table52Empty"
    );
    let not_looked_up = reason(CheckName::Table52, |view, _| {
        view.rules.retain(|rule| rule.table != Some(52));
    });
    assert_eq!(not_looked_up, "Table52NotLookedUp");
    let at_another_priority = reason(CheckName::Table52, |view, _| {
        for rule in view.rules.iter_mut().filter(|rule| rule.table == Some(52)) {
            rule.priority = 1270;
        }
    });
    assert_eq!(at_another_priority, "Ok");
}
