//! A network namespace of a test's own. It belongs to one thread and has no name: it ends with
//! the thread, so that nothing is left behind and runs side by side cannot meet.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

/// Runs the test in a new network namespace, within a tokio runtime of that thread.
pub(crate) fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let outcome = thread::Builder::new()
        .name(thread::current().name().unwrap_or("test").to_owned())
        .spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap_or_else(|error| {
                panic!("this test makes a network namespace ({error}): run it as root")
            });
            ip("link set lo up");
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(async {
                    tokio::time::timeout(Duration::from_secs(60), test())
                        .await
                        .expect("the test ends within a minute");
                });
        })
        .unwrap()
        .join();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// `ip ARGUMENTS` in the namespace of this thread.
pub(crate) fn ip(arguments: &str) {
    run("ip", arguments);
}

/// Several lines of [`ip`].
pub(crate) fn ips(lines: &str) {
    lines
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .for_each(ip);
}

/// Sets a value under `/proc/sys/net/ipv4`, which shows the namespace of the thread that opens it.
pub(crate) fn set(key: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv4/{key}");
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn run(program: &str, arguments: &str) {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .unwrap_or_else(|error| panic!("{program} cannot be run ({error}): install iproute2"));
    assert!(
        output.status.success(),
        "{program} {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What tailscaled sets up: interface, address, rules and table 52, on one end of a veth pair.
pub(crate) const GATEWAY: &str = "
    link add eth0 type veth peer name lan0
    link set eth0 up mtu 9000
    link set lan0 up mtu 9000
    address add 192.0.2.5/24 dev eth0
    address add 2001:db8::5/64 dev eth0 nodad
    route add default via 192.0.2.1
    link add tailscale0 type veth peer name peer0
    link set tailscale0 up mtu 1280
    link set peer0 up
    address add 100.64.0.7/32 dev tailscale0
    rule add priority 5210 fwmark 0x80000/0xff0000 table main
    rule add priority 5230 fwmark 0x80000/0xff0000 table default
    rule add priority 5250 fwmark 0x80000/0xff0000 type unreachable
    rule add priority 5270 table 52
    route add 100.64.0.1/32 dev tailscale0 table 52
    route add 100.100.100.100/32 dev tailscale0 table 52
";
