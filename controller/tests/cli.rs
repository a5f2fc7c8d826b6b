//! The command line as a user meets it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test"
)]

use std::io::Write;
use std::process::{Command, Output, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const GATEWAY: &str = "docs/examples/prod-1/kubernetes/tailnetgateway.yaml";
const TAILNET: &str = "docs/examples/prod-1/kubernetes/tailnet.yaml";

fn controller(args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tsunaro-controller"))
        .args(args)
        .current_dir(ROOT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_worked_example_passes_with_one_warning() {
    let output = controller(&["check", "-f", GATEWAY], "");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    insta::assert_snapshot!(stdout(&output));
}

#[test]
fn render_prints_nine_documents_and_only_them() {
    let output = controller(&["render", "-f", GATEWAY, "-f", TAILNET], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let documents: Vec<&str> = text
        .split("---\n")
        .filter(|document| !document.is_empty())
        .collect();
    assert_eq!(documents.len(), 9);
    assert!(documents[8].contains("kind: StatefulSet"));
    assert!(
        documents
            .iter()
            .all(|document| document.contains("apiVersion: "))
    );
}

#[test]
fn render_without_the_tailnet_warns_and_names_a_server_that_never_resolves() {
    let output = controller(&["render", "-f", GATEWAY, "--namespace", "gateways"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).contains("the Tailnet corp is not in these files"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("https://no-tailnet-given.invalid"));
    assert_eq!(stdout(&output).matches("namespace: gateways").count(), 10);
}

#[test]
fn findings_name_file_line_column_field_and_fix() {
    let bad = "{\"apiVersion\": \"tsunaro.io/v1alpha1\",\n \"kind\": \"TailnetEgress\",\n \"metadata\": {\"name\": \"db\"},\n \"spec\": {\"tailnetRef\": {\"name\": \"corp\"}, \"target\": \"db\", \"dnsAlias\": []}}";
    let output = controller(&["check", "-f", "-"], bad);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(stdout(&output));
}

#[test]
fn a_bad_gateway_is_told_everything_at_once_and_not_rendered() {
    let bad = std::fs::read_to_string(format!("{ROOT}/{GATEWAY}"))
        .unwrap()
        .replace("tailscale:v1.102.4", "tailscale:latest")
        .replace("lan: [192.0.2.0/24]", "lan: [192.0.2.1/24, 2001:db8::/32]")
        .replace("  hostname:", "  hostName:");
    let output = controller(&["render", "-f", "-"], &bad);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    insta::assert_snapshot!(stderr(&output));
}

#[test]
fn changes_of_a_pinned_gateway_are_findings() {
    let live =
        std::fs::read_to_string(format!("{ROOT}/{GATEWAY}")).unwrap() + "status:\n  pinned: true\n";
    let wanted = live.replace("hostname: prod-1-gw", "hostname: other");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.yaml");
    std::fs::write(&path, live).unwrap();
    let output = controller(
        &["check", "-f", "-", "--live", path.to_str().unwrap()],
        &wanted,
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("spec.hostname: it is part of the identity of prod-1-gw"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn objects_of_other_groups_and_lists_are_read() {
    let list = std::fs::read_to_string(format!("{ROOT}/{TAILNET}")).unwrap()
        + "---\napiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: ConfigMap\n    metadata: { name: x }\n  - apiVersion: tsunaro.io/v1alpha1\n    kind: TailnetSite\n    metadata: { name: other }\n    spec: { tailnetRef: { name: corp }, prefixes: [203.0.113.0/24] }\n";
    let output = controller(&["check", "-f", "-"], &list);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(
        stdout(&output),
        "5 valid, 0 warnings, 1 of other groups left alone\n"
    );
}

#[test]
fn wrong_usage_ends_with_2() {
    for args in [
        &["check"][..],
        &["check", "-f", "no-such-file"],
        &["check", "-f", "-", "-f", "-"],
        &["run"],
    ] {
        assert_eq!(controller(args, "").status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn the_version_names_what_it_was_tested_with() {
    let output = controller(&["--version"], "");
    assert!(
        stdout(&output).contains("headscale 0.29.2"),
        "{}",
        stdout(&output)
    );
}

/// Runs `check` on a file of these octets and expects an exit code and a part of what it says.
fn check_says(octets: &[u8], code: i32, said: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.yaml");
    std::fs::write(&path, octets).unwrap();
    let output = controller(&["check", "-f", path.to_str().unwrap()], "");
    let all = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{said}: {all}");
    assert!(all.contains(said), "{said}: {all}");
}

#[test]
fn files_as_unkind_editors_leave_them_are_read_or_told_what_is_wrong() {
    let good = std::fs::read_to_string(format!("{ROOT}/{GATEWAY}")).unwrap();
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to).into_bytes()
    };
    let utf16: Vec<u8> = format!("\u{feff}{good}")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let twice = format!("{good}---\n{good}");
    let laughs = (b'b'..=b'i').fold("a: &a [x,x,x,x,x,x,x,x]\n".to_owned(), |text, name| {
        let (name, before) = (char::from(name), char::from(name - 1));
        let list = vec![format!("*{before}"); 8].join(",");
        format!("{text}{name}: &{name} [{list}]\n")
    });
    let cases: Vec<(Vec<u8>, i32, &str)> = vec![
        (
            good.replace('\n', "\r\n").into_bytes(),
            0,
            "1 valid, 1 warning",
        ),
        (
            format!("\u{feff}{good}").into_bytes(),
            0,
            "1 valid, 1 warning",
        ),
        (
            with("image: ghcr.io", "image: &image ghcr.io"),
            0,
            "1 valid",
        ),
        (b"".to_vec(), 1, "the file is empty"),
        (b"# nothing\n---\n---\n".to_vec(), 1, "the file is empty"),
        (utf16, 2, "is no text in UTF-8; save it as UTF-8"),
        (
            with("  hostname", "\thostname"),
            1,
            "a tab stands in the indentation",
        ),
        (with("  hostname", "\u{a0} hostname"), 1, "U+00A0"),
        (
            format!("{good}  hostname: two\n").into_bytes(),
            1,
            "is given twice",
        ),
        (
            twice.into_bytes(),
            1,
            "TailnetGateway prod-1-gw is here twice",
        ),
        (laughs.into_bytes(), 1, "nested or repeated too much"),
        ("[".repeat(20_000).into_bytes(), 1, "nested too deeply"),
        (
            with("kind: TailnetGateway", "kind: TailnetGatway"),
            1,
            "is not a kind of",
        ),
        (
            with("tsunaro.io/v1alpha1", "tsunaro.io/v1"),
            1,
            "is not a version",
        ),
        (
            with("tsunaro.io/v1alpha1", "tsunaro.com/v1alpha1"),
            0,
            "nothing of tsunaro.io",
        ),
        (
            with("suspend: false", "suspend: no"),
            1,
            "expected `true` or `false`",
        ),
        (
            with("hostname: prod-1-gw", "hostname: 1"),
            1,
            "put it in quotes",
        ),
        (
            b"apiVersion: v1\nkind: ConfigMap\n".to_vec(),
            0,
            "nothing of tsunaro.io",
        ),
        (b"hello".to_vec(), 1, "expected a mapping"),
        (b"{\"kind\":".to_vec(), 1, "not valid YAML"),
    ];
    for (octets, code, said) in cases {
        check_says(&octets, code, said);
    }
}

#[test]
fn a_directory_is_read_as_its_files_and_a_stream_without_end_is_not() {
    let output = controller(&["check", "-f", "docs/examples/prod-1/kubernetes"], "");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("5 valid"), "{}", stdout(&output));
    let output = controller(&["check", "-f", "docs/decisions"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("has no file that ends in"));
    // An editor's lock beside a file is no reason to read none.
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(
        format!("{ROOT}/{GATEWAY}"),
        directory.path().join("gateway.yaml"),
    )
    .unwrap();
    let lock = directory.path().join(".#gateway.yaml");
    std::os::unix::fs::symlink("me@host.123", lock).unwrap();
    let output = controller(&["check", "-f", directory.path().to_str().unwrap()], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(
        said.contains("1 valid") && said.contains("a link that leads nowhere"),
        "{said}"
    );
    let output = controller(&["check", "-f", "/dev/zero"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("longer than 32 MiB"));
}

#[test]
fn render_refuses_a_namespace_that_is_none_and_files_without_a_gateway() {
    let output = controller(&["render", "-n", "Bad NS", "-f", GATEWAY], "");
    assert_eq!(output.status.code(), Some(2));
    let output = controller(&["render", "-f", TAILNET], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no TailnetGateway in these files"));
    assert_eq!(stdout(&output), "");
}

#[test]
fn live_objects_that_cannot_be_read_are_no_proof_that_nothing_changed() {
    for (live, code) in [
        ("", 1),
        ("- a\n", 1),
        ("{kind: List, apiVersion: v1, items: []}", 0),
    ] {
        let output = controller(&["check", "-f", GATEWAY, "--live", "-"], live);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{live}: {}",
            stdout(&output)
        );
    }
    let output = controller(&["check", "-f", "-", "--live", "-"], "");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_broken_kubeconfig_is_told_without_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    for text in [
        "{token: SECRETTOKEN, garbage",
        "users: [{name: u, user: {token: [SECRETTOKEN]}}]",
    ] {
        std::fs::write(&file, text).unwrap();
        for args in [&["handover", "gw"][..], &["run"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_tsunaro-controller"))
                .args(args)
                .env("KUBECONFIG", &file)
                .output()
                .unwrap();
            let said = format!("{}{}", stdout(&output), stderr(&output));
            assert!(!said.contains("SECRETTOKEN"), "{args:?}: {said}");
            assert!(said.contains("is no kubeconfig"), "{args:?}: {said}");
            assert_ne!(output.status.code(), Some(0));
        }
    }
}

#[test]
fn what_a_headscale_url_hides_is_not_repeated() {
    let whole = std::fs::read_to_string(format!("{ROOT}/{TAILNET}")).unwrap();
    for url in [
        "https://user:SECRETPW@headscale.example.org",
        "https://headscale.example.org/?token=SECRETPW",
    ] {
        let text = whole.replace("https://headscale.example.org", url);
        let output = controller(&["check", "-f", "-"], &text);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert!(!said.contains("SECRETPW"), "{said}");
        assert!(said.contains("spec.headscale.url: this is not"), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}
