//! A gateway that runs: what reaches its Pod live, what waits for its user, and a controller that is
//! away.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::kube::tailscale;
use tsunaro_integration::lab::{LAN_HOST, PingMonitor};
use tsunaro_integration::{Wait, say};

use super::{Installed, SELECTOR};
use crate::POD_READY;
use crate::site::{NAME, NAMESPACE, POD, ZONE};

/// Five times the goal of a second to an answer; to a route Headscale's own time comes on top.
const ANSWER_LIMIT: f64 = 5.0;
const ROUTE_LIMIT: f64 = 15.0;
/// Longer than a resync of what is not settled, and than the controller's start.
const QUIET: Duration = Duration::from_secs(20);
const NEXT_IMAGE: &str = "ghcr.io/tailscale/tailscale:v1.102.5";

#[test]
fn changes_are_live_a_template_waits_and_a_controller_that_is_away_is_not_missed() -> Result<()> {
    let installed = Installed::start()?;
    installed.apply_and_wait(|text| text)?;
    installed.wait("a ping of the peer to the LAN", || {
        installed.site.lab.peer().ping_once(LAN_HOST).map(Some)
    })?;
    let pings = PingMonitor::start(installed.site.lab.peer(), LAN_HOST)?;
    live(&installed)?;
    stale(&installed)?;
    away(&installed)?;
    let report = pings.stop()?;
    say(&format!("a peer's pings meanwhile: {report:?}"));
    ensure!(report.lost == 0, "{report:?}");
    taken(&installed)
}

/// What must not change when the config does.
fn workload(installed: &Installed) -> Result<(String, Value)> {
    let set = installed
        .site
        .node
        .get(&["-n", NAMESPACE, "statefulset", NAME])?;
    let uid = installed.site.node.pod_uid(NAMESPACE, POD)?;
    Ok((uid, set["metadata"]["generation"].clone()))
}

fn patch(installed: &Installed, spec: &Value) -> Result<()> {
    let patch = format!("--patch={}", json!({ "spec": spec }));
    installed
        .site
        .kubectl(&["patch", "tailnetgateway", NAME, "--type=merge", &patch])?;
    Ok(())
}

/// Seconds until it holds.
fn seconds(
    installed: &Installed,
    what: &str,
    began: Instant,
    probe: impl FnMut() -> Result<Option<()>>,
) -> Result<f64> {
    let waited = Wait::new(what, Duration::from_secs(60))
        .every(Duration::from_millis(20))
        .until(probe);
    waited.map_err(|error| error.context(installed.logs()))?;
    Ok(began.elapsed().as_secs_f64())
}

fn answers(installed: &Installed, name: &str, address: &str) -> Result<Option<()>> {
    let machine = installed.site.node.machine();
    let name = format!("{name}.{ZONE}");
    let (code, records) = machine.dns(&installed.site.dns_ip, &name, "A")?;
    ensure!(records == [format!("A {address}")], "{code} {records:?}");
    Ok(Some(()))
}

fn at_peer(installed: &Installed, prefix: &str) -> Result<Option<()>> {
    let table = installed.site.lab.peer().sh("ip route show table 52")?;
    let found = table
        .lines()
        .any(|line| line.split(' ').next() == Some(prefix));
    ensure!(found, "{table}");
    Ok(Some(()))
}

