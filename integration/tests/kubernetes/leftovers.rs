//! Nodes that end, are killed, or stand side by side.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tsunaro_integration::kube::{BUSYBOX, KubeNode, KubeOptions};
use tsunaro_integration::lab::{remove_leftovers, traces};
use tsunaro_integration::wait_until;

use crate::{Named, POD_READY, Shared, timed};

pub(crate) const TESTS: &[Named] = &[
    (
        "leftovers::two_nodes_side_by_side_do_not_touch_each_other_and_leave_nothing_of_each",
        two_nodes_side_by_side,
    ),
    (
        "leftovers::a_killed_test_process_takes_its_node_along_and_the_next_start_removes_the_rest",
        a_killed_test_process_takes_its_node_along,
    ),
];

/// Set in the process that a test starts to kill it.
const VICTIM: &str = "TSUNARO_LAB_VICTIM";

/// Starts a Pod that runs `sleep SECONDS`.
fn start_sleeper(node: &KubeNode, seconds: &str) -> Result<()> {
    node.apply(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: sleeper}}, spec: {{containers: [{{name: main, \
         image: '{BUSYBOX}', imagePullPolicy: Never, command: [sleep, '{seconds}']}}]}}}}"
    ))?;
    node.wait_pod_ready("default", "sleeper", POD_READY)
}

/// Processes of this machine whose command line is `sleep SECONDS`: a Pod's
/// programs carry no id of the run.
fn sleepers(seconds: &str) -> Result<usize> {
    let line = format!("sleep\0{seconds}\0");
    let mut found = 0;
    for entry in std::fs::read_dir("/proc")? {
        // An entry without one is no process, or has just ended.
        if std::fs::read(entry?.path().join("cmdline"))
            .is_ok_and(|cmdline| cmdline == line.as_bytes())
        {
            found += 1;
        }
    }
    Ok(found)
}

/// What kubelet would set for the whole machine.
fn machine_settings() -> Result<Vec<String>> {
    let names = [
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
    ];
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/{name}"));
    Ok(names.into_iter().map(read).collect::<Result<_, _>>()?)
}

/// Where kubelet or containerd would leave something on the machine.
fn machine_files() -> Vec<String> {
    let places = [
        "/sys/fs/cgroup/kubepods",
        "/sys/fs/cgroup/memory/kubepods",
        "/sys/fs/cgroup/cpu/kubepods",
        "/var/lib/kubelet",
        "/var/lib/etcd/member",
        "/var/lib/cni/networks/pods",
        "/var/log/pods",
        "/run/containerd/containerd.sock",
        "/usr/libexec/kubernetes",
        "/opt/containerd",
    ];
    let there = |place: &&str| std::path::Path::new(place).exists();
    places
        .into_iter()
        .filter(there)
        .map(str::to_owned)
        .collect()
}

fn two_nodes_side_by_side(shared: &Shared) -> Result<()> {
    let (settings, files) = (machine_settings()?, machine_files());
    let one = shared.node()?;
    let two = KubeNode::start(KubeOptions {
        number: 2,
        ..KubeOptions::default()
    })?;
    start_sleeper(one, "70001")?;
    start_sleeper(&two, "70002")?;
    assert_ne!(one.id(), two.id());
    assert!(one.pod_ip("default", "sleeper")?.starts_with("10.244.1."));
    assert!(two.pod_ip("default", "sleeper")?.starts_with("10.244.2."));
    let pods = two.get(&["pods", "--all-namespaces"])?;
    assert_eq!(pods["items"].as_array().map(Vec::len), Some(1));
    assert_eq!((sleepers("70001")?, sleepers("70002")?), (1, 1));
    // Both live: neither is a leftover.
    let removed = remove_leftovers()?;
    assert!(
        !removed.iter().any(|id| id == one.id() || id == two.id()),
        "{removed:?}"
    );

    let id = two.id().to_owned();
    assert!(
        traces(&id)?
            .iter()
            .any(|trace| trace.starts_with("/sys/fs/cgroup/"))
    );
    let gone = timed("the end of a node");
    drop(two);
    drop(gone);
    assert_eq!(traces(&id)?, Vec::<String>::new());
    assert_eq!((sleepers("70001")?, sleepers("70002")?), (1, 0));
    let alive = one
        .exec("default", "sleeper", "main", &["echo", "alive"])?
        .ok()?;
    assert_eq!(alive, "alive\n");
    assert_eq!(machine_settings()?, settings);
    assert_eq!(machine_files(), files);
    one.delete("default", &["pod/sleeper"])
}

fn a_killed_test_process_takes_its_node_along(_: &Shared) -> Result<()> {
    let (settings, files) = (machine_settings()?, machine_files());
    let mut victim = Command::new(std::env::current_exe()?)
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(victim.stdout.take().context("no stdout")?).lines();
    let id = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split("victim's node ").nth(1)?.trim().to_owned()))
        .context("the victim started no node")?;
    // Alive, it is left alone.
    assert!(!remove_leftovers()?.contains(&id));
    assert!(traces(&id)?.len() > 10, "{:?}", traces(&id)?);
    assert_eq!(sleepers("70003")?, 1);
    victim.kill()?;
    victim.wait()?;
    let died = timed("from the kill to the end of the node's last process");
    wait_until(
        "the end of the node's processes",
        Duration::from_secs(10),
        || {
            let mut left = traces(&id)?;
            left.retain(|trace| trace.starts_with("/proc/"));
            ensure!(left.is_empty() && sleepers("70003")? == 0, "{left:#?}");
            Ok(Some(()))
        },
    )?;
    drop(died);
    // What has no process: the start of any lab or node does this.
    remove_leftovers()?;
    assert_eq!(traces(&id)?, Vec::<String>::new());
    assert_eq!(machine_settings()?, settings);
    assert_eq!(machine_files(), files);
    Ok(())
}

/// Whether this process was started to be killed.
pub(crate) fn is_victim() -> bool {
    std::env::var_os(VICTIM).is_some()
}

/// Starts a node with a Pod, and waits to be killed.
pub(crate) fn be_the_victim() -> ExitCode {
    let lived = || -> Result<()> {
        let node = KubeNode::start(KubeOptions::default())?;
        start_sleeper(&node, "70003")?;
        println!("victim's node {}", node.id());
        wait_until("the kill", Duration::from_secs(120), || Ok(None))
    };
    if let Err(error) = lived() {
        eprintln!("{error:?}");
    }
    ExitCode::FAILURE
}
