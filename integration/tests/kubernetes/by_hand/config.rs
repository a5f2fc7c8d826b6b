//! How long a change of the ConfigMap takes to an answer, and to a route at a peer.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;
use tsunaro_integration::lab::Node;
use tsunaro_integration::{Wait, say};

use super::site::{NAMESPACE, POD, Site, ZONE};
use crate::{Named, Shared};

pub(crate) const TESTS: &[Named] = &[(
    "by_hand::changes::a_changed_config_map_is_live_within_seconds_once_the_pod_is_annotated",
    a_changed_config_map_is_live_within_seconds,
)];

/// How kubelet comes to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refresh {
    /// At its next turn: `syncFrequency` is a minute, and it trusts its cache for a while.
    Unasked,
    /// At once, for the Pod has changed: any annotation will do.
    Annotated,
}

/// How often the change with the annotation is made.
const RUNS: u8 = 3;
/// kubelet's turn takes up to a minute and a quarter.
const PATIENCE: Duration = Duration::from_secs(180);
/// Five times the goal of a second to an answer; to a route Headscale's own time comes on top.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const ROUTE_LIMIT: Duration = Duration::from_secs(15);

/// A change whose arrival is watched.
pub(crate) struct Change {
    watcher: JoinHandle<Result<Arrival>>,
}

/// After how long a change was seen.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    answer: Duration,
    route: Duration,
}

impl Change {
    /// Adds a record and an egress target that were not there.
    pub(super) fn begin(site: &Site, refresh: Refresh) -> Result<Self> {
        let config = site.config("gateway.yaml")?;
        let number = 31 + config.matches("fresh-").count();
        let target = format!("10.0.10.{number}");
        let record = format!("    - {{ name: fresh-{number}, address: {target} }}\n");
        let with_record =
            config.replacen("staticRecords:\n", &format!("staticRecords:\n{record}"), 1);
        let changed = with_record.replacen(
            "egressTargets: [",
            &format!("egressTargets: [\"{target}\", "),
            1,
        );
        ensure!(
            with_record != config && changed != with_record,
            "the config has another form: {config}"
        );
        let started = Instant::now();
        site.patch_config("gateway.yaml", &changed)?;
        if refresh == Refresh::Annotated {
            let patch = json!({ "metadata": { "annotations": { "example.org/config": target } } });
            let patch = format!("--patch={patch}");
            site.kubectl(&["-n", NAMESPACE, "patch", "pod", POD, "--type=merge", &patch])?;
        }
        let machine = site.node.machine().clone();
        let peer = Node::clone(site.lab.peer());
        let (server, name) = (site.dns_ip.clone(), format!("fresh-{number}.{ZONE}"));
        let watcher = std::thread::spawn(move || {
            let answer = wait(started, "the new record", || {
                let (_, records) = machine.dns(&server, &name, "A")?;
                ensure!(records == [format!("A {target}")], "{records:?}");
                Ok(Some(()))
            })?;
            let route = wait(started, "the new route at the peer", || {
                let table = peer.sh("ip route show table 52")?;
                let found = table
                    .lines()
                    .any(|line| line.split(' ').next() == Some(&target));
                ensure!(found, "{table}");
                Ok(Some(()))
            })?;
            Ok(Arrival { answer, route })
        });
        Ok(Self { watcher })
    }

    fn arrival(self) -> Result<Arrival> {
        self.watcher
            .join()
            .map_err(|_| anyhow!("the watcher panicked"))?
    }
}

fn wait(
    started: Instant,
    what: &str,
    probe: impl FnMut() -> Result<Option<()>>,
) -> Result<Duration> {
    Wait::new(what, PATIENCE)
        .every(Duration::from_millis(20))
        .until(probe)?;
    Ok(started.elapsed())
}

/// Waits for the change that kubelet was not asked for, makes others, and prints all.
fn a_changed_config_map_is_live_within_seconds(shared: &Shared) -> Result<()> {
    let site = shared.gateway()?;
    let unasked = match shared.kept() {
        Some(change) => change,
        None => Change::begin(site, Refresh::Unasked)?,
    };
    let unasked = unasked.arrival().context("without the annotation")?;
    let mut annotated = Vec::new();
    for _ in 0..RUNS {
        annotated.push(Change::begin(site, Refresh::Annotated)?.arrival()?);
    }
    let range = |time: fn(&Arrival) -> Duration| -> String {
        let mut times: Vec<f64> = annotated
            .iter()
            .map(|each| time(each).as_secs_f64())
            .collect();
        times.sort_by(f64::total_cmp);
        let (first, last) = (times.first().unwrap_or(&0.0), times.last().unwrap_or(&0.0));
        format!("{first:.1} to {last:.1} s")
    };
    say("| a change of the ConfigMap → | Pod annotated | not annotated |");
    say("|---|---|---|");
    say(&format!(
        "| the gateway's answer | {} | {:.0} s |",
        range(|each| each.answer),
        unasked.answer.as_secs_f64()
    ));
    say(&format!(
        "| the route in a peer's table | {} | {:.0} s |",
        range(|each| each.route),
        unasked.route.as_secs_f64()
    ));
    for Arrival { answer, route } in annotated {
        ensure!(
            answer < ANSWER_LIMIT && route < ROUTE_LIMIT,
            "{answer:?} {route:?}"
        );
    }
    Ok(())
}
