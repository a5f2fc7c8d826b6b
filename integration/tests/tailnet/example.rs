//! The worked example, as it lies in docs/examples, with a real upstream behind it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use tsunaro_integration::agent_binary;
use tsunaro_integration::lab::{Cmd, Lab, LabOptions, Node, Start, UPSTREAMS, Zone};

use crate::timed;

const ZONE: &str = "prod-1.tailnet.example.internal";

/// What a kdig of this name and type prints with these options: the code, then the records of the
/// answer and authority sections, one a line, without TTLs and SOA contents.
fn ask(node: &Node, name: &str, kind: &str, tcp: bool) -> Result<Vec<String>> {
    let transport = if tcp { "+tcp" } else { "+notcp" };
    let text = node
        .run([
            "kdig",
            "@127.0.0.1",
            "-p",
            "5300",
            name,
            kind,
            transport,
            "+time=3",
            "+retry=0",
            "+ignore",
        ])?
        .ok()?;
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("status: ") {
            lines.extend(rest.split(';').next().map(str::to_owned));
        } else if !line.starts_with(';') && !line.is_empty() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [owner, _, _, kind, data, ..] = fields.as_slice() {
                let data = if *kind == "SOA" { "" } else { data };
                lines.push(format!("{owner} {kind} {data}").trim_end().to_owned());
            }
        }
    }
    Ok(lines)
}

#[test]
fn the_worked_example_answers_over_udp_and_tcp_with_a_real_upstream() -> Result<()> {
    let _timed = timed("test: the worked example");
    let lab = Lab::start(LabOptions {
        gateways: [Start::Off, Start::Off],
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let corp = Zone::new("corp.example")
        .record("mail 60 IN A 192.0.2.25")
        .record("proxy 60 IN A 203.0.113.99")
        .record("proxy 60 IN TXT from-upstream");
    let _upstream = lab.upstream().serve(UPSTREAMS[0], &[corp])?;
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/prod-1/gateway.yaml");
    let node = lab.gateway(1)?;
    let agent = node.spawn(
        Cmd::new(agent_binary()?)
            .args(["run", "--config"])
            .arg(config),
    )?;
    lab.wait_until("readiness", Duration::from_secs(10), || {
        Ok((node.http_get("http://127.0.0.1:9181/readyz")?.0 == 200).then_some(()))
    })?;
    ensure!(
        agent.log().contains("tailscaled.sock does not exist"),
        "it does not say that no tailscaled is there: {}",
        agent.log()
    );
    let z = |label: &str| format!("{label}.{ZONE}.");
    let soa = format!("{ZONE}. SOA");
    let cases: &[(String, &str, &[String])] = &[
        (
            z("router"),
            "A",
            &["NOERROR".into(), format!("{} A 192.0.2.1", z("router"))],
        ),
        (
            z("api"),
            "A",
            &[
                "NOERROR".into(),
                format!("{} CNAME {}", z("api"), z("kube-api-platform")),
                format!("{} A 198.51.100.20", z("kube-api-platform")),
            ],
        ),
        (
            z("only.wildcard"),
            "A",
            &[
                "NOERROR".into(),
                format!("{} A 198.51.100.80", z("only.wildcard")),
            ],
        ),
        (z("below.router"), "A", &["NXDOMAIN".into(), soa.clone()]),
        (z("router"), "AAAA", &["NOERROR".into(), soa]),
        (
            "mail.corp.example.".into(),
            "A",
            &["NOERROR".into(), "mail.corp.example. A 192.0.2.25".into()],
        ),
        (
            "proxy.corp.example.".into(),
            "A",
            &[
                "NOERROR".into(),
                "proxy.corp.example. A 198.51.100.80".into(),
            ],
        ),
        (
            "proxy.corp.example.".into(),
            "TXT",
            &[
                "NOERROR".into(),
                "proxy.corp.example. TXT \"from-upstream\"".into(),
            ],
        ),
        ("example.org.".into(), "A", &["REFUSED".into()]),
    ];
    for (name, kind, expected) in cases {
        for tcp in [false, true] {
            let got = ask(node, name, kind, tcp)?;
            ensure!(
                got == *expected,
                "{name} {kind} tcp={tcp}: {got:?}, expected {expected:?}"
            );
        }
    }
    Ok(())
}
