//! Two controllers and one Lease. One is killed, or frozen, every few seconds, while gateways come,
//! change and go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::kube::Part;
use tsunaro_integration::lab::{CONTROL_URL, Cmd, Process, Signal};
use tsunaro_integration::{Wait, say, wait_until};

use super::number;
use crate::NAMESPACE;
use crate::beside::{Beside, Without, gateway};

/// With this set to 1 it goes on for minutes.
const FULL: &str = "TSUNARO_FULL_STRESS";
const PORTS: [u16; 2] = [9182, 9183];
/// Seconds that the lease is good for.
const LEASE: &str = "3";

#[test]
fn with_two_controllers_of_which_one_dies_all_the_time_no_key_is_minted_twice_and_no_change_lost()
-> Result<()> {
    let beside = Beside::start_with(Without::Kubelet)?;
    beside.tailnet(CONTROL_URL)?;
    let mut pair = Pair {
        beside: &beside,
        processes: [None, None],
        leaders: Vec::new(),
    };
    pair.start_missing()?;
    pair.wait_leader()?;
    let rounds: u8 = if std::env::var(FULL).as_deref() == Ok("1") {
        48
    } else {
        12
    };
    let mut wanted: BTreeMap<String, u8> = BTreeMap::new();
    let began = Instant::now();
    let (mut kills, mut freezes) = (0, 0);
    for round in 0..rounds {
        // Two come, one changes, one goes.
        for number in [round * 2, round * 2 + 1] {
            apply(&beside, number, round)?;
            wanted.insert(name(number), round);
        }
        if round >= 1 {
            apply(&beside, round * 2 - 1, round)?;
            wanted.insert(name(round * 2 - 1), round);
        }
        if round >= 2 {
            let gone = name(round * 2 - 4);
            beside
                .node
                .kubectl(&["delete", "tailnetgateway", &gone, "--wait=false"])?
                .ok()?;
            wanted.remove(&gone);
        }
        pair.watch(Duration::from_millis(u64::from(round % 4) * 700 + 300))?;
        let leader = pair.wait_leader()?;
        match round % 3 {
            0 => {
                pair.kill(leader)?;
                kills += 1;
            }
            1 => {
                pair.kill(1 - leader)?;
                kills += 1;
            }
            // It renews too late, and wakes in the belief that it leads.
            _ => {
                pair.freeze(leader)?;
                freezes += 1;
            }
        }
        if round == rounds / 2 {
            beside.node.stop_part(Part::ApiServer, Signal::SIGKILL)?;
            beside.node.start_part(Part::ApiServer)?;
            beside.node.wait_api()?;
        }
        pair.start_missing()?;
        pair.watch(Duration::from_millis(1200))?;
    }
    say(&format!(
        "{kills} kills and {freezes} freezes in {:.0} s; leaders: {}",
        began.elapsed().as_secs_f64(),
        pair.leaders.len()
    ));
    pair.converged(&wanted)?;
    pair.at_rest()
}

fn name(number: u8) -> String {
    format!("gw-{number}")
}

/// A gateway whose route tells when it was changed last.
fn apply(beside: &Beside, number: u8, round: u8) -> Result<()> {
    beside.apply(&gateway(&name(number), number + 20, |object| {
        object["spec"]["deletionPolicy"] = "Delete".into();
        object["spec"]["routes"]["lan"] = json!([format!("10.{number}.{round}.0/24")]);
    }))
}

struct Pair<'a> {
    beside: &'a Beside,
    processes: [Option<Process>; 2],
    /// Who led, one after the other.
    leaders: Vec<u32>,
}

