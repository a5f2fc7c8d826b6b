//! What takes the Pod out of its Services, what does not, and who says why.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::say;

use super::site::{COREDNS_IMAGE, NAME, NAMESPACE, POD, Site};
use crate::{Named, POD_READY, Shared};

pub(crate) const TESTS: &[Named] = &[(
    "by_hand::readiness::readiness_falls_for_what_is_wrong_in_the_pod_alone_and_the_reason_is_told",
    readiness_falls_for_what_is_wrong_in_the_pod_alone,
)];

/// More than the three failed ones that make a Pod unready.
const PROBES: u64 = 4;
/// The delay between two tries of kubelet to mount a volume doubles each time.
const MOUNTED: Duration = Duration::from_secs(150);

fn readiness_falls_for_what_is_wrong_in_the_pod_alone(shared: &Shared) -> Result<()> {
    let site = shared.gateway()?;
    let good = site.config("gateway.yaml")?;
    say("| what is wrong | Pod | who says why |");
    say("|---|---|---|");

    all_that_leaves_it_ready(site, &good)?;
    // Each Pod is the one that the fault before it has left.
    hosts_absent(site)?;
    config_wrong_at_start(site, &good)?;
    port_taken(site)?;
    no_tun(site)?;
    site.wait_healthy()
}

fn row(what: &str, pod: &str, said: &str) {
    say(&format!(
        "| {what} | {pod} | {} |",
        said.trim().replace('\n', " ")
    ));
}

fn annotate(site: &Site, value: &str) -> Result<()> {
    let annotation = format!("example.org/config={value}");
    site.kubectl(&[
        "-n",
        NAMESPACE,
        "annotate",
        "--overwrite",
        "pod",
        POD,
        &annotation,
    ])?;
    Ok(())
}

fn set_config(site: &Site, content: &str, mark: &str) -> Result<()> {
    site.patch_config("gateway.yaml", content)?;
    annotate(site, mark)
}

/// All at once, for more probes than would have to fail.
fn all_that_leaves_it_ready(site: &Site, good: &str) -> Result<()> {
    let rest = site.lab.headscale().rest();
    let node = site.hs_node()?;
    let mut said = vec![
        (
            "every upstream of an extra zone down",
            upstream_down(site, good)?,
        ),
        ("config made wrong while running", config_wrong(site, good)?),
        ("forwarding off", forwarding_off(site)?),
    ];
    rest.expire(&node.id)?;
    said.push((
        "node expired at Headscale",
        told(site, "TailnetReady", "False/")?,
    ));
    site.wait_probes(NAMESPACE, POD, PROBES)?;
    ensure!(site.is_ready()?, "the Pod is not ready");
    for (what, words) in said {
        row(what, "ready", &words);
    }
    rest.disable_expiry(&node.id)?;
    set_forwarding(site, true)?;
    set_config(site, good, "good")?;
    for (kind, expected) in [
        ("DNSReady", "True/Serving:"),
        ("TailnetReady", "True/Running"),
        ("KernelReady", "True/"),
    ] {
        site.wait_condition(kind, expected)?;
    }
    Ok(())
}

fn told(site: &Site, kind: &str, expected: &str) -> Result<String> {
    Ok(format!(
        "status, {kind}={}",
        site.wait_condition(kind, expected)?
    ))
}

fn upstream_down(site: &Site, good: &str) -> Result<String> {
    let config = with_extra_zone(good);
    ensure!(config != good, "the config has another form: {good}");
    set_config(site, &config, "upstream")?;
    site.wait("the upstream to be told as down", || {
        // The question is what finds it out.
        site.node
            .machine()
            .dns(&site.dns_ip, "www.corp.example", "A")
            .ok();
        let upstream = site.status()?["extraZones"][0]["upstreams"][0].clone();
        ensure!(upstream["healthy"] == false, "{upstream}");
        Ok(Some(format!("status, extraZones: {upstream}")))
    })
}

fn with_extra_zone(config: &str) -> String {
    let extra =
        "  extraZones:\n    - { zone: corp.example, upstreams: [\"198.51.100.53\"] }\n  ttl: 30\n";
    config.replacen("  ttl: 30\n", extra, 1)
}

fn misspelt(config: &str) -> String {
    config.replace("negativeTTL", "negativTTL")
}

fn config_wrong(site: &Site, good: &str) -> Result<String> {
    set_config(site, &misspelt(&with_extra_zone(good)), "wrong")?;
    let said = told(site, "DNSReady", "True/ServingLastGood")?;
    ensure!(said.contains("negativTTL"), "{said}");
    Ok(said)
}

/// As on a node whose own forwarding was off when the Pod was made.
fn forwarding_off(site: &Site) -> Result<String> {
    set_forwarding(site, false)?;
    let said = told(site, "KernelReady", "False/")?;
    ensure!(said.contains("ip_forward"), "{said}");
    Ok(said)
}