fn live(installed: &Installed) -> Result<()> {
    let before = workload(installed)?;
    let mut rows: Vec<(&str, f64, f64)> = Vec::new();
    let now = Instant::now;

    let began = now();
    let records = json!([{ "name": "router", "address": LAN_HOST }, { "name": "fresh", "address": "192.0.2.9" }]);
    patch(installed, &json!({ "dns": { "staticRecords": records } }))?;
    let took = seconds(installed, "the new record", began, || {
        answers(installed, "fresh", "192.0.2.9")
    })?;
    rows.push(("a static record: answered", took, ANSWER_LIMIT));

    let began = now();
    let egress = json!({
        "apiVersion": "tsunaro.io/v1alpha1", "kind": "TailnetEgress",
        "metadata": { "name": "second", "namespace": "billing" },
        "spec": { "tailnetRef": { "name": "corp" }, "target": "10.0.10.30", "dnsAliases": [format!("second.{ZONE}")] },
    });
    installed.site.node.apply(&egress.to_string())?;
    let took = seconds(installed, "the egress' name", began, || {
        answers(installed, "second", "10.0.10.30")
    })?;
    rows.push(("an egress with an alias: answered", took, ANSWER_LIMIT));
    let took = seconds(installed, "the egress' route", began, || {
        at_peer(installed, "10.0.10.30")
    })?;
    rows.push(("the same: in a peer's table", took, ROUTE_LIMIT));

    let began = now();
    let ingress = json!({
        "apiVersion": "tsunaro.io/v1alpha1", "kind": "TailnetIngress",
        "metadata": { "name": "git", "namespace": "platform" },
        "spec": { "tailnetRef": { "name": "corp" }, "address": "198.51.100.30" },
    });
    installed.site.node.apply(&ingress.to_string())?;
    let took = seconds(installed, "the ingress' name", began, || {
        answers(installed, "git-platform", "198.51.100.30")
    })?;
    rows.push(("an ingress (hosts file): answered", took, ANSWER_LIMIT));

    let began = now();
    patch(
        installed,
        &json!({ "routes": { "lan": ["192.0.2.0/24", "10.0.11.0/24"] } }),
    )?;
    let took = seconds(installed, "the new route", began, || {
        at_peer(installed, "10.0.11.0/24")
    })?;
    rows.push(("a prefix of the LAN: in a peer's table", took, ROUTE_LIMIT));

    let began = now();
    patch(installed, &json!({ "routes": { "lan": ["192.0.2.0/24"] } }))?;
    let took = seconds(installed, "the route's end", began, || {
        Ok(at_peer(installed, "10.0.11.0/24").is_err().then_some(()))
    })?;
    rows.push(("the same taken back: gone there", took, ROUTE_LIMIT));

    say("| a change → | seconds |");
    say("|---|---|");
    for (what, took, _) in &rows {
        say(&format!("| {what} | {took:.1} |"));
    }
    for (what, took, limit) in rows {
        ensure!(took < limit, "{what}: {took:.1} s");
    }
    installed.wait_well()?;
    let after = workload(installed)?;
    ensure!(before == after, "{before:?} {after:?}");
    Ok(())
}

/// A new image waits in the template; its Pod is never deleted.
fn stale(installed: &Installed) -> Result<()> {
    let (pod, generation) = workload(installed)?;
    patch(installed, &json!({ "image": NEXT_IMAGE }))?;
    let message = installed.wait_condition("WorkloadCurrent", "False/PodTemplateStale")?;
    ensure!(
        message.contains(&format!("kubectl -n {NAMESPACE} delete pod {POD}")),
        "{message}"
    );
    quiet(installed, || {
        let (now, template) = workload(installed)?;
        ensure!(now == pod, "the Pod was replaced");
        ensure!(template != generation, "the template is the old one");
        let (ready, message) = installed.condition("Ready")?;
        ensure!(ready.starts_with("True"), "{ready}: {message}");
        Ok(())
    })?;
    let events = installed.site.kubectl(&[
        "get",
        "events.events.k8s.io",
        "--field-selector=reason=PodTemplateStale",
        "--all-namespaces",
        "--no-headers",
    ])?;
    say(&events);
    ensure!(
        events.lines().filter(|line| line.contains(NAME)).count() == 1,
        "not one event of one transition: {events}"
    );
    Ok(())
}

/// As the message says: the user deletes the Pod, and the template is applied.
fn taken(installed: &Installed) -> Result<()> {
    let site = &installed.site;
    let image = tailscale(NEXT_IMAGE, site.lab.peers(), site.lab.peer().ca())?;
    site.node.load_image(&image)?;
    let node = site.hs_node()?;
    let old = site.node.pod_uid(NAMESPACE, POD)?;
    site.kubectl(&["-n", NAMESPACE, "delete", "pod", POD])?;
    site.node
        .wait_pod_recreated(NAMESPACE, POD, &old, POD_READY)?;
    installed.wait_well()?;
    ensure!(site.hs_node()?.id == node.id, "another node");
    Ok(())
}

