//! Faults, one after the other on one node, and the table of what they cost.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use tsunaro_integration::kube::Part;
use tsunaro_integration::lab::Signal;
use tsunaro_integration::say;

use super::site::{NAME, NAMESPACE, POD, Site};
use super::watch::{Row, during, pass, print_table};
use crate::{Named, POD_READY, Shared};

pub(crate) const TESTS: &[Named] = &[(
    "by_hand::faults::cluster_dns_loses_nothing_while_the_agent_runs_whatever_else_fails",
    cluster_dns_loses_nothing_while_the_agent_runs,
)];

/// With this set to 1 the outages last as many minutes as operators are told of; else each of them
/// is short.
const FULL: &str = "TSUNARO_FULL_OUTAGES";
/// Longer than the probes of kubelet take to make a Pod unready: three of them, 2 s apart.
const SHORT: Duration = Duration::from_secs(7);

/// DNS loses nothing while the agent runs.
const NOTHING: Duration = Duration::ZERO;
/// A kubelet that starts tells its Pods as not ready until it has probed them. The gateway's Services
/// publish its Pod all the same; that of the cluster's CoreDNS, as everywhere, does not.
const KUBELET: Duration = Duration::from_secs(10);
/// From the agent's end to the next one: kubelet's own pace, with much room.
const AGENT_AWAY: Duration = Duration::from_secs(30);

/// An outage of so many minutes, and its name.
fn minutes(number: u64) -> (Duration, String) {
    match std::env::var(FULL).as_deref() {
        Ok("1") => (Duration::from_secs(number * 60), format!("{number} min")),
        _ => (SHORT, format!("{} s", SHORT.as_secs())),
    }
}

fn cluster_dns_loses_nothing_while_the_agent_runs(shared: &Shared) -> Result<()> {
    let site = shared.gateway()?;
    let rows = [
        three_kills_of_tailscaled(site)?.expect(NOTHING)?,
        kubelet_restarted(site)?.expect_each(KUBELET, NOTHING)?,
        tailscaled_restarts_without_api_server(site)?.expect(NOTHING)?,
        api_server_down(site)?.expect(NOTHING)?,
        headscale_down(site)?.expect(NOTHING)?,
        node_expired(site)?.expect(NOTHING)?,
        fresh_state_while_headscale_is_down(site)?.expect(NOTHING)?,
        agent_killed(site)?.expect(AGENT_AWAY)?,
        pod_deleted(site)?.expect(AGENT_AWAY)?,
    ];
    print_table(&rows);
    Ok(())
}

fn kill(pid: u32, signal: Signal) -> Result<()> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid)?);
    Ok(nix::sys::signal::kill(pid, signal)?)
}

fn three_kills_of_tailscaled(site: &Site) -> Result<Row> {
    during(site, "tailscaled killed three times in a row", |site| {
        let before = restarts(site)?;
        for _ in 0..3 {
            let old = site.process(&["tailscaled"])?;
            kill(old, Signal::SIGKILL)?;
            site.wait("another tailscaled", || {
                Ok((site.process(&["tailscaled"])? != old).then_some(()))
            })?;
        }
        ensure!(site.is_ready()?, "the Pod is not ready");
        ensure!(restarts(site)? == before, "a container restarted");
        Ok(())
    })
}

/// How often each container was restarted by kubelet: install, tailscale, agent.
fn restarts(site: &Site) -> Result<Vec<u64>> {
    let pod = site.node.pod(NAMESPACE, POD)?;
    let lists = ["initContainerStatuses", "containerStatuses"];
    let lists = lists.map(|list| pod["status"][list].as_array().cloned().unwrap_or_default());
    let count = |status: &Value| status["restartCount"].as_u64().unwrap_or(u64::MAX);
    Ok(lists.iter().flatten().map(count).collect())
}

fn agent_killed(site: &Site) -> Result<Row> {
    during(site, "agent killed", |site| {
        let old = site.process(&["/tsunaro-agent", "run"])?;
        kill(old, Signal::SIGKILL)?;
        site.wait("another agent", || {
            Ok((site.process(&["/tsunaro-agent", "run"])? != old).then_some(()))
        })
    })
}

fn pod_deleted(site: &Site) -> Result<Row> {
    during(site, "Pod deleted", |site| {
        site.replace_pod()?;
        site.node.wait_pod_ready(NAMESPACE, POD, POD_READY)
    })
}

fn kubelet_restarted(site: &Site) -> Result<Row> {
    during(site, "kubelet restarted", |site| {
        site.node.restart_part(Part::Kubelet)?;
        // It counts from nothing: its first probes, and what they told the Services.
        site.wait_probes(NAMESPACE, POD, 2)?;
        site.wait_probes("kube-system", "coredns-", 2)
    })
}

/// The API server, and with it those that hold a lease there in a real cluster: without it for ten
/// seconds they exit, and begin anew later. A controller-manager that went on would take what it did
/// not hear for the silence of the node.
fn stop_control_plane(site: &Site) -> Result<()> {
    for part in [Part::ApiServer, Part::ControllerManager, Part::Scheduler] {
        site.node.stop_part(part, Signal::SIGKILL)?;
    }
    Ok(())
}

fn start_control_plane(site: &Site) -> Result<()> {
    site.node.start_part(Part::ApiServer)?;
    site.node.wait_api()?;
    site.node.start_part(Part::ControllerManager)?;
    site.node.start_part(Part::Scheduler)
}

