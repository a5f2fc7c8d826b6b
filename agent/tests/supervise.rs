//! `supervise` and `install` as processes, with shells and a made-up tailscaled as children.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests, too")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const AGENT: &str = env!("CARGO_BIN_EXE_tsunaro-agent");

/// A supervisor of a shell script, whose files lie in a directory of its own.
struct Supervised {
    child: Child,
    dir: TempDir,
}

impl Supervised {
    /// The script runs in the directory and appends a line to `starts` each time.
    fn start(flags: &[&str], script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new(AGENT)
            .arg("supervise")
            .args(flags)
            .args(["--", "sh", "-c", &format!("echo $$ >> starts\n{script}")])
            .current_dir(dir.path())
            .env("RUST_LOG", "debug")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Self { child, dir }
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.path().join(file)).unwrap_or_default()
    }

    fn pids(&self) -> Vec<i32> {
        self.read("starts")
            .lines()
            .map(|line| line.parse().unwrap())
            .collect()
    }

    fn wait_for(&self, what: &str, condition: impl FnMut() -> bool) {
        wait_for(what, condition, || self.read("log"));
    }

    /// Waits for a file's line, which the script writes when it is ready.
    fn wait_line(&self, file: &str, line: &str) {
        self.wait_for(line, || self.read(file).lines().any(|each| each == line));
    }

    fn signal(&self, signal: Signal) {
        send(i32::try_from(self.child.id()).unwrap(), signal);
    }

    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        let log = self.dir.path().join("log");
        wait_for(
            "the supervisor's end",
            || {
                status = self.child.try_wait().unwrap();
                status.is_some()
            },
            || fs::read_to_string(log).unwrap_or_default(),
        );
        status.unwrap()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // A failed test leaves no shell behind.
        for pid in self.pids().into_iter().rev().take(1) {
            let _ = self.child.kill();
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool, log: impl FnOnce() -> String) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "waited for {what}; the log:\n{}",
            log()
        );
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Runs until a SIGTERM, which it answers with this code.
fn until_term(code: u8) -> String {
    format!("trap 'exit {code}' TERM; echo ready >> ready; while :; do sleep 0.05; done")
}

#[test]
fn a_child_that_is_killed_is_back_each_time_and_its_end_is_in_the_log() {
    let mut supervised = Supervised::start(&[], &until_term(0));
    for kills in 1..=3 {
        supervised.wait_for("a start", || supervised.pids().len() == kills);
        send(supervised.pids()[kills - 1], Signal::SIGKILL);
    }
    supervised.wait_for("the last start", || {
        supervised.read("ready").lines().count() >= 1 && supervised.pids().len() == 4
    });
    let log = supervised.read("log");
    assert_eq!(
        log.matches("sh ended: signal 9 (SIGKILL); starting it again")
            .count(),
        3,
        "{log}"
    );
    assert_eq!(
        log.matches("pause=0ns").count(),
        1,
        "the first restart was not at once, or another was: {log}"
    );
    supervised.signal(Signal::SIGTERM);
    // The trap may not be set yet: then the signal kills the shell.
    let code = supervised.end().code();
    assert!(matches!(code, Some(0 | 143)), "{code:?}");
}

#[test]
fn a_stop_ends_with_the_childs_own_code_and_starts_nothing() {
    for (script, expected) in [
        (until_term(0), 0),
        (until_term(7), 7),
        ("echo ready >> ready; exec sleep 60".to_owned(), 143),
        // A real-time signal has no name, but an end it is.
        (
            "trap 'kill -40 $$' TERM; echo ready >> ready; while :; do sleep 0.05; done".to_owned(),
            168,
        ),
    ] {
        let mut supervised = Supervised::start(&[], &script);
        supervised.wait_line("ready", "ready");
        supervised.signal(Signal::SIGTERM);
        assert_eq!(supervised.end().code(), Some(expected), "{script}");
        assert_eq!(supervised.pids().len(), 1, "{script}");
    }
}

#[test]
fn a_child_that_takes_its_time_to_stop_is_waited_for() {
    let script = "trap 'sleep 2; echo cleaned >> ready; exit 0' TERM; echo ready >> ready; while :; do sleep 0.05; done";
    let mut supervised = Supervised::start(&[], script);
    supervised.wait_line("ready", "ready");
    supervised.signal(Signal::SIGTERM);
    assert_eq!(supervised.end().code(), Some(0));
    assert_eq!(supervised.read("ready"), "ready\ncleaned\n");
}

