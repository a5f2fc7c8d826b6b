//! The API server and Headscale slow, refusing, cutting and silent: calls stay few, memory flat, other
//! gateways are served on time, and conditions say since when.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::lab::{CONTROL_URL, Process};
use tsunaro_integration::{Wait, say};

use crate::NAMESPACE;
use crate::beside::{Beside, Without, gateway};
use crate::tap::{Fate, HEADSCALE, Seen, Tap, To, controller};

/// How long each fault lasts.
const FAULT: Duration = Duration::from_secs(20);
/// A change of another gateway takes a second or less; on a loaded machine more.
const ON_TIME: Duration = Duration::from_secs(10);

#[test]
fn servers_that_fail_cost_few_calls_no_memory_and_no_other_gateway() -> Result<()> {
    let beside = Beside::start_with(Without::Kubelet)?;
    beside.tailnet(&format!("http://{HEADSCALE}"))?;
    // Another tailnet, which goes straight to the server.
    beside.apply(&json!({
        "apiVersion": "tsunaro.io/v1alpha1", "kind": "Tailnet", "metadata": { "name": "other" },
        "spec": { "headscale": {
            "url": CONTROL_URL, "apiKeySecretRef": { "name": "headscale-api" },
            "caBundle": std::fs::read_to_string(beside.lab.peer().ca())?,
        } },
    }))?;
    let tap = Tap::start(&beside, beside.lab.headscale().rest().clone())?;
    let process = controller(&beside, &["--headscale-interval", "2", "--resync", "5"])?;
    let mut bench = Bench {
        beside: &beside,
        tap: &tap,
        process: &process,
        routes: 0,
    };
    beside.apply(&gateway("gw-1", 60, |_| {}))?;
    beside.apply(&gateway("gw-2", 61, |object| {
        object["spec"]["tailnetRef"]["name"] = "other".into();
    }))?;
    for name in ["gw-1", "gw-2"] {
        bench.wait("its receipt", |bench| {
            bench
                .get("configmap", &format!("{name}-fresh"))
                .map(|_| Some(()))
        })?;
    }
    say("| fault, for 20 s | calls a second | writes | change of another gateway | memory |");
    say("|---|---|---|---|---|");
    for fate in [
        Fate::Slow(3000),
        Fate::Status(429),
        Fate::Status(500),
        Fate::Reset,
        Fate::Hang,
    ] {
        bench.headscale(fate)?;
    }
    for fate in [
        Fate::Slow(1000),
        Fate::Status(429),
        Fate::Status(500),
        Fate::Reset,
        Fate::Hang,
    ] {
        bench.one_gateway(fate)?;
    }
    for fate in [Fate::Status(429), Fate::Status(500), Fate::Reset] {
        bench.api_server(fate)?;
    }
    ensure!(process.is_running(), "the controller ended");
    Ok(())
}

struct Bench<'a> {
    beside: &'a Beside,
    tap: &'a Tap,
    process: &'a Process,
    routes: u8,
}

struct Cost {
    calls: usize,
    writes: usize,
    kilobytes: i64,
}

