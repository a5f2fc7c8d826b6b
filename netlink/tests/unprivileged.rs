//! Reading needs no user id and no capability, as in the gateway's Pod.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod lab;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use futures::StreamExt as _;
use lab::{GATEWAY, in_namespace, ips, set};
use tsunaro_netlink::{Change, Changes, Kernel};

/// Runs with whatever user id and capabilities it has, in whatever namespace it is in.
#[tokio::test]
async fn whoever_runs_this_can_read_everything_and_subscribe() {
    let mut changes = Changes::subscribe().unwrap();
    let host = "192.0.2.1".parse().unwrap();
    let view = Kernel::open().unwrap().view(&[host]).await.unwrap();
    assert!(view.link_named("lo").is_some());
    assert!(view.forwarding.is_some());
    assert!(
        view.links.values().all(|link| link.rp_filter.is_some()),
        "{view:?}"
    );
    assert!(!view.rules.is_empty());
    assert!(view.paths.contains_key(&host));
    // Nothing needs to happen here; an error would come at once.
    if let Ok(change) = tokio::time::timeout(Duration::from_millis(50), changes.next()).await {
        assert!(change.is_some_and(|change| change.is_ok_and(|change| change != Change::Resync)));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    for line in status
        .lines()
        .filter(|line| line.starts_with("Uid:") || line.starts_with("Cap"))
    {
        println!("{line}");
    }
    println!("routes in table 52: {}", view.table_52.len());
    println!("path: {:?}", view.paths.values().next());
}

#[test]
fn uid_65534_without_capabilities_can_read_everything_and_subscribe() {
    in_namespace(async || {
        ips(GATEWAY);
        set("ip_forward", "1");
        // A copy, since that user may not be able to walk to the original.
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("test");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        for path in [directory.path(), &program] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let output = Command::new("setpriv")
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--no-new-privs",
            ])
            .args([
                "--inh-caps=-all",
                "--ambient-caps=-all",
                "--bounding-set=-all",
                "--",
            ])
            .arg(&program)
            .args([
                "--exact",
                "whoever_runs_this_can_read_everything_and_subscribe",
                "--nocapture",
            ])
            .current_dir("/")
            .output()
            .unwrap_or_else(|error| panic!("setpriv cannot be run ({error}): install util-linux"));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for expected in [
            "1 passed",
            "Uid:\t65534\t65534\t65534\t65534",
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "routes in table 52: 2",
            "table: 254",
        ] {
            assert!(said.contains(expected), "{expected} in {said}");
        }
    });
}
