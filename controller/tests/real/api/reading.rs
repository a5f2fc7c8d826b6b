//! What `kubectl` shows a person, as snapshots: they were read before they were accepted.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_model::gateway::{Object, parse};

use crate::Named;
use crate::cluster::{Cluster, in_repository};

pub(crate) const TESTS: &[Named] = &[
    ("kubectl_explains_every_field_of_a_gateway", explain),
    (
        "kubectl_lists_gateways_for_people_who_look_for_trouble",
        list,
    ),
];

fn explain(cluster: &Cluster) -> Result<()> {
    let spec = "tailnetgateway.spec";
    let whole = cluster.kubectl(&["explain", spec, "--recursive"])?;
    insta::assert_snapshot!("explain_gateway_recursive", whole);
    for path in [
        "tailnetgateway",
        spec,
        "tailnetgateway.spec.service",
        "tailnetgateway.spec.dns",
        "tailnetgateway.spec.dns.staticRecords",
        "tailnetgateway.spec.identity",
        "tailnetgateway.status",
        "tailnetgateway.status.routes",
        "tailnet.spec",
        "tailnet.spec.headscale",
        "tailnet.spec.policy",
        "tailnetegress.spec",
        "tailnetingress.spec",
        "tailnetsite.spec",
    ] {
        let text = cluster.kubectl(&["explain", path])?;
        insta::assert_snapshot!(format!("explain_{path}"), text);
    }
    Ok(())
}

fn list(cluster: &Cluster) -> Result<()> {
    let example = in_repository("docs/examples/prod-1/kubernetes");
    cluster.kubectl(&["create", "namespace", "billing"])?;
    cluster.kubectl(&["create", "namespace", "platform"])?;
    cluster.kubectl(&["apply", "--filename", &example])?;
    let select = "--field-selector=metadata.name=prod-1-gw";
    let narrow = ["get", "tgw", select];
    let wide = ["get", "tgw", select, "--output=wide"];
    insta::assert_snapshot!(
        "get_before_the_controller",
        aged(&cluster.kubectl(&narrow)?)?
    );
    let patch = json!({ "status": status() }).to_string();
    let patch = format!("--patch={patch}");
    cluster.kubectl(&[
        "patch",
        "tgw",
        "prod-1-gw",
        "--subresource=status",
        "--type=merge",
        &patch,
    ])?;
    insta::assert_snapshot!("get", aged(&cluster.kubectl(&narrow)?)?);
    insta::assert_snapshot!("get_wide", aged(&cluster.kubectl(&wide)?)?);
    let all = cluster.kubectl(&["get", "tailnets,tnsite,tneg,tning", "--all-namespaces"])?;
    insta::assert_snapshot!("get_the_others", each_aged(&all)?);

    // What people give to `check --live`: with all that the API server adds.
    let live = cluster.kubectl(&["get", "tgw", select, "--output=yaml"])?;
    let parsed = parse(&live);
    ensure!(
        parsed.findings.iter().all(|finding| !finding.is_error()),
        "{:?}",
        parsed.findings
    );
    let pinned = parsed
        .objects
        .iter()
        .any(|located| matches!(&located.object, Object::Gateway(gateway) if gateway.pinned));
    ensure!(pinned, "{live}");

    // As the contract's readers ask.
    let jsonpath = r#"--output=jsonpath={.status.nodeId} {.status.ipv4} {.status.serviceIP}{"\n"}{range .status.conditions[*]}{.type}={.status}/{.reason}{"\n"}{end}"#;
    let said = cluster.kubectl(&["get", "tailnetgateway", "prod-1-gw", jsonpath])?;
    ensure!(
        said == "42 100.64.0.17 198.51.100.17\nReady=True/FreshRuntimeReady\nRoutesInSync=True/Approved\nWorkloadCurrent=True/PodCurrent\nServiceReady=True/LoadBalancerAssigned\n",
        "{said}"
    );
    let ready = [
        "wait",
        "tgw/prod-1-gw",
        "--for=condition=Ready",
        "--timeout=5s",
    ];
    cluster.kubectl(&ready)?;
    Ok(())
}

fn status() -> Value {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let route = |prefix: &str, serving: bool| {
        json!({
            "prefix": prefix,
            "wanted": true,
            "advertised": true,
            "approved": true,
            "serving": serving,
            "servedBy": if serving { "prod-1-gw" } else { "prod-1-old" },
        })
    };
    json!({
        "observedGeneration": 1,
        "pinned": true,
        "nodeId": "42",
        "ipv4": "100.64.0.17",
        "serviceIP": "198.51.100.17",
        "routesServing": "2/3",
        "routes": [
            route("10.0.10.20/32", true),
            route("192.0.2.0/24", true),
            route("198.51.100.0/24", false),
        ],
        "conditions": [
            condition("Ready", "FreshRuntimeReady", "The node is online and advertises 3 routes"),
            condition("RoutesInSync", "Approved", "All 3 routes are approved"),
            condition("WorkloadCurrent", "PodCurrent", "The Pod runs the current template"),
            condition("ServiceReady", "LoadBalancerAssigned", "198.51.100.17 is assigned"),
        ],
    })
}

/// A table whose objects are as old as in every run: AGE is written over.
fn aged(table: &str) -> Result<String> {
    let header = table.lines().next().context("a table has a header")?;
    let at = header.find("AGE").context("a table has an AGE")?;
    let mut text = String::new();
    for line in table.lines() {
        let (before, after) = line.split_at_checked(at).unwrap_or((line, ""));
        let age = after.split(' ').next().unwrap_or_default();
        let shown = if age == "AGE" { "AGE" } else { "1m" };
        let rest = after.get(age.len()..).unwrap_or_default();
        let rest = rest.trim_start();
        let gap = if rest.is_empty() { "" } else { "   " };
        text.push_str(format!("{before}{shown:<3}{gap}{rest}").trim_end());
        text.push('\n');
    }
    Ok(text)
}

/// The same for several tables with blank lines between them.
fn each_aged(tables: &str) -> Result<String> {
    let tables: Vec<String> = tables.split("\n\n").map(aged).collect::<Result<_>>()?;
    Ok(tables.join("\n"))
}
