//! From apply to Ready: in order, in seconds, and as each line of the contract's checks shows it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tsunaro_integration::lab::{EGRESS_TARGET, LAN, LAN_HOST, LB_ADDRESS, LB_RANGE};
use tsunaro_integration::say;

use super::{Installed, SELECTOR, WELL, condition_of};
use crate::site::{NAME, NAMESPACE, POD, ZONE};

/// Five times the goal.
const LIMIT: f64 = 75.0;

/// What is made, in this order.
const OBJECTS: [(&str, &str); 13] = [
    ("create_state", "Secret prod-1-gw-state"),
    ("mint_key", "Secret prod-1-gw-authkey"),
    ("apply", "ServiceAccount prod-1-gw"),
    ("apply", "Role prod-1-gw"),
    ("apply", "RoleBinding prod-1-gw"),
    ("apply", "PodDisruptionBudget prod-1-gw"),
    ("apply", "Service prod-1-gw"),
    ("apply", "Service prod-1-gw-dns"),
    ("apply", "Service prod-1-gw-headless"),
    ("apply", "ConfigMap prod-1-gw-agent"),
    ("apply", "StatefulSet prod-1-gw"),
    ("write_receipt", "ConfigMap prod-1-gw-fresh"),
    ("empty_key", "Secret prod-1-gw-authkey"),
];

#[test]
fn the_worked_example_is_ready_in_seconds_and_every_check_of_the_contract_shows_it() -> Result<()> {
    let installed = Installed::start()?;
    let ready = created(&installed)?;
    in_order(&installed)?;
    one_key_used_and_gone(&installed)?;
    checks(&installed)?;
    words(&installed)?;
    ensure!(ready < LIMIT, "Ready after {ready:.1} s");
    Ok(())
}

/// Applies the example; prints and gives seconds until everything is well.
fn created(installed: &Installed) -> Result<f64> {
    let site = &installed.site;
    let started = Instant::now();
    installed.apply(|text| text)?;
    let mut seen: Vec<(&str, f64)> = Vec::new();
    let mut assigned = false;
    let all = [
        "pinned",
        "receipt",
        "Pod ready",
        "node at Headscale",
        "Ready=True",
        "RoutesInSync=True/Approved",
        "all conditions as promised",
        "a peer pings the LAN host",
    ];
    installed.wait("every phase", || {
        if !assigned {
            assigned = installed.assign().is_ok();
        }
        let gateway = installed.gateway()?;
        let is = |kind: &str, expected: &str| {
            condition_of(&gateway, kind).is_ok_and(|(is, _)| is.starts_with(expected))
        };
        for phase in all {
            if seen.iter().any(|(known, _)| *known == phase) {
                continue;
            }
            let there = match phase {
                "pinned" => gateway["status"]["pinned"] == true,
                "receipt" => site
                    .node
                    .get(&["-n", NAMESPACE, "configmap", "prod-1-gw-fresh"])
                    .is_ok(),
                "Pod ready" => site.is_ready().unwrap_or(false),
                "node at Headscale" => site.hs_node().is_ok(),
                "Ready=True" => is("Ready", "True"),
                "RoutesInSync=True/Approved" => is("RoutesInSync", "True/Approved"),
                "all conditions as promised" => WELL.iter().all(|(kind, what)| is(kind, what)),
                _ => site.lab.peer().ping_once(LAN_HOST).is_ok(),
            };
            if !there {
                // Each follows upon the one before.
                break;
            }
            seen.push((phase, started.elapsed().as_secs_f64()));
        }
        ensure!(seen.len() == all.len(), "{seen:?} of {all:?}");
        Ok(Some(()))
    })?;
    say("| phase | seconds after apply |");
    say("|---|---|");
    for (phase, seconds) in &seen {
        say(&format!("| {phase} | {seconds:.1} |"));
    }
    seen.iter()
        .find(|(phase, _)| *phase == "all conditions as promised")
        .map(|(_, seconds)| *seconds)
        .context("no such phase")
}

