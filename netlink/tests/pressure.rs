//! The view of a large kernel, one that changes underway, and readers that are dropped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod lab;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::FutureExt as _;
use lab::{GATEWAY, in_namespace, ips};
use tsunaro_netlink::{Error, Kernel};

const ROUTES: usize = 5000;

/// Adds many routes to table 52, by one process.
fn add_routes() {
    let mut lines = String::new();
    for number in 0..ROUTES {
        let (high, low) = (number / 250, number % 250);
        writeln!(
            lines,
            "route add 10.1.{high}.{low}/32 dev tailscale0 table 52"
        )
        .unwrap();
    }
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    ip.stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    assert!(ip.wait().unwrap().success());
}

#[test]
fn thousands_of_routes_are_listed_completely() {
    in_namespace(async || {
        ips(GATEWAY);
        add_routes();
        let view = Kernel::open().unwrap().view(&[]).await.unwrap();
        assert_eq!(view.table_52.len(), ROUTES + 2);
    });
}

#[test]
fn a_reader_that_was_dropped_half_way_leaves_the_socket_usable() {
    in_namespace(async || {
        ips(GATEWAY);
        add_routes();
        let mut kernel = Kernel::open().unwrap();
        // Drop the reading after each number of polls, until one is left to its end.
        for polls in 0..1000 {
            let mut reading = Box::pin(kernel.view(&[]));
            let mut done = false;
            for _ in 0..=polls {
                if let Some(view) = (&mut reading).now_or_never() {
                    assert_eq!(view.unwrap().table_52.len(), ROUTES + 2);
                    done = true;
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(reading);
            let view = kernel.view(&[]).await.unwrap();
            assert_eq!(view.table_52.len(), ROUTES + 2, "after {polls} polls");
            if done {
                return;
            }
        }
        panic!("a view takes more than 1000 polls");
    });
}

#[test]
fn lists_that_change_underway_are_read_again_or_refused_never_half_told() {
    in_namespace(async || {
        ips(GATEWAY);
        // Links come and go all the time; eth0, lan0, tailscale0 and lo are always there.
        let mut churn = Command::new("sh")
            .args([
                "-c",
                "while ip link add churn0 type veth && ip link del churn0; do :; done",
            ])
            .spawn()
            .unwrap();
        let mut kernel = Kernel::open().unwrap();
        let mut read = 0;
        let outcome = tokio::time::timeout(Duration::from_secs(2), async {
            loop {
                match kernel.view(&[]).await {
                    Ok(view) => {
                        read += 1;
                        for name in ["lo", "eth0", "lan0", "tailscale0"] {
                            assert!(view.link_named(name).is_some(), "{name} in {view:?}");
                        }
                    }
                    Err(Error::Interrupted { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(
            churn.try_wait().unwrap().is_none(),
            "links came and went to the end"
        );
        churn.kill().unwrap();
        churn.wait().unwrap();
        assert!(outcome.is_err());
        println!("{read} views in 2 s while links came and went");
        assert!(read > 10, "{read} views in 2 s");
    });
}