/// tailscaled then opens no state store, and would stay useless for ever.
fn tailscaled_restarts_without_api_server(site: &Site) -> Result<Row> {
    let (time, shown) = minutes(2);
    let what = format!("tailscaled killed while the API server is down for {shown}");
    let (before, restarts_before) = (stuck(site)?, restarts(site)?);
    let row = during(site, &what, |site| {
        stop_control_plane(site)?;
        let old = site.process(&["tailscaled"])?;
        kill(old, Signal::SIGKILL)?;
        site.wait("a stuck tailscaled to be restarted", || {
            Ok((stuck(site)? > before).then_some(()))
        })?;
        pass(time);
        start_control_plane(site)?;
        let healed = std::time::Instant::now();
        site.wait_condition("TailnetReady", "True/Running")?;
        say(&format!(
            "tailscaled runs again {:.1} s after the API server does",
            healed.elapsed().as_secs_f64()
        ));
        Ok(())
    })?;
    ensure!(restarts(site)? == restarts_before, "a container restarted");
    let node = site.hs_node()?;
    ensure!(node.name == NAME, "another login was needed: {node:?}");
    Ok(row)
}

/// How often the supervisor has said so; from the node's own files, for the API server may be away.
fn stuck(site: &Site) -> Result<usize> {
    let logs = format!("cat /var/log/pods/{NAMESPACE}_{POD}_*/tailscale/*.log");
    let log = site.node.run_inside(["sh", "-c", &logs])?.ok()?;
    Ok(log.matches("is stuck without its state store").count())
}

fn api_server_down(site: &Site) -> Result<Row> {
    let (time, shown) = minutes(2);
    during(site, &format!("API server down for {shown}"), |site| {
        stop_control_plane(site)?;
        pass(time);
        let lease = || -> Result<Value> {
            let lease = ["--namespace=kube-node-lease", "lease", "node"];
            Ok(site.node.get(&lease)?["spec"]["renewTime"].clone())
        };
        start_control_plane(site)?;
        // What Kubernetes thinks of a node whose lease it could not read for so long.
        let old = lease()?;
        site.wait("another lease of the node", || {
            Ok((lease()? != old).then_some(()))
        })?;
        site.node.wait_node_ready(Duration::from_secs(60))
    })
}

fn headscale_down(site: &Site) -> Result<Row> {
    let (time, shown) = minutes(2);
    during(site, &format!("Headscale down for {shown}"), |site| {
        site.lab.headscale().stop(Signal::SIGTERM)?;
        pass(time);
        ensure!(site.is_ready()?, "the Pod is not ready");
        site.lab.headscale().start()
    })
}

fn node_expired(site: &Site) -> Result<Row> {
    let (time, shown) = minutes(10);
    let node = site.hs_node()?;
    during(site, &format!("node expired for {shown}"), |site| {
        site.lab.headscale().rest().expire(&node.id)?;
        site.wait_condition("TailnetReady", "False/")?;
        pass(time);
        ensure!(site.is_ready()?, "the Pod is not ready");
        let said = site.condition("TailnetReady")?;
        say(&format!("expired: TailnetReady={said}"));
        site.lab.headscale().rest().disable_expiry(&node.id)
    })
}

/// Watched from the moment that the new Pod is ready.
fn fresh_state_while_headscale_is_down(site: &Site) -> Result<Row> {
    let (time, shown) = minutes(2);
    let key = site.fresh_key()?;
    let scale =
        |replicas: &str| site.kubectl(&["-n", NAMESPACE, "scale", "statefulset", NAME, replicas]);
    let pod = format!("pod/{POD}");
    scale("--replicas=0")?;
    // No one looks at how it leaves.
    site.kubectl(&[
        "-n",
        NAMESPACE,
        "delete",
        &pod,
        "--grace-period=1",
        "--wait=false",
        "--ignore-not-found",
    ])?;
    site.kubectl(&[
        "-n",
        NAMESPACE,
        "wait",
        "--for=delete",
        &pod,
        "--timeout=60s",
    ])?;
    site.lab.headscale().rest().delete(&site.hs_node()?.id)?;
    let replace = |secret: &str, patch: &str| {
        let patch = format!("--patch={patch}");
        site.kubectl(&[
            "-n",
            NAMESPACE,
            "patch",
            "secret",
            secret,
            "--type=json",
            &patch,
        ])
    };
    replace(
        &format!("{NAME}-state"),
        r#"[{"op":"remove","path":"/data"}]"#,
    )?;
    let key_patch =
        serde_json::json!([{ "op": "add", "path": "/stringData", "value": { "authkey": key } }]);
    replace(&format!("{NAME}-authkey"), &key_patch.to_string())?;
    site.lab.headscale().stop(Signal::SIGTERM)?;
    scale("--replicas=1")?;
    site.node.wait_pod_ready(NAMESPACE, POD, POD_READY)?;
    site.wait("DNS in the cluster", || site.cluster_answers().map(Some))?;
    let what = format!("Pod with fresh state and a key while Headscale is down for {shown}");
    let row = super::watch::from_there(site, &what, |site| {
        pass(time);
        ensure!(site.is_ready()?, "the Pod is not ready");
        say(&format!(
            "without a login: TailnetReady={}",
            site.condition("TailnetReady")?
        ));
        site.lab.headscale().start()?;
        let started = std::time::Instant::now();
        site.wait_condition("TailnetReady", "True/Running")?;
        say(&format!(
            "logged in {:.1} s after Headscale's return",
            started.elapsed().as_secs_f64()
        ));
        Ok(())
    })?;
    let node = site.hs_node()?;
    ensure!(node.name == NAME && node.given_name == NAME, "{node:?}");
    Ok(row)
}