/// By the controller's own lines, and by the moments that the API server wrote down.
fn in_order(installed: &Installed) -> Result<()> {
    let lines = installed.log_lines()?;
    let done: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line["message"] == "Done" && line["gateway"] == NAME)
        .filter_map(|line| Some((line["step"].as_str()?, line["object"].as_str()?)))
        .filter(|done| OBJECTS.contains(done))
        .collect();
    ensure!(done == OBJECTS, "{done:?}");
    let mut before: Option<(String, &str)> = None;
    for (_, object) in OBJECTS.into_iter().take(12) {
        let (kind, name) = object.split_once(' ').context("kind and name")?;
        let live = installed.site.node.get(&["-n", NAMESPACE, kind, name])?;
        let at = live["metadata"]["creationTimestamp"]
            .as_str()
            .context("no time")?
            .to_owned();
        if let Some((earlier, what)) = &before {
            ensure!(*earlier <= at, "{what} {earlier} before {object} {at}");
        }
        before = Some((at, object));
    }
    let receipt = installed
        .site
        .node
        .get(&["-n", NAMESPACE, "configmap", "prod-1-gw-fresh"])?;
    ensure!(receipt["immutable"] == true, "{receipt}");
    ensure!(
        receipt["data"]["gatewayUID"] == installed.gateway()?["metadata"]["uid"],
        "{receipt}"
    );
    say(&format!("receipt: {}", receipt["data"]));
    Ok(())
}

fn one_key_used_and_gone(installed: &Installed) -> Result<()> {
    let site = &installed.site;
    installed.wait("the key to be taken out", || {
        let secret = site
            .node
            .get(&["-n", NAMESPACE, "secret", "prod-1-gw-authkey"])?;
        ensure!(
            secret["data"].is_null() || secret["data"]["authkey"].is_null(),
            "it is there"
        );
        Ok(Some(()))
    })?;
    let keys = site
        .lab
        .headscale()
        .rest()
        .call("GET", "preauthkey", None)?;
    let ours: Vec<&Value> = keys["preAuthKeys"]
        .as_array()
        .context("keys")?
        .iter()
        .filter(|key| key["aclTags"] == serde_json::json!(["tag:fabric"]))
        .collect();
    ensure!(ours.len() == 1 && ours[0]["used"] == true, "{ours:?}");
    Ok(())
}

