//! Two hundred gateways at rest: nobody is written, Headscale is asked once an interval for all of
//! them, memory stays; a change of one touches that one alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::kube::Part;
use tsunaro_integration::lab::Process;
use tsunaro_integration::{Wait, say};

use crate::NAMESPACE;
use crate::beside::{Beside, Without, gateway};
use crate::tap::{Fate, HEADSCALE, Seen, Tap, To, controller};

const GATEWAYS: u8 = 200;
/// The default of five minutes is shortened, so that five minutes have as many resyncs as five hours.
const RESYNC: &str = "5";
const INTERVAL: u64 = 5;
const WATCHED: Duration = Duration::from_secs(300);
/// Memory may breathe by this part.
const BREATH: f64 = 1.10;

#[test]
fn two_hundred_gateways_at_rest_cost_nothing_and_a_change_of_one_touches_its_own() -> Result<()> {
    let beside = Beside::start_with(Without::Kubelet)?;
    // It makes the Pods; nobody schedules them.
    beside.node.start_part(Part::ControllerManager)?;
    beside.tailnet(&format!("http://{HEADSCALE}"))?;
    let tap = Tap::start(&beside, beside.lab.headscale().rest().clone())?;
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let keep = Arc::clone(&seen);
    tap.judge(move |one| {
        keep.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(one.clone());
        Fate::Pass
    });
    let take = || std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let interval = INTERVAL.to_string();
    let process = controller(
        &beside,
        &["--headscale-interval", &interval, "--resync", RESYNC],
    )?;
    let began = Instant::now();
    let all = json!({ "apiVersion": "v1", "kind": "List", "items": (1..=GATEWAYS).map(one).collect::<Vec<_>>() });
    let file = beside.node.machine().write("many.json", &all.to_string())?;
    let file = file.display().to_string();
    let apply = beside
        .node
        .kubectl_cmd(&["apply", "--server-side", "-f", &file]);
    beside
        .node
        .machine()
        .run(apply.timeout(Duration::from_secs(120)))?
        .ok()?;
    let log = beside.node.machine().dir().join("tsunaro-controller.log");
    Wait::new(
        "all gateways to wait for their Pods",
        Duration::from_secs(600),
    )
    .every(Duration::from_secs(2))
    .logs([log.clone()])
    .until(|| {
        let list = beside.node.get(&["tailnetgateways"])?;
        let items = list["items"].as_array().context("items")?;
        let done = items.iter().filter(|item| waits(item)).count();
        ensure!(done == usize::from(GATEWAYS), "{done} of {GATEWAYS}");
        Ok(Some(()))
    })?;
    say(&format!(
        "{GATEWAYS} gateways from apply to rest: {:.0} s",
        began.elapsed().as_secs_f64()
    ));
    calm_down(&log, &take)?;
    at_rest(&beside, &process, &take)?;
    one_changes(&beside, &log, &take)?;
    process.terminate(Duration::from_secs(10))?;
    Ok(())
}

/// The first addresses are taken, see [`KubeNode::service_address`].
fn one(number: u8) -> Value {
    gateway(&format!("gw-{number}"), number + 50, |_| {})
}

fn waits(gateway: &Value) -> bool {
    let ready = &gateway["status"]["conditions"][0];
    ready["reason"] == "PodNotReady"
}

/// Until no write was seen for a while.
fn calm_down(log: &std::path::Path, take: &impl Fn() -> Vec<Seen>) -> Result<()> {
    let mut quiet_since = Instant::now();
    Wait::new("the last write of the creation", Duration::from_secs(240))
        .every(Duration::from_secs(1))
        .logs([log.to_owned()])
        .until(|| {
            let writes = take().iter().filter(|one| one.is_write()).count();
            if writes > 0 {
                quiet_since = Instant::now();
            }
            ensure!(
                quiet_since.elapsed() > Duration::from_secs(75),
                "{writes} writes"
            );
            Ok(Some(()))
        })
}

