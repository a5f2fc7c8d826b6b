//! A controller of another version takes over, and ours again: neither writes what changes anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tsunaro_integration::kube::Part;
use tsunaro_integration::lab::Process;
use tsunaro_integration::{Wait, controller_of, say};

use crate::NAMESPACE;
use crate::beside::{Beside, Without, gateway};
use crate::many::passes;
use crate::tap::{Fate, HEADSCALE, Seen, Tap, To, controller};

const OTHER_VERSION: &str = "0.0.1";
/// Passes over each of the two gateways after a change of controllers.
const ENOUGH: f64 = 8.0;
/// With resyncs every 5 s.
const QUIET: Duration = Duration::from_secs(15);

#[test]
fn a_downgrade_and_the_way_back_change_nothing_but_an_image_that_nobody_chose() -> Result<()> {
    let other = other_version()?;
    let mut beside = Beside::start_with(Without::Kubelet)?;
    // It makes the Pods; nobody schedules them.
    beside.node.start_part(Part::ControllerManager)?;
    beside.tailnet(&format!("http://{HEADSCALE}"))?;
    let tap = Tap::start(&beside, beside.lab.headscale().rest().clone())?;
    let writes: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let keep = Arc::clone(&writes);
    tap.judge(move |one| {
        if one.is_write() {
            let mut all = keep.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(one.clone());
        }
        Fate::Pass
    });
    let take = || std::mem::take(&mut *writes.lock().unwrap_or_else(PoisonError::into_inner));

    let ours = run(&beside)?;
    beside.apply(&gateway("gw-chosen", 60, |object| {
        object["spec"]["dns"]["image"] = "registry.example/tsunaro:v0.1.0".into();
    }))?;
    beside.apply(&gateway("gw-default", 61, |_| {}))?;
    for name in ["gw-chosen", "gw-default"] {
        beside.wait_condition(name, "Ready", "False/PodNotReady")?;
    }
    at_rest(&beside, &take)?;
    ours.terminate(Duration::from_secs(10))?;
    let (before, pods) = (beside.versions()?, pods(&beside)?);
    take();

    let current = beside.controller.clone();
    for (whose, binary) in [("the other version", other), ("ours again", current)] {
        beside.controller = binary;
        let process = run(&beside)?;
        let all = at_rest(&beside, &take)?;
        process.terminate(Duration::from_secs(10))?;
        for one in &all {
            say(&format!(
                "{whose} writes {:?} {} {}",
                one.to, one.method, one.path
            ));
            // The default of dns.image goes with the controller's version.
            let event = one.body["regarding"]["name"] == "gw-default";
            let its = one.to == To::ApiServer && (event || one.path.contains("gw-default"));
            ensure!(its, "{one:?}");
        }
        let sets = all.iter().filter(|one| one.path.contains("/statefulsets/"));
        ensure!(
            sets.count() == 1,
            "{whose}: not one StatefulSet of {all:#?}"
        );
        let now = beside.versions()?;
        let changed: Vec<_> = now
            .iter()
            .filter(|one| !before.contains(one) && !one.contains("gw-default"))
            .collect();
        ensure!(changed.is_empty(), "{whose} changed {changed:?}");
        say(&format!("{whose}: {} writes, all of gw-default", all.len()));
    }
    ensure!(self::pods(&beside)? == pods, "a Pod was replaced");
    ensure!(beside.usable_keys()? == 2, "another key was minted");
    Ok(())
}

fn run(beside: &Beside) -> Result<Process> {
    controller(beside, &["--headscale-interval", "2", "--resync", "5"])
}

fn pods(beside: &Beside) -> Result<Vec<Value>> {
    let list = beside.node.get(&["--namespace", NAMESPACE, "pods"])?;
    let items = list["items"].as_array().context("items")?;
    ensure!(items.len() == 2, "{items:?}");
    Ok(items
        .iter()
        .map(|pod| pod["metadata"]["uid"].clone())
        .collect())
}

/// All writes until every gateway was looked at often, and nothing was written for a while.
fn at_rest(beside: &Beside, take: &impl Fn() -> Vec<Seen>) -> Result<Vec<Seen>> {
    let (mut all, mut quiet_since) = (Vec::new(), Instant::now());
    let log = beside.node.machine().dir().join("tsunaro-controller.log");
    Wait::new("rest", Duration::from_secs(120))
        .every(Duration::from_millis(500))
        .logs([log])
        .until(|| {
            let new = take();
            if !new.is_empty() {
                quiet_since = Instant::now();
                all.extend(new);
            }
            let made = passes(beside)?;
            ensure!(made >= 2.0 * ENOUGH, "{made} passes");
            ensure!(quiet_since.elapsed() > QUIET, "{} writes", all.len());
            Ok(Some(()))
        })?;
    Ok(all)
}

/// This tree under another version: there is no release yet to go back to.
fn other_version() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let copy = tempfile::tempdir()?;
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(&root)
        .output()?;
    ensure!(listed.status.success(), "git ls-files: {listed:?}");
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let to = copy.path().join(name);
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::copy(root.join(name), &to).with_context(|| name.to_owned())?;
    }
    let manifest = copy.path().join("Cargo.toml");
    let ours = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let text = fs::read_to_string(&manifest)?;
    ensure!(text.contains(&ours), "no {ours} in Cargo.toml");
    let other = format!("version = \"{OTHER_VERSION}\"");
    fs::write(&manifest, text.replacen(&ours, &other, 1))?;
    // Of its own, so that neither build takes the other's place; kept, so that the next run is quick.
    let target = root.join("target/other-version");
    let binary = controller_of(copy.path(), Some(&target))?;
    let said = Command::new(&binary).arg("--version").output()?;
    let said = String::from_utf8(said.stdout)?;
    ensure!(said.contains(OTHER_VERSION), "{said}");
    Ok(binary)
}