/// The lines of the contract's section "Check", with what they print.
fn checks(installed: &Installed) -> Result<()> {
    let site = &installed.site;
    let shown = |command: &str, output: &str| {
        say(&format!("$ {command}"));
        for line in output.trim_end().lines() {
            say(&format!("  {line}"));
        }
    };
    let get = |args: &[&str]| -> Result<String> {
        let output = site.kubectl(args)?;
        shown(&format!("kubectl {}", args.join(" ")), &output);
        Ok(output)
    };
    let table = get(&["get", "tailnetgateway", NAME])?;
    let words = |line: usize| -> Vec<String> {
        let line = table.lines().nth(line).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    ensure!(
        words(0).starts_with(&["NAME", "HOSTNAME", "SUSPENDED", "READY"].map(str::to_owned)),
        "{table}"
    );
    ensure!(
        words(1).starts_with(&[NAME, NAME, "false", "True"].map(str::to_owned)),
        "{table}"
    );
    let path = r#"-o=jsonpath={.status.nodeId} {.status.ipv4} {.status.serviceIP}{"\n"}{range .status.conditions[*]}{.type}={.status}/{.reason}{"\n"}{end}"#;
    let said = get(&["get", "tailnetgateway", NAME, path])?;
    let node = site.hs_node()?;
    let address = node.ip_addresses.first().context("no address")?;
    ensure!(
        said.starts_with(&format!("{} {address} {LB_ADDRESS}\n", node.id)),
        "{said}"
    );
    for (kind, expected) in WELL {
        ensure!(said.contains(&format!("{kind}={expected}\n")), "{said}");
    }
    let list = site.lab.headscale().cli(&["nodes", "list-routes"])?;
    shown("headscale nodes list-routes", &list);
    let mut wanted = [
        LAN.to_owned(),
        LB_RANGE.to_owned(),
        format!("{EGRESS_TARGET}/32"),
    ];
    wanted.sort();
    let mut node = node;
    for routes in [
        &mut node.available_routes,
        &mut node.approved_routes,
        &mut node.subnet_routes,
    ] {
        routes.sort();
        ensure!(*routes == wanted, "{routes:?}");
    }
    policy_has_the_lines(installed, &wanted)?;
    let name = format!("api.{ZONE}");
    let lookup = ["nslookup", "-type=a", &name];
    let answer = site.node.exec("billing", "app", "app", &lookup)?.ok()?;
    shown(
        &format!("kubectl -n billing exec app -- {}", lookup.join(" ")),
        &answer,
    );
    ensure!(answer.contains("198.51.100.20"), "{answer}");
    let name = format!("router.{ZONE}");
    installed.wait("the peer's split DNS", || {
        let (code, records) = site.lab.peer().dns("100.100.100.100", &name, "A")?;
        ensure!(records == [format!("A {LAN_HOST}")], "{code} {records:?}");
        shown(
            &format!("peer: dig +short {name}"),
            &records.join("\n").replace("A ", ""),
        );
        Ok(Some(()))
    })?;
    let route = site
        .lab
        .peer()
        .sh(&format!("ip route get {LAN_HOST}; ping -c 2 {LAN_HOST}"))?;
    shown("peer: ping router", &route);
    ensure!(route.contains("dev tailscale0"), "{route}");
    let ready = installed.wait("the site to be Ready", || {
        let table = site.kubectl(&["get", "tailnetsite", "prod-1-lan"])?;
        let header = table.lines().next().unwrap_or_default();
        ensure!(header.contains("READY"), "{table}");
        let row = table.lines().nth(1).unwrap_or_default();
        ensure!(
            row.split_whitespace().any(|word| word == "Ready"),
            "{table}"
        );
        Ok(Some(table))
    })?;
    shown("kubectl get tailnetsite prod-1-lan", &ready);
    get(&["get", "tailnet,tailnetgateway,tailnetsite", "-o", "wide"])?;
    Ok(())
}

/// What the controller wrote, besides what was there.
fn policy_has_the_lines(installed: &Installed, wanted: &[String]) -> Result<()> {
    let policy = installed.site.lab.headscale().rest().policy()?;
    let policy: Value = serde_json::from_str(&policy)?;
    let owners = policy["tagOwners"].as_object().context("tagOwners")?;
    ensure!(
        owners.contains_key("tag:peer") && owners.contains_key("tag:fabric"),
        "{policy}"
    );
    ensure!(policy["acls"].is_array(), "{policy}");
    let routes = policy["autoApprovers"]["routes"]
        .as_object()
        .context("routes")?;
    let mut prefixes: Vec<&String> = routes.keys().collect();
    prefixes.sort();
    ensure!(prefixes.iter().copied().eq(wanted), "{routes:?}");
    ensure!(
        routes
            .values()
            .all(|tags| *tags == serde_json::json!(["tag:fabric"])),
        "{routes:?}"
    );
    Ok(())
}

/// All that a person reads: printed, for eyes.
fn words(installed: &Installed) -> Result<()> {
    let site = &installed.site;
    let selector = format!("--selector={SELECTOR}");
    for args in [
        &["describe", "tailnetgateway", NAME][..],
        &["describe", "tailnet", "corp"],
        &["describe", "tailnetsite", "prod-1-lan"],
        &["-n", NAMESPACE, "logs", "--tail=-1", &selector],
        &["-n", NAMESPACE, "logs", POD, "-c", "agent"],
    ] {
        say(&format!("$ kubectl {}", args.join(" ")));
        for line in site.kubectl(args)?.lines() {
            say(&format!("  {line}"));
        }
    }
    let warnings = installed
        .log_lines()?
        .iter()
        .filter(|line| line["level"] != "INFO")
        .map(Value::to_string)
        .collect::<Vec<_>>();
    ensure!(
        warnings.iter().all(|line| line.contains("Cannot watch")),
        "warnings in a creation without faults: {warnings:#?}"
    );
    Ok(())
}