#[test]
fn signals_are_passed_on_and_the_streams_too() {
    let script = "\
        for each in HUP INT QUIT USR1 USR2; do trap \"echo $each >> got\" $each; done
        trap 'echo TERM >> got; exit 0' TERM
        read line; echo \"out $line\"; echo \"err $line\" >&2
        echo ready >> ready; while :; do sleep 0.05; done";
    let mut supervised = Supervised::start(&[], script);
    supervised
        .child
        .stdin
        .take()
        .unwrap()
        .write_all(b"hello\n")
        .unwrap();
    supervised.wait_line("ready", "ready");
    // SIGINT and SIGTERM last: after them an end would be final.
    for (signal, name) in [
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
        (Signal::SIGINT, "INT"),
    ] {
        supervised.signal(signal);
        supervised.wait_line("got", name);
    }
    supervised.signal(Signal::SIGTERM);
    assert_eq!(supervised.end().code(), Some(0));
    let mut out = String::new();
    supervised
        .child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(out, "out hello\n");
    assert!(
        supervised
            .read("log")
            .lines()
            .any(|line| line == "err hello")
    );
}

#[test]
fn orphans_are_reaped() {
    // Each inner shell ends at once and leaves a sleep without a parent.
    let script = format!(
        "for i in 1 2 3; do sh -c 'sleep 0.2 & echo $! >> orphans'; done\n{}",
        until_term(0)
    );
    let mut supervised = Supervised::start(&[], &script);
    supervised.wait_line("ready", "ready");
    supervised.wait_for("three reaped orphans", || {
        supervised
            .read("log")
            .matches("Reaped an orphan: exit code 0")
            .count()
            == 3
    });
    for pid in supervised.read("orphans").lines() {
        assert!(
            !Path::new("/proc").join(pid).exists(),
            "{pid} is still there"
        );
    }
    assert_eq!(
        supervised.pids().len(),
        1,
        "an orphan's end was taken for the child's"
    );
    supervised.signal(Signal::SIGTERM);
    assert_eq!(supervised.end().code(), Some(0));
}

#[test]
fn a_command_that_is_not_there_or_no_program_ends_with_a_shells_code() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "no program").unwrap();
    for (command, code) in [(Path::new("/nowhere/tailscaled"), 127), (&text, 126)] {
        let output = Command::new(AGENT)
            .args(["supervise", "--"])
            .arg(command)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code));
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(log.contains("Cannot start"), "{log}");
    }
}

/// Answers as a tailscaled whose health has these codes, to everyone who connects.
fn tailscaled_with_health(socket: PathBuf, code: &'static str) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while request.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let body = format!(
                "{{\"SessionID\":\"s\",\"State\":0,\"Health\":{{\"Warnings\":{{\"{code}\":{{\"Text\":\"State store failed to initialize\"}}}}}}}}\n"
            );
            let head =
                "HTTP/1.1 200 OK\r\nTailscale-Version: 1.102.4\r\nTransfer-Encoding: chunked\r\n";
            write!(stream, "{head}\r\n{:x}\r\n{body}\r\n", body.len()).unwrap();
            open.push(stream);
        }
    });
}

#[test]
fn a_tailscaled_without_its_state_store_is_restarted_and_another_sick_one_is_not() {
    for (code, restarts) in [("state-store-health", true), ("login-state", false)] {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("tailscaled.sock");
        tailscaled_with_health(socket.clone(), code);
        let flags = ["--tailscaled-socket", socket.to_str().unwrap()];
        let mut supervised = Supervised::start(&flags, &until_term(0));
        if restarts {
            // By the log: a child may be told to stop before it has written anything.
            let starts = || supervised.read("log").matches("Started sh").count();
            supervised.wait_for("three starts", || starts() >= 3);
            let log = supervised.read("log");
            assert!(log.contains("sh is stuck without its state store"), "{log}");
            assert!(log.contains("State store failed to initialize"), "{log}");
        } else {
            supervised.wait_line("ready", "ready");
            // Long enough for the restart that the other tailscaled gets at once.
            let seen = Instant::now();
            supervised.wait_for("two seconds", || seen.elapsed() > Duration::from_secs(2));
            assert_eq!(supervised.pids().len(), 1);
        }
        supervised.signal(Signal::SIGTERM);
        supervised.end();
    }
}

#[test]
fn install_puts_a_binary_there_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let output = Command::new(AGENT)
            .arg("install")
            .arg(dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let installed = dir.path().join("tsunaro-agent");
    assert_eq!(fs::read(&installed).unwrap(), fs::read(AGENT).unwrap());
    let version = Command::new(&installed).arg("--version").output().unwrap();
    assert!(
        String::from_utf8(version.stdout)
            .unwrap()
            .contains(env!("CARGO_PKG_VERSION"))
    );

    let absent = dir.path().join("absent");
    let output = Command::new(AGENT)
        .arg("install")
        .arg(&absent)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("cannot install tsunaro-agent into") && error.contains("absent"),
        "{error}"
    );
}
