//! From both sides: the cluster, and the tailnet.

use std::time::Instant;

use anyhow::{Result, ensure};
use tsunaro_integration::lab::{EGRESS_TARGET, LAN, LAN_HOST, LB_ADDRESS, LB_RANGE};
use tsunaro_integration::say;

use super::site::{NAME, NAMESPACE, POD, Site, ZONE};
use super::{config, hardening};
use crate::{Named, POD_READY, Shared};

pub(crate) const TESTS: &[Named] = &[(
    "by_hand::contract::a_gateway_by_hand_serves_the_cluster_and_the_tailnet_and_its_pod_is_hardened",
    a_gateway_by_hand_serves_both_sides_and_is_hardened,
)];

/// Of a gateway that has run.
pub(crate) const AGAIN: &[Named] = &[(
    "by_hand::contract::the_used_key_is_not_needed_again_and_the_state_outlives_the_objects",
    the_used_key_is_not_needed_again_and_the_state_outlives_the_objects,
)];

/// The peer's own resolver in tailscaled.
const MAGIC_DNS: &str = "100.100.100.100";

/// tailscaled's UDP port.
const WIREGUARD: u16 = 41641;

fn a_gateway_by_hand_serves_both_sides_and_is_hardened(shared: &Shared) -> Result<()> {
    let site = shared.site()?;
    let started = Instant::now();
    shared.install()?;
    let since = |what: &str| {
        say(&format!(
            "{what}: {:.1} s after the install began",
            started.elapsed().as_secs_f64()
        ));
    };
    site.node.wait_pod_ready(NAMESPACE, POD, POD_READY)?;
    since("Pod ready");
    all_routes_are_approved(site)?;
    since("all routes approved");
    the_cluster_resolves(site)?;
    the_peer_resolves_and_reaches_the_lan(site)?;
    since("the peer reaches the LAN");
    for (kind, expected) in [
        ("DNSReady", "True/Serving"),
        ("TailnetReady", "True/Running"),
        ("RoutesAdvertised", "True/Advertised"),
        ("KernelReady", "True/ChecksPassed"),
        ("SplitDNS", "True/Distributed"),
    ] {
        site.wait_condition(kind, expected)?;
    }
    the_status_command_works_in_the_pod(site)?;
    site.wait_healthy()?;
    // What kubelet does unasked takes a minute and more: it goes on beside what comes next.
    shared.keep(config::Change::begin(site, config::Refresh::Unasked)?);
    hardening::all(site)?;
    the_network_policy_fits_the_schema(site)
}

/// As docs/install-by-hand.md says: the key Secret is emptied, the nine objects are deleted and
/// applied again, and it is the same node.
fn the_used_key_is_not_needed_again_and_the_state_outlives_the_objects(
    shared: &Shared,
) -> Result<()> {
    let site = shared.gateway()?;
    let node = site.hs_node()?;
    let patch = r#"-p=[{"op":"remove","path":"/data/authkey"}]"#;
    let key = format!("{NAME}-authkey");
    let remove = [
        "-n",
        NAMESPACE,
        "patch",
        "secret",
        &key,
        "--type=json",
        patch,
    ];
    site.kubectl(&remove)?;
    let manifests = site.manifests()?;
    let file = manifests.path().join("3-gateway.yaml");
    let file = file.display().to_string();
    site.kubectl(&["delete", "-f", &file, "--timeout=45s"])?;
    let pod = format!("pod/{POD}");
    site.kubectl(&[
        "-n",
        NAMESPACE,
        "wait",
        "--for=delete",
        &pod,
        "--timeout=50s",
    ])?;
    site.kubectl(&["apply", "--server-side", "-f", &file])?;
    site.node.set_loadbalancer_ip(NAMESPACE, NAME, LB_ADDRESS)?;
    site.wait_healthy()?;
    let again = site.hs_node()?;
    ensure!(again.id == node.id, "{again:?} is not {node:?}");
    Ok(())
}

fn all_routes_are_approved(site: &Site) -> Result<()> {
    let mut wanted = [
        LAN.to_owned(),
        LB_RANGE.to_owned(),
        format!("{EGRESS_TARGET}/32"),
    ];
    wanted.sort();
    site.wait("the routes to be approved", || {
        let mut node = site.hs_node()?;
        node.available_routes.sort();
        node.approved_routes.sort();
        node.subnet_routes.sort();
        ensure!(node.name == NAME && node.tags == ["tag:fabric"], "{node:?}");
        ensure!(
            node.available_routes == wanted
                && node.approved_routes == wanted
                && node.subnet_routes == wanted,
            "{node:?}"
        );
        Ok(Some(()))
    })
}

