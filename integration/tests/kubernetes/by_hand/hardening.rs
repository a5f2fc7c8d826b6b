//! What the containers of the running Pod may do.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tsunaro_integration::say;

use super::site::{NAME, NAMESPACE, POD, Site};

const NET_ADMIN: u64 = 1 << 12;

pub(super) fn all(site: &Site) -> Result<()> {
    the_agent_has_no_privilege(site)?;
    tailscale_has_one_capability(site)?;
    the_agent_has_no_token_and_tailscale_a_narrow_one(site)?;
    the_agent_still_sets_routes(site)
}

/// What the kernel says of a process.
struct Privileges {
    uid: String,
    capabilities: u64,
    bounding: u64,
    seccomp: String,
    no_new_privileges: String,
}

fn privileges(pid: u32) -> Result<Privileges> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<String> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        Ok(line.with_context(|| format!("no {name}"))?.to_owned())
    };
    let hex = |name: &str| -> Result<u64> { Ok(u64::from_str_radix(&field(name)?, 16)?) };
    // Inheritable and ambient ones lie within the permitted.
    ensure!(
        hex("CapEff")? == hex("CapPrm")?,
        "permitted, but not in force"
    );
    Ok(Privileges {
        uid: field("Uid")?,
        capabilities: hex("CapPrm")?,
        bounding: hex("CapBnd")?,
        seccomp: field("Seccomp")?,
        no_new_privileges: field("NoNewPrivs")?,
    })
}

fn the_agent_has_no_privilege(site: &Site) -> Result<()> {
    let pid = site.process(&["/tsunaro-agent", "run"])?;
    let Privileges {
        uid,
        capabilities,
        bounding,
        seccomp,
        no_new_privileges,
    } = privileges(pid)?;
    ensure!(uid == "65534\t65534\t65534\t65534", "{uid}");
    ensure!(
        (capabilities, bounding) == (0, 0),
        "{capabilities:x} {bounding:x}"
    );
    ensure!(
        seccomp == "2" && no_new_privileges == "1",
        "{seccomp} {no_new_privileges}"
    );
    root_is_read_only(pid)?;
    say("agent: uid 65534, no capability, seccomp filter, no new privileges, read-only root");
    Ok(())
}

fn tailscale_has_one_capability(site: &Site) -> Result<()> {
    for words in [
        &["/opt/tsunaro/tsunaro-agent", "supervise"][..],
        &["tailscaled"],
    ] {
        let pid = site.process(words)?;
        let Privileges {
            uid,
            capabilities,
            bounding,
            seccomp,
            no_new_privileges,
        } = privileges(pid)?;
        ensure!(uid == "0\t0\t0\t0", "{uid}");
        ensure!(
            (capabilities, bounding) == (NET_ADMIN, NET_ADMIN),
            "{capabilities:x} {bounding:x}"
        );
        ensure!(
            seccomp == "2" && no_new_privileges == "1",
            "{seccomp} {no_new_privileges}"
        );
        root_is_read_only(pid)?;
        // Of a privileged container all devices are there.
        ensure!(!inside(pid, "dev/kmsg").exists(), "it is privileged");
        ensure!(inside(pid, "dev/net/tun").exists(), "no /dev/net/tun");
    }
    say(
        "tailscale: NET_ADMIN alone, not privileged, seccomp filter, no new privileges, read-only root",
    );
    Ok(())
}

/// A path as the process sees it.
fn inside(pid: u32, path: &str) -> std::path::PathBuf {
    format!("/proc/{pid}/root/{path}").into()
}

fn root_is_read_only(pid: u32) -> Result<()> {
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mounts"))?;
    let root = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == Some("/"));
    let options = root
        .and_then(|line| line.split(' ').nth(3))
        .context("no root")?;
    ensure!(options.split(',').any(|option| option == "ro"), "{options}");
    Ok(())
}

/// The agent's container has no mount with a token, neither where Kubernetes puts one nor elsewhere,
/// and tailscaled's token is good for one Secret.
fn the_agent_has_no_token_and_tailscale_a_narrow_one(site: &Site) -> Result<()> {
    let agent = site.process(&["/tsunaro-agent", "run"])?;
    ensure!(
        !inside(agent, "var/run/secrets").exists(),
        "the agent has secrets"
    );
    let mounts = std::fs::read_to_string(format!("/proc/{agent}/mounts"))?;
    ensure!(!mounts.contains("serviceaccount"), "{mounts}");
    let supervisor = site.process(&["/opt/tsunaro/tsunaro-agent", "supervise"])?;
    let token = inside(
        supervisor,
        "var/run/secrets/kubernetes.io/serviceaccount/token",
    );
    ensure!(
        std::fs::read_to_string(token)?.starts_with("eyJ"),
        "no token"
    );

    let who = format!("--as=system:serviceaccount:{NAMESPACE}:{NAME}");
    let state = format!("secrets/{NAME}-state");
    let key = format!("secrets/{NAME}-authkey");
    let can = |verb: &str, what: &str| -> Result<bool> {
        let output = site
            .node
            .kubectl(&["-n", NAMESPACE, "auth", "can-i", verb, what, &who])?;
        Ok(output.stdout.trim() == "yes")
    };
    for (verb, what, expected) in [
        ("get", state.as_str(), true),
        ("update", &state, true),
        ("patch", &state, false),
        ("delete", &state, false),
        ("list", "secrets", false),
        ("watch", "secrets", false),
        ("create", "secrets", false),
        ("get", &key, false),
        ("get", "configmaps", false),
        ("get", "pods", false),
        ("create", "events", false),
    ] {
        ensure!(
            can(verb, what)? == expected,
            "{verb} {what} is not {expected}"
        );
    }
    say("service account: get and update on the state Secret alone; the agent has no token");
    Ok(())
}

/// As OperatorUser, without root: routes that somebody else has changed are put right.
fn the_agent_still_sets_routes(site: &Site) -> Result<()> {
    let tailscale = |args: &[&str]| {
        let command = [
            &["tailscale", "--socket=/run/tailscale/tailscaled.sock"][..],
            args,
        ]
        .concat();
        site.node.exec(NAMESPACE, POD, "tailscale", &command)?.ok()
    };
    let routes = || -> Result<Value> {
        let prefs: Value = serde_json::from_str(&tailscale(&["debug", "prefs"])?)?;
        Ok(prefs["AdvertiseRoutes"].clone())
    };
    let before = routes()?;
    tailscale(&["set", "--advertise-routes="])?;
    site.wait("the routes to be set again", || {
        Ok((routes()? == before && !before.is_null()).then_some(()))
    })?;
    say("the agent put the routes right that root had taken away");
    Ok(())
}
