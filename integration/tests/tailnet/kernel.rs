//! Faults made in the gateway's kernel: each flips its check soon, and flips it back.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{LAN, LB_ADDRESS, Lab, LabOptions, Signal, Start};
use tsunaro_integration::{Wait, say};

use crate::failures::healthy;
use crate::gateway::{Gateway, ZONE, field};
use crate::timed;

/// A notification settles for 100 ms; the files are polled every 2 s.
const SOON: Duration = Duration::from_secs(10);

struct Fault {
    made: &'static str,
    check: &'static str,
    reason: &'static str,
    cure: Cure,
}

enum Cure {
    Command(&'static str),
    /// tailscaled puts it right within 250 ms, and so is frozen before the fault.
    Thaw,
    /// As the message says.
    RestartTailscaled,
}

const FAULTS: &[Fault] = &[
    Fault {
        made: "sysctl -q -w net.ipv4.ip_forward=0",
        check: "Ipv4Forwarding",
        reason: "ForwardingOff",
        cure: Cure::Command("sysctl -q -w net.ipv4.ip_forward=1"),
    },
    Fault {
        made: "ip rule del pref 5270",
        check: "PolicyRules",
        reason: "PolicyRulesMissing",
        cure: Cure::Thaw,
    },
    Fault {
        made: "ip address add 100.99.0.1/32 dev lo",
        check: "TailnetRangeClash",
        reason: "AddressInTailnetRange",
        cure: Cure::Command("ip address del 100.99.0.1/32 dev lo"),
    },
    Fault {
        made: "ip route add 192.0.2.0/24 dev tailscale0 table 52",
        check: "PathOut",
        reason: "PathIntoTailnet",
        cure: Cure::Command("ip route del 192.0.2.0/24 dev tailscale0 table 52"),
    },
    Fault {
        made: "ip route flush table 52",
        check: "Table52",
        reason: "Table52Empty",
        cure: Cure::RestartTailscaled,
    },
    Fault {
        made: "ip link set tailscale0 down",
        check: "TailscaleInterface",
        reason: "InterfaceDown",
        cure: Cure::RestartTailscaled,
    },
];

#[test]
fn kernel_faults_flip_the_right_check_and_flip_it_back() -> Result<()> {
    let _timed = timed("test: kernel faults");
    let lab = Lab::start(LabOptions {
        peer: Start::Off,
        split_dns: vec![(ZONE.to_owned(), vec![LB_ADDRESS.to_owned()])],
        ..LabOptions::default()
    })?;
    let gateway = Gateway::start(&lab, 1, &[])?;
    healthy(&gateway, &lab)?;
    gateway.wait_condition(&lab, "SplitDNS", "True/Distributed")?;
    an_ordinary_router_is_healthy(&lab, &gateway)?;
    for Fault {
        made,
        check,
        reason,
        cure,
    } in FAULTS
    {
        if matches!(cure, Cure::Thaw) {
            gateway.node.signal(Signal::SIGSTOP)?;
        }
        let started = Instant::now();
        gateway.node.sh(made)?;
        becomes(&gateway, check, &format!("False/{reason}"))?;
        let seen = started.elapsed();
        let status = gateway.condition("KernelReady")?;
        ensure!(status.starts_with("False/"), "KernelReady is {status}");
        let cured = Instant::now();
        match cure {
            Cure::Command(command) => drop(gateway.node.sh(command)?),
            Cure::Thaw => gateway.node.signal(Signal::SIGCONT)?,
            Cure::RestartTailscaled => {
                let restarts = gateway.status()?.to_string().contains("restart tailscaled");
                ensure!(restarts, "{reason} does not name its cure");
                gateway.node.restart(Signal::SIGTERM)?;
                gateway.node.wait_running()?;
            }
        }
        becomes(&gateway, check, "True/Ok")?;
        say(&format!(
            "kernel | {reason} | seen after {} ms | cured after {} ms",
            seen.as_millis(),
            cured.elapsed().as_millis()
        ));
    }
    a_resolver_in_the_tailnets_range(&gateway)?;
    // So many faults are a flap: the end of the last one shows when it has lasted.
    gateway.wait_condition(&lab, "KernelReady", "True/ChecksPassed")?;
    ensure!(gateway.agent.is_running(), "the agent ended");
    Ok(())
}

fn becomes(gateway: &Gateway<'_>, check: &str, expected: &str) -> Result<()> {
    Wait::new(format!("{check}={expected}"), SOON)
        .every(Duration::from_millis(20))
        .until(|| {
            let got = gateway.check(check)?;
            ensure!(got == expected, "it is {got}");
            Ok(Some(()))
        })
}

/// Its own address lies inside the LAN that it advertises, and the way there is told.
fn an_ordinary_router_is_healthy(lab: &Lab, gateway: &Gateway<'_>) -> Result<()> {
    let addresses = gateway.node.sh("ip -4 -o address show")?;
    let prefix = LAN.split('/').next().unwrap_or(LAN).trim_end_matches('0');
    ensure!(
        addresses.contains(&format!(" {prefix}")),
        "the gateway has no address in {LAN}: {addresses}"
    );
    gateway.wait_condition(lab, "KernelReady", "True/ChecksPassed")?;
    let route = gateway.route(LAN)?;
    ensure!(field(&route, "reason") == "Carried", "{route}");
    let mtu = route
        .pointer("/path/mtu")
        .and_then(serde_json::Value::as_u64);
    ensure!(mtu == Some(1500), "{route}");
    let status = gateway.status()?;
    let tailscale = status.pointer("/links/0/mtu");
    ensure!(
        tailscale.and_then(serde_json::Value::as_u64) == Some(1280),
        "{status}"
    );
    for check in ["Netfilter", "MssClamping"] {
        let got = gateway.check(check)?;
        ensure!(got == "Unknown/NeedsNetAdmin", "{check} is {got}");
    }
    for second_opinion in [
        "TailscaledForwarding",
        "UdpGroForwarding",
        "ControlServerOutside",
    ] {
        let got = gateway.check(second_opinion)?;
        ensure!(got.starts_with("True/"), "{second_opinion} is {got}");
    }
    Ok(())
}

fn a_resolver_in_the_tailnets_range(gateway: &Gateway<'_>) -> Result<()> {
    let path = gateway.node.dir().join("resolv.conf");
    let before = std::fs::read_to_string(path)?;
    gateway
        .node
        .write("resolv.conf", "nameserver 100.96.0.10\n")?;
    becomes(gateway, "TailnetRangeClash", "False/ResolverInTailnetRange")?;
    gateway.node.write("resolv.conf", &before)?;
    becomes(gateway, "TailnetRangeClash", "True/Ok")
}