impl Bench<'_> {
    /// Headscale of one tailnet fails.
    fn headscale(&mut self, fate: Fate) -> Result<()> {
        self.settled()?;
        let began = jiff::Timestamp::now();
        self.tap.judge(move |seen| {
            if seen.to == To::Headscale {
                fate
            } else {
                Fate::Pass
            }
        });
        let mut took = Duration::ZERO;
        let cost = self.during(|bench| {
            took = bench.change("gw-2", 61, "other")?;
            Ok(())
        })?;
        if !matches!(fate, Fate::Slow(_)) {
            let since = self.wait("the Tailnet's condition", |bench| {
                let tailnet = bench.beside.node.get(&["tailnet", "corp"])?;
                let ready = condition(&tailnet, "Ready")?;
                ensure!(
                    ready["status"] == "False" && ready["reason"] == "HeadscaleUnreachable",
                    "{ready}"
                );
                Ok(ready["lastTransitionTime"].as_str().map(str::to_owned))
            })?;
            let since: jiff::Timestamp = since.parse()?;
            // From the fault's first call to the answer that was not given; a second less by rounding.
            let late = since.duration_since(began).as_secs();
            ensure!((-1..=60).contains(&late), "since {since}, began {began}");
        }
        self.report(
            &format!("Headscale {fate:?}"),
            &cost,
            Some(took),
            To::Headscale,
        )?;
        self.tap.judge(|_| Fate::Pass);
        self.wait("Headscale reachable", |bench| {
            let tailnet = bench.beside.node.get(&["tailnet", "corp"])?;
            Ok((condition(&tailnet, "Ready")?["status"] == "True").then_some(()))
        })
    }

    /// The API server fails for the objects of one gateway.
    fn one_gateway(&mut self, fate: Fate) -> Result<()> {
        self.settled()?;
        self.tap.judge(move |seen| {
            let about = |seen: &Seen| {
                seen.path
                    .split(['/', '?'])
                    .any(|word| word.starts_with("gw-1"))
            };
            if seen.to == To::ApiServer && about(seen) {
                fate
            } else {
                Fate::Pass
            }
        });
        let mut took = Duration::ZERO;
        let cost = self.during(|bench| {
            bench.apply("gw-1", 60, "corp")?;
            took = bench.change("gw-2", 61, "other")?;
            Ok(())
        })?;
        self.report(
            &format!("API server {fate:?} for one gateway"),
            &cost,
            Some(took),
            To::ApiServer,
        )?;
        self.tap.judge(|_| Fate::Pass);
        self.arrives("gw-1").map(drop)
    }

    /// The API server fails for all.
    fn api_server(&mut self, fate: Fate) -> Result<()> {
        self.settled()?;
        self.tap.judge(move |seen| {
            if seen.to == To::ApiServer {
                fate
            } else {
                Fate::Pass
            }
        });
        let cost = self.during(|bench| {
            // By another way.
            bench.apply("gw-2", 61, "other")
        })?;
        self.report(&format!("API server {fate:?}"), &cost, None, To::ApiServer)?;
        self.tap.judge(|_| Fate::Pass);
        let took = self.arrives("gw-2")?;
        say(&format!(
            "  the change made meanwhile was there {:.1} s after the fault",
            took.as_secs_f64()
        ));
        Ok(())
    }

    fn during(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<Cost> {
        self.tap.take_counts();
        let memory = self.memory()?;
        let began = Instant::now();
        act(self)?;
        self.wait("the end of the fault", |_| {
            Ok((began.elapsed() >= FAULT).then_some(()))
        })?;
        let counts = self.tap.take_counts();
        let calls = counts.values().sum();
        let writes = counts
            .iter()
            .filter(|((_, method), _)| method != "GET")
            .map(|(_, count)| count)
            .sum();
        Ok(Cost {
            calls,
            writes,
            kilobytes: self.memory()? - memory,
        })
    }

    fn report(&self, what: &str, cost: &Cost, took: Option<Duration>, to: To) -> Result<()> {
        let rate = f64::from(u32::try_from(cost.calls)?) / FAULT.as_secs_f64();
        let took = took.map_or("-".to_owned(), |took| {
            format!("{:.1} s", took.as_secs_f64())
        });
        say(&format!(
            "| {what} | {rate:.1} | {} | {took} | {:+} KiB |",
            cost.writes, cost.kilobytes
        ));
        let limit = if to == To::Headscale { 15.0 } else { 30.0 };
        ensure!(rate < limit, "{what}: {rate} calls a second");
        ensure!(cost.writes < 80, "{what}: {} writes", cost.writes);
        ensure!(
            cost.kilobytes < 16 * 1024,
            "{what}: {} KiB more",
            cost.kilobytes
        );
        Ok(())
    }

    /// Another route, and how long it took to the gateway's config.
    fn change(&mut self, name: &str, number: u8, tailnet: &str) -> Result<Duration> {
        self.apply(name, number, tailnet)?;
        let took = self.arrives(name)?;
        ensure!(took < ON_TIME, "{name} took {took:?}");
        Ok(took)
    }

    fn apply(&mut self, name: &str, number: u8, tailnet: &str) -> Result<()> {
        self.routes += 1;
        let route = self.route();
        self.beside.apply(&gateway(name, number, |object| {
            object["spec"]["tailnetRef"]["name"] = tailnet.into();
            object["spec"]["routes"]["lan"] = json!([route]);
        }))
    }

    fn route(&self) -> String {
        format!("10.77.{}.0/24", self.routes)
    }

    fn arrives(&self, name: &str) -> Result<Duration> {
        let began = Instant::now();
        let wanted: Value =
            self.beside.node.get(&["tailnetgateway", name])?["spec"]["routes"]["lan"][0].clone();
        let wanted = wanted.as_str().context("a route")?.to_owned();
        self.wait("the route in its config", |bench| {
            let map = bench.get("configmap", &format!("{name}-agent"))?;
            Ok(map.to_string().contains(&wanted).then_some(()))
        })?;
        Ok(began.elapsed())
    }

    /// All as applied and nothing under way.
    fn settled(&self) -> Result<()> {
        self.arrives("gw-1")?;
        self.arrives("gw-2").map(drop)
    }

    fn wait<T>(&self, what: &str, mut probe: impl FnMut(&Self) -> Result<Option<T>>) -> Result<T> {
        let log = self
            .beside
            .node
            .machine()
            .dir()
            .join("tsunaro-controller.log");
        Wait::new(what, Duration::from_secs(90))
            .every(Duration::from_millis(100))
            .logs([log])
            .until(|| probe(self))
    }

    fn get(&self, kind: &str, name: &str) -> Result<Value> {
        self.beside.node.get(&["-n", NAMESPACE, kind, name])
    }

    /// Resident, in KiB.
    fn memory(&self) -> Result<i64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .context("no VmRSS")?;
        line.split_whitespace()
            .next()
            .context("a number")?
            .parse()
            .context("a number")
    }
}

fn condition(object: &Value, kind: &str) -> Result<Value> {
    let conditions = object["status"]["conditions"]
        .as_array()
        .context("no conditions")?;
    conditions
        .iter()
        .find(|it| it["type"] == kind)
        .cloned()
        .context("no such condition")
}