fn set_forwarding(site: &Site, on: bool) -> Result<()> {
    let pid = site.process(&["/tsunaro-agent", "run"])?;
    let script = format!("echo {} > /proc/sys/net/ipv4/ip_forward", u8::from(on));
    let network = format!("--net=/proc/{pid}/ns/net");
    let write = ["nsenter", &network, "sh", "-c", &script];
    site.node.machine().run(write)?.ok()?;
    Ok(())
}

fn hosts_absent(site: &Site) -> Result<()> {
    let hosts = site
        .node
        .get(&["-n", NAMESPACE, "configmap", "tailnet-hosts"])?;
    site.kubectl(&["-n", NAMESPACE, "delete", "configmap", "tailnet-hosts"])?;
    site.replace_pod_at_once()?;
    let said = site.wait_condition("DNSReady", "False/HostsUnread")?;
    let (code, body) = site.http("readyz")?;
    ensure!(code == 503, "/readyz is {code}");
    site.wait_probes(NAMESPACE, POD, PROBES)?;
    ensure!(!site.is_ready()?, "the Pod is ready without its hosts file");
    row(
        "hosts named but absent, at start",
        "not ready",
        &format!("status, DNSReady={said}"),
    );
    row("", "", &format!("/readyz: {body}"));
    let hosts = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "tailnet-hosts", "namespace": NAMESPACE },
        "data": hosts["data"],
    });
    site.node.apply(&hosts.to_string())?;
    annotate(site, "hosts")?;
    site.node.wait_pod_ready(NAMESPACE, POD, POD_READY)?;
    let pod = site.node.pod(NAMESPACE, POD)?;
    ensure!(
        pod["status"]["containerStatuses"][0]["restartCount"] == 0,
        "a restart was needed"
    );
    Ok(())
}

/// The message of the agent's last end, as `kubectl describe pod` shows it.
fn last_words(site: &Site) -> Result<String> {
    site.wait("the agent to end", || {
        let pod = site.node.pod(NAMESPACE, POD)?;
        let status = &pod["status"]["containerStatuses"][0];
        let ended = ["lastState", "state"]
            .iter()
            .find_map(|state| status[state]["terminated"]["message"].as_str());
        let words = ended.with_context(|| format!("no message: {status}"))?;
        ensure!(status["ready"] == false, "ready");
        Ok(Some(words.to_owned()))
    })
}

fn config_wrong_at_start(site: &Site, good: &str) -> Result<()> {
    site.patch_config("gateway.yaml", &misspelt(good))?;
    site.replace_pod_at_once()?;
    let said = last_words(site)?;
    ensure!(
        said.contains("negativTTL") && said.contains("gateway.yaml:"),
        "{said}"
    );
    ensure!(!site.is_ready()?, "the Pod is ready");
    row(
        "config wrong, at start",
        "not ready",
        &format!("last state of the agent: {said}"),
    );
    site.patch_config("gateway.yaml", good)
}

fn patch_stateful_set(site: &Site, patch: &Value) -> Result<()> {
    let patch = format!("--patch={patch}");
    site.kubectl(&[
        "-n",
        NAMESPACE,
        "patch",
        "statefulset",
        NAME,
        "--type=json",
        &patch,
    ])?;
    Ok(())
}

/// By another resolver in the same Pod.
fn port_taken(site: &Site) -> Result<()> {
    let at = "/spec/template/spec/initContainers/0";
    let squatter = json!({ "name": "squatter", "image": COREDNS_IMAGE, "restartPolicy": "Always" });
    patch_stateful_set(
        site,
        &json!([{ "op": "add", "path": at, "value": squatter }]),
    )?;
    site.replace_pod_at_once()?;
    let said = last_words(site)?;
    ensure!(
        said.contains("cannot listen on") && said.contains(":53"),
        "{said}"
    );
    ensure!(!site.is_ready()?, "the Pod is ready");
    row(
        ":53 taken, at start",
        "not ready",
        &format!("last state of the agent: {said}"),
    );
    patch_stateful_set(site, &json!([{ "op": "remove", "path": at }]))
}

/// As on a node without the module `tun`.
fn no_tun(site: &Site) -> Result<()> {
    site.node
        .run_inside(["mount", "-t", "tmpfs", "tmpfs", "/dev/net"])?
        .ok()?;
    site.replace_pod_at_once()?;
    let said = site.wait("the event that says why", || {
        let events = site.node.get(&["-n", NAMESPACE, "events"])?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let message = events
            .iter()
            .filter_map(|event| event["message"].as_str())
            .find(|message| message.contains("/dev/net/tun"));
        Ok(message.map(str::to_owned))
    })?;
    ensure!(!site.is_ready()?, "the Pod is ready without /dev/net/tun");
    row(
        "no /dev/net/tun on the node",
        "not started",
        &format!("event of the Pod: {said}"),
    );
    site.node.run_inside(["umount", "/dev/net"])?.ok()?;
    site.node.wait_pod_ready(NAMESPACE, POD, MOUNTED)
}