/// The controller goes and comes back: nobody notices, and nothing is written.
fn away(installed: &Installed) -> Result<()> {
    let site = &installed.site;
    // The egress of above is new in this: let all of it be said.
    installed.wait_condition("RoutesInSync", "True/Approved")?;
    let deployment = "deployment/tsunaro-controller";
    let scale = |replicas: &str| site.kubectl(&["-n", NAMESPACE, "scale", deployment, replicas]);
    scale("--replicas=0")?;
    site.kubectl(&[
        "-n",
        NAMESPACE,
        "wait",
        "--for=delete",
        "pod",
        &format!("--selector={SELECTOR}"),
        "--timeout=50s",
    ])?;
    // As a controller of a later version would have left them.
    for (kind, name) in written_by_us() {
        site.kubectl(&[
            "-n",
            NAMESPACE,
            "label",
            "--overwrite",
            kind,
            name,
            "app.kubernetes.io/version=9.9.9",
        ])?;
    }
    let before = versions(installed)?;
    let cluster = site.ask_from_app(&site.dns_ip)?;
    quiet(installed, || site.cluster_answers())?;
    scale("--replicas=2")?;
    site.node
        .wait_for(NAMESPACE, deployment, "condition=Available", POD_READY)?;
    quiet(installed, || {
        let now = versions(installed)?;
        let changed: Vec<_> = now.iter().filter(|one| !before.contains(one)).collect();
        ensure!(changed.is_empty(), "written: {changed:?}");
        Ok(())
    })?;
    let report = cluster.stop()?;
    say(&format!(
        "queries while the controller was away: {report:?}"
    ));
    ensure!(report.failed == 0 && report.asked > 0, "{report:?}");
    // It did look.
    let metrics = metrics(installed)?;
    ensure!(metric(&metrics, "passes_total{outcome=\"rested\"}")? > 0.0);
    ensure!(!metrics.contains("steps_total{"), "{metrics}");
    Ok(())
}

fn written_by_us() -> [(&'static str, &'static str); 9] {
    [
        ("serviceaccount", NAME),
        ("role", NAME),
        ("rolebinding", NAME),
        ("poddisruptionbudget", NAME),
        ("service", NAME),
        ("service", "prod-1-gw-dns"),
        ("service", "prod-1-gw-headless"),
        ("configmap", "prod-1-gw-agent"),
        ("statefulset", NAME),
    ]
}

/// `resourceVersion`s of all that is the gateway's; tailscaled writes the state Secret itself.
fn versions(installed: &Installed) -> Result<Vec<String>> {
    let get = |args: &[&str]| installed.site.node.get(args);
    let mut all = Vec::new();
    for (kind, name) in written_by_us().into_iter().chain([
        ("configmap", "prod-1-gw-fresh"),
        ("configmap", "tailnet-hosts"),
        ("secret", "prod-1-gw-authkey"),
        ("pod", POD),
        ("tailnetgateway", NAME),
        ("tailnet", "corp"),
        ("tailnetsite", "prod-1-lan"),
    ]) {
        let object = get(&["-n", NAMESPACE, kind, name])?;
        all.push(format!(
            "{kind} {name} {}",
            object["metadata"]["resourceVersion"]
        ));
    }
    Ok(all)
}

fn metrics(installed: &Installed) -> Result<String> {
    let node = &installed.site.node;
    let list = node.get(&["-n", NAMESPACE, "pods", &format!("--selector={SELECTOR}")])?;
    for item in list["items"].as_array().into_iter().flatten() {
        let address = item["status"]["podIP"].as_str().context("no address")?;
        let url = format!("http://{address}:9182/metrics");
        let (code, text) = node.machine().http_get(&url)?;
        ensure!(code == 200, "{code}");
        if metric(&text, "leading")? > 0.0 {
            return Ok(text);
        }
    }
    anyhow::bail!("no replica works")
}

fn metric(text: &str, name: &str) -> Result<f64> {
    let name = format!("tsunaro_controller_{name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    Ok(line
        .with_context(|| format!("no {name} in {text}"))?
        .parse()?)
}

/// Holds for a while.
fn quiet(installed: &Installed, check: impl Fn() -> Result<()>) -> Result<()> {
    let until = Instant::now() + QUIET;
    let held = Wait::new("time to pass", QUIET * 5)
        .every(Duration::from_secs(1))
        .until(|| match check() {
            Ok(()) if Instant::now() < until => Ok(None),
            result => Ok(Some(result)),
        })?;
    held.map_err(|error| error.context(installed.logs()))
}