impl Pair<'_> {
    fn start_missing(&mut self) -> Result<()> {
        let config = self.beside.node.kubeconfig().display().to_string();
        for (slot, port) in self.processes.iter_mut().zip(PORTS) {
            if slot.as_ref().is_some_and(Process::is_running) {
                continue;
            }
            *slot = Some(
                self.beside.node.machine().spawn(
                    Cmd::new(&self.beside.controller)
                        .args([
                            "run",
                            "--headscale-interval",
                            "2",
                            "--resync",
                            "5",
                            "--lease-duration",
                            LEASE,
                        ])
                        .args(["--log-format", "text", "--http-listen"])
                        .arg(format!("127.0.0.1:{port}"))
                        .env("KUBECONFIG", config.clone())
                        .name(format!("controller-{port}").leak()),
                )?,
            );
        }
        Ok(())
    }

    /// Whether each says that it works; one that does not answer says nothing.
    fn leading(&self) -> Result<[bool; 2]> {
        let mut leading = [false; 2];
        for (leads, port) in leading.iter_mut().zip(PORTS) {
            let url = format!("http://127.0.0.1:{port}/metrics");
            let Ok((200, text)) = self.beside.node.machine().http_get(&url) else {
                continue;
            };
            *leads = number(&text, "tsunaro_controller_leading")? > 0.0;
        }
        Ok(leading)
    }

    fn wait_leader(&mut self) -> Result<usize> {
        let leader = Wait::new("a controller that works", Duration::from_secs(40))
            .logs([self.beside.node.machine().dir().to_owned()])
            .until(|| Ok(self.leading()?.iter().position(|leads| *leads)))?;
        let pid = self
            .processes
            .get(leader)
            .and_then(Option::as_ref)
            .context("no process")?
            .pid();
        if self.leaders.last() != Some(&pid) {
            self.leaders.push(pid);
        }
        Ok(leader)
    }

    /// Looks on: never do two work, and each gateway has one usable key at most.
    fn watch(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        let mut both = 0;
        wait_until("a while", time + Duration::from_secs(60), || {
            both = if self.leading()? == [true, true] {
                both + 1
            } else {
                0
            };
            // One that has just been thawed says it for a moment, without doing anything.
            assert!(both < 3, "both work");
            // Before and after: meanwhile gateways come and go.
            let secrets = || self.beside.node.get(&["-n", NAMESPACE, "secrets"]);
            let before = secrets();
            let usable = self.beside.usable_keys()?;
            if let (Ok(before), Ok(after)) = (before, secrets()) {
                let both = key_secrets(&before).into_iter().chain(key_secrets(&after));
                let names: BTreeSet<String> =
                    both.map(|it| it["metadata"]["name"].to_string()).collect();
                assert!(
                    usable <= names.len(),
                    "{usable} usable keys for {} key Secrets",
                    names.len()
                );
            }
            Ok((Instant::now() > until).then_some(()))
        })
    }

    fn process(&self, index: usize) -> Result<&Process> {
        self.processes
            .get(index)
            .and_then(Option::as_ref)
            .context("no process")
    }

    fn kill(&self, index: usize) -> Result<()> {
        self.process(index)?.kill_now().map(drop)
    }

    fn freeze(&self, index: usize) -> Result<()> {
        self.process(index)?.kill(Signal::SIGSTOP)?;
        let other = Wait::new("the other one to work", Duration::from_secs(40))
            .logs([self.beside.node.machine().dir().to_owned()])
            .until(|| {
                Ok(self
                    .leading()?
                    .get(1 - index)
                    .copied()
                    .filter(|leads| *leads))
            });
        self.process(index)?.kill(Signal::SIGCONT)?;
        other.map(drop)
    }

    /// Every gateway is as it was applied last, each with its own key, and nothing else is there.
    fn converged(&self, wanted: &BTreeMap<String, u8>) -> Result<()> {
        Wait::new("all as it was applied", Duration::from_secs(120))
            .logs([self.beside.node.machine().dir().to_owned()])
            .until(|| {
                let gateways = self.beside.node.get(&["tailnetgateways"])?;
                let names: Vec<&str> = items(&gateways)
                    .iter()
                    .filter_map(|it| it["metadata"]["name"].as_str())
                    .collect();
                ensure!(names.len() == wanted.len(), "{names:?}");
                let maps = self.beside.node.get(&["-n", NAMESPACE, "configmaps"])?;
                for (gateway, round) in wanted {
                    let find = |name: String| {
                        items(&maps)
                            .iter()
                            .find(|map| map["metadata"]["name"] == name.as_str())
                    };
                    find(format!("{gateway}-fresh"))
                        .with_context(|| format!("no receipt of {gateway}"))?;
                    let config = find(format!("{gateway}-agent"))
                        .context("no config")?
                        .to_string();
                    let number = gateway.trim_start_matches("gw-");
                    ensure!(
                        config.contains(&format!("10.{number}.{round}.0/24")),
                        "{gateway}: {config}"
                    );
                }
                let left = items(&maps).iter().filter(|map| {
                    map["metadata"]["name"]
                        .as_str()
                        .is_some_and(|it| it.ends_with("-fresh"))
                });
                ensure!(
                    left.count() == wanted.len(),
                    "receipts of gateways that are gone"
                );
                let usable = self.beside.usable_keys()?;
                let secrets = self.beside.node.get(&["-n", NAMESPACE, "secrets"])?;
                let keys = key_secrets(&secrets);
                ensure!(
                    keys.len() == wanted.len() && usable == wanted.len(),
                    "{} gateways, {} key Secrets, {usable} usable keys",
                    wanted.len(),
                    keys.len()
                );
                let mut ids: Vec<&Value> = keys
                    .iter()
                    .map(|secret| &secret["metadata"]["annotations"]["tsunaro.io/key-id"])
                    .collect();
                ids.sort_by_key(|id| id.to_string());
                ids.dedup();
                ensure!(ids.len() == wanted.len(), "{ids:?}");
                Ok(Some(()))
            })?;
        say(&format!(
            "{} gateways as they were applied last, each with one usable key of its own",
            wanted.len()
        ));
        Ok(())
    }

    /// With both alive: two resyncs without a write.
    fn at_rest(&self) -> Result<()> {
        let settle = Instant::now() + Duration::from_secs(6);
        wait_until("a while", Duration::from_secs(60), || {
            Ok((Instant::now() > settle).then_some(()))
        })?;
        let before = self.beside.versions()?;
        let until = Instant::now() + Duration::from_secs(12);
        wait_until("rest", Duration::from_secs(60), || {
            Ok((Instant::now() > until).then_some(()))
        })?;
        let after = self.beside.versions()?;
        let changed: Vec<_> = after.iter().filter(|one| !before.contains(one)).collect();
        ensure!(changed.is_empty(), "written at rest: {changed:?}");
        Ok(())
    }
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

/// The key Secrets of gateways.
fn key_secrets(secrets: &Value) -> Vec<&Value> {
    items(secrets)
        .iter()
        .filter(|secret| {
            secret["metadata"]["name"]
                .as_str()
                .is_some_and(|it| it.ends_with("-authkey"))
        })
        .collect()
}
