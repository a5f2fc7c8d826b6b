//! The binary as a newcomer meets it: what it prints and how it exits.

#![expect(
    clippy::expect_used,
    reason = "a test that cannot go on says why and fails"
)]

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn agent(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tsunaro-agent"))
        .args(args)
        .env_remove("RUST_LOG")
        .output()
        .expect("the agent does not start")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/prod-1/gateway.yaml")
}

fn config_in(dir: &Path, text: &str) -> String {
    let path = dir.join("gateway.yaml");
    std::fs::write(&path, text).expect("the config cannot be written");
    path.display().to_string()
}

const MINIMAL: &str =
    "apiVersion: agent.tsunaro.io/v1alpha1\nkind: GatewayConfig\ndns: { zone: example.internal }\n";

#[test]
fn check_says_valid_for_the_worked_example() {
    let output = agent(&["check", "--config", &example().display().to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).starts_with("valid: zone prod-1.tailnet.example.internal."),
        "{}",
        stdout(&output)
    );
}

#[test]
fn check_lists_every_finding_with_its_place_and_exits_with_1() {
    let dir = tempfile::tempdir().expect("no directory");
    let path = config_in(
        dir.path(),
        "apiVersion: agent.tsunaro.io/v1alpha1\nkind: GatewayConfig\n\
         dns:\n  zone: example.internal\n  wildcardAdress: 192.0.2.1\n  ttl: 0\nroutes:\n  lan: [192.0.2.1/24]\n",
    );
    let output = agent(&["check", "--config", &path]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    for part in [
        ":5:3: dns.wildcardAdress: ",
        "wildcardAddress",
        ":6:8: dns.ttl: ",
        ":8:9: routes.lan[0]: ",
        "192.0.2.0/24",
        "3 findings",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    for args in [
        &["check"][..],
        &["check", "--config"],
        &["frobnicate"],
        &["run", "--config", "x", "--lame-duck", "soon"],
    ] {
        assert_eq!(agent(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn explain_names_the_source_of_an_answer() {
    let config = example().display().to_string();
    for (name, source) in [
        ("router.prod-1.tailnet.example.internal", "static"),
        ("web.prod-1.tailnet.example.internal", "hosts"),
        ("nothing.prod-1.tailnet.example.internal", "wildcard"),
        ("mail.corp.example", "198.51.100.53"),
        ("example.org", "REFUSED"),
    ] {
        let output = agent(&["explain", "--config", &config, name]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(
            stdout(&output)
                .to_lowercase()
                .contains(&source.to_lowercase()),
            "{name}: {}",
            stdout(&output)
        );
    }
}

#[test]
fn version_names_the_commit_and_what_it_was_tested_with() {
    let text = stdout(&agent(&["--version"]));
    for part in [
        "tsunaro-agent 0.",
        "commit: ",
        "tailscaled 1.102.4",
        "headscale 0.29.2",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn a_bad_config_at_start_is_one_clear_message_and_exit_code_1() {
    let dir = tempfile::tempdir().expect("no directory");
    for (text, part) in [
        ("", "empty"),
        ("kind: [", "gateway.yaml:"),
        (&MINIMAL.replace("zone:", "zones:"), "did you mean"),
        (
            &format!("{MINIMAL}routes: {{ lan: [100.64.0.0/10] }}\n"),
            "100.64.0.0/10",
        ),
    ] {
        let output = agent(&["run", "--config", &config_in(dir.path(), text)]);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            stderr(&output).contains(part),
            "{part} is missing in {}",
            stderr(&output)
        );
    }
    let missing = agent(&["run", "--config", "/nowhere/gateway.yaml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("/nowhere/gateway.yaml: it is not there"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn a_busy_port_is_named_with_the_way_out() {
    let dir = tempfile::tempdir().expect("no directory");
    let config = config_in(dir.path(), MINIMAL);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("no port");
    let busy = udp.local_addr().expect("no address").to_string();
    let output = agent(&[
        "run",
        "--config",
        &config,
        "--dns-listen",
        &busy,
        "--http-listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(&busy) && stderr(&output).contains("use"),
        "{}",
        stderr(&output)
    );

    let tcp = TcpListener::bind("127.0.0.1:0").expect("no port");
    let busy = tcp.local_addr().expect("no address").to_string();
    let output = agent(&[
        "run",
        "--config",
        &config,
        "--dns-listen",
        "127.0.0.1:0",
        "--http-listen",
        &busy,
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(&busy) && stderr(&output).contains("--http-listen"),
        "{}",
        stderr(&output)
    );
}

/// A running agent that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn run_says_in_plain_words_what_it_serves_and_what_it_waits_for() {
    let dir = tempfile::tempdir().expect("no directory");
    let text = format!("{MINIMAL}routes: {{ lan: [192.0.2.0/24] }}\n");
    let config = config_in(dir.path(), &text);
    let socket = dir.path().join("tailscaled.sock").display().to_string();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tsunaro-agent"))
        .args([
            "run",
            "--config",
            &config,
            "--dns-listen",
            "127.0.0.1:0",
            "--http-listen",
            "127.0.0.1:0",
        ])
        .args(["--tailscaled-socket", &socket])
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the agent does not start");
    let lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let _running = Running(child);
    let mut awaited = vec![
        "Serving the zone example.internal.",
        "Advertising 192.0.2.0/24",
        "the zone is served",
        "tailscaled.sock does not exist",
    ];
    for line in lines {
        let line = line.expect("the log is text");
        awaited.retain(|part| !line.contains(part));
        if awaited.is_empty() {
            return;
        }
    }
    panic!("the log ended without {awaited:?}");
}
