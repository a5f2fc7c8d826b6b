//! Changes against a real kernel, in network namespaces of the tests' own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod lab;

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use lab::{GATEWAY, in_namespace, ip, ips, set};
use tsunaro_netlink::{Change, Changes};

/// Far above what a local kernel takes, so that a busy machine does not fail the test.
const PROMPTLY: Duration = Duration::from_secs(5);

async fn wait_for(changes: &mut Changes, expected: Change) -> Duration {
    let start = Instant::now();
    tokio::time::timeout(PROMPTLY, async {
        loop {
            let change = changes.next().await.expect("the stream goes on").unwrap();
            if change == expected {
                return;
            }
        }
    })
    .await
    .unwrap_or_else(|_| panic!("no {expected:?} within {PROMPTLY:?}"));
    start.elapsed()
}

#[test]
fn each_kind_of_change_is_told_promptly() {
    in_namespace(async || {
        ips(GATEWAY);
        for (line, expected) in [
            ("link add new0 type veth", Change::Link),
            ("link set new0 up", Change::Link),
            ("link set new0 mtu 1400", Change::Link),
            ("address add 203.0.113.1/24 dev new0", Change::Address),
            (
                "address add 2001:db8:1::1/64 dev new0 nodad",
                Change::Address,
            ),
            ("route add 198.51.100.0/24 via 192.0.2.9", Change::Route),
            (
                "route add 100.64.0.2/32 dev tailscale0 table 52",
                Change::Route,
            ),
            (
                "route del 100.64.0.2/32 dev tailscale0 table 52",
                Change::Route,
            ),
            ("rule del priority 5270", Change::Rule),
            ("rule add priority 5270 table 52", Change::Rule),
            ("address del 203.0.113.1/24 dev new0", Change::Address),
            ("link del new0", Change::Link),
        ] {
            let mut changes = Changes::subscribe().unwrap();
            ip(line);
            let took = wait_for(&mut changes, expected).await;
            println!("{line}: {expected:?} after {took:?}");
        }
        for (key, value) in [
            ("ip_forward", "1"),
            ("ip_forward", "0"),
            ("conf/eth0/forwarding", "1"),
            ("conf/eth0/rp_filter", "2"),
        ] {
            let mut changes = Changes::subscribe().unwrap();
            set(key, value);
            let took = wait_for(&mut changes, Change::Settings).await;
            println!("{key}={value}: Settings after {took:?}");
        }
    });
}

#[test]
fn nothing_is_told_while_nothing_changes() {
    in_namespace(async || {
        let mut changes = Changes::subscribe().unwrap();
        let quiet = tokio::time::timeout(Duration::from_millis(300), changes.next()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    });
}

#[test]
fn changes_that_outrun_the_reader_end_in_a_resync_and_the_stream_goes_on() {
    in_namespace(async || {
        ips(GATEWAY);
        let mut changes = Changes::subscribe().unwrap();
        // Unread, until the socket's buffer is full (rmem_default is 212992 octets by default).
        let lines: String = (0..4000)
            .map(|number| {
                let (high, low) = (number / 250, number % 250);
                format!("route add 10.1.{high}.{low}/32 dev tailscale0 table 52\n")
            })
            .collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines).unwrap();
        ip(&format!("-batch {}", file.path().display()));
        let mut seen = Vec::new();
        let found = tokio::time::timeout(PROMPTLY, async {
            loop {
                let change = changes.next().await.unwrap().unwrap();
                if !seen.contains(&change) {
                    seen.push(change);
                }
                if change == Change::Resync {
                    break;
                }
            }
        })
        .await;
        assert!(found.is_ok(), "no resync among {seen:?}");
        // From here on nothing may be missed, although nobody has read on.
        ip("link add later0 type veth");
        wait_for(&mut changes, Change::Link).await;
    });
}