/// By the cluster's CoreDNS: a static alias to a name of the hosts file, a static address, the
/// wildcard, and a name that is a mistake.
fn the_cluster_resolves(site: &Site) -> Result<()> {
    for (name, address) in [
        ("api", "198.51.100.20"),
        ("router", LAN_HOST),
        ("billing-db", EGRESS_TARGET),
        ("anything", "198.51.100.80"),
    ] {
        let name = format!("{name}.{ZONE}");
        site.wait(&format!("{name} in the cluster"), || {
            let answer = site
                .node
                .exec("billing", "app", "app", &["nslookup", "-type=a", &name])?
                .ok()?;
            ensure!(
                answer.contains(&format!("Address: {address}\n")),
                "{answer}"
            );
            Ok(Some(()))
        })?;
    }
    Ok(())
}

/// By the load balancer's address through the gateway to its own Pod, over UDP and TCP; and as
/// Headscale told the peer, by split DNS.
fn the_peer_resolves_and_reaches_the_lan(site: &Site) -> Result<()> {
    let peer = site.lab.peer();
    let router = format!("router.{ZONE}");
    for server in [LB_ADDRESS, MAGIC_DNS] {
        site.wait(&format!("{router} at {server} from the peer"), || {
            let (code, records) = peer.dns(server, &router, "A")?;
            ensure!(
                code == "NOERROR" && records == [format!("A {LAN_HOST}")],
                "{code} {records:?}"
            );
            Ok(Some(()))
        })?;
    }
    let at = format!("@{LB_ADDRESS}");
    let tcp = peer.run([
        "kdig", &at, &router, "A", "+tcp", "+short", "+retry=0", "+time=3",
    ])?;
    ensure!(tcp.ok()?.trim() == LAN_HOST, "not over TCP");
    for target in [LAN_HOST, EGRESS_TARGET] {
        site.wait(&format!("a ping to {target}"), || {
            peer.ping_once(target).map(Some)
        })?;
    }
    // Through the gateway, and no other way.
    let route = peer.sh(&format!("ip route get {LAN_HOST}"))?;
    ensure!(route.contains("dev tailscale0"), "{route}");
    Ok(())
}

/// As docs/install-by-hand.md says it.
fn the_status_command_works_in_the_pod(site: &Site) -> Result<()> {
    let output = site
        .node
        .exec(NAMESPACE, POD, "agent", &["/tsunaro-agent", "status"])?;
    let said = output.ok()?;
    ensure!(
        said.contains("RoutesAdvertised") && said.contains(LAN),
        "{said}"
    );
    Ok(())
}

/// The API server takes it, with every field known. Bridge and kube-proxy of this node do not
/// enforce it, so that nothing here shows what it lets through.
fn the_network_policy_fits_the_schema(site: &Site) -> Result<()> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../deploy/manifests/4-networkpolicy.yaml"
    );
    site.kubectl(&["apply", "--server-side", "--validate=strict", "-f", file])?;
    let policy = site.node.get(&["-n", NAMESPACE, "networkpolicy", NAME])?;
    let ports = policy["spec"]["ingress"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|rule| rule["ports"].as_array().into_iter().flatten())
        .map(|port| {
            format!(
                "{}/{}",
                port["protocol"].as_str().unwrap_or_default(),
                port["port"]
            )
        });
    let mut ports: Vec<String> = ports.collect();
    ports.sort();
    ensure!(
        ports == ["TCP/53", "TCP/9181", "UDP/41641", "UDP/53"],
        "{ports:?}"
    );
    let tailscaled = site.process(&["tailscaled"])?;
    let sockets = std::fs::read_to_string(format!("/proc/{tailscaled}/net/udp"))?;
    ensure!(
        sockets.contains(&format!(":{WIREGUARD:04X} ")),
        "WireGuard is at another port: {sockets}"
    );
    let selected = policy["spec"]["podSelector"]["matchLabels"].clone();
    let pod = site.node.pod(NAMESPACE, POD)?;
    for (label, value) in selected.as_object().into_iter().flatten() {
        ensure!(
            pod["metadata"]["labels"][label] == *value,
            "{label}: {value}"
        );
    }
    // Misspelt, it would be refused: the check above checks something.
    let wrong = std::fs::read_to_string(file)?.replace("podSelector:", "podSelecter:");
    let wrong_file = tempfile::NamedTempFile::new()?;
    std::fs::write(wrong_file.path(), wrong)?;
    let path = wrong_file.path().display().to_string();
    let refused =
        site.node
            .kubectl(&["apply", "--server-side", "--validate=strict", "-f", &path])?;
    ensure!(
        !refused.success() && refused.stderr.contains("podSelecter"),
        "{}",
        refused.stderr
    );
    Ok(())
}