fn at_rest(beside: &Beside, process: &Process, take: &impl Fn() -> Vec<Seen>) -> Result<()> {
    let (passes, memory) = (passes(beside)?, resident(process)?);
    take();
    let began = Instant::now();
    Wait::new("time to pass", WATCHED * 2)
        .every(Duration::from_secs(1))
        .until(|| Ok((began.elapsed() >= WATCHED).then_some(())))?;
    let seen = take();
    let elapsed = began.elapsed().as_secs_f64();
    let made = self::passes(beside)? - passes;
    let later = resident(process)?;
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for one in &seen {
        *rows.entry(row(one)).or_default() += 1;
    }
    say(&format!(
        "{GATEWAYS} gateways at rest for {elapsed:.0} s, resync every {RESYNC} s: {made:.0} passes"
    ));
    say(&format!(
        "memory: {:.1} MB, then {:.1} MB",
        memory / 1e6,
        later / 1e6
    ));
    for (row, count) in &rows {
        say(&format!("| {row} | {count} |"));
    }
    let writes: Vec<&Seen> = seen.iter().filter(|one| one.is_write()).collect();
    ensure!(writes.is_empty(), "{writes:?}");
    let lists = rows.get("Headscale GET /api/v1/node").copied().unwrap_or(0);
    let expected = elapsed / f64::from(u32::try_from(INTERVAL)?);
    ensure!(
        (f64::from(u32::try_from(lists)?) - expected).abs() <= 2.0,
        "{lists} lists of nodes in {elapsed:.0} s"
    );
    // Every gateway was looked at again and again.
    ensure!(made >= f64::from(GATEWAYS) * 30.0, "{made} passes");
    ensure!(
        later <= memory * BREATH,
        "memory grew from {memory} to {later}"
    );
    Ok(())
}

fn one_changes(
    beside: &Beside,
    log: &std::path::Path,
    take: &impl Fn() -> Vec<Seen>,
) -> Result<()> {
    take();
    let patch =
        r#"--patch={"spec":{"dns":{"staticRecords":[{"name":"new","address":"192.0.2.9"}]}}}"#;
    beside
        .node
        .kubectl(&["patch", "tailnetgateway", "gw-100", "--type=merge", patch])?
        .ok()?;
    Wait::new("the new record in the ConfigMap", Duration::from_secs(60))
        .logs([log.to_owned()])
        .until(|| {
            let map = beside
                .node
                .get(&["-n", NAMESPACE, "configmap", "gw-100-agent"])?;
            let config = map["data"]["gateway.yaml"].as_str().unwrap_or_default();
            ensure!(config.contains("192.0.2.9"), "{config}");
            let generation = beside.node.get(&["tailnetgateway", "gw-100"])?;
            ensure!(
                generation["status"]["observedGeneration"] == generation["metadata"]["generation"]
            );
            Ok(Some(()))
        })?;
    calm_until_quiet(take, |one| {
        let word = one
            .path
            .split(['/', '?'])
            .any(|word| word == "gw-100" || word.starts_with("gw-100-"));
        let event = one.path.contains("/events") && one.body["regarding"]["name"] == "gw-100";
        word || event
    })
}

/// All writes of the next seconds are of this kind; says which.
fn calm_until_quiet(take: &impl Fn() -> Vec<Seen>, allowed: impl Fn(&Seen) -> bool) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    let mut all = Vec::new();
    Wait::new("seconds to pass", Duration::from_secs(30))
        .every(Duration::from_secs(1))
        .until(|| {
            all.extend(take().into_iter().filter(Seen::is_write));
            Ok((Instant::now() >= until).then_some(()))
        })?;
    for one in &all {
        say(&format!("one changed: {}", row(one)));
        ensure!(allowed(one), "{one:?}");
    }
    ensure!(!all.is_empty(), "nothing was written");
    Ok(())
}

/// A kind of request, without names.
fn row(one: &Seen) -> String {
    let path = one.path.split('?').next().unwrap_or_default();
    let words: Vec<&str> = path
        .split('/')
        .map(|word| {
            if word.starts_with("gw-") && one.to == To::ApiServer && !one.is_write() {
                "NAME"
            } else {
                word
            }
        })
        .collect();
    format!("{:?} {} {}", one.to, one.method, words.join("/"))
}

pub(crate) fn passes(beside: &Beside) -> Result<f64> {
    let (_, text) = beside
        .node
        .machine()
        .http_get("http://127.0.0.1:9182/metrics")?;
    let name = "tsunaro_controller_passes_total{outcome=\"rested\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.context("no such metric")?.parse()?)
}

/// Bytes.
fn resident(process: &Process) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: f64 = line
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .context("no VmRSS")?
        .parse()?;
    Ok(kilobytes * 1024.0)
}
