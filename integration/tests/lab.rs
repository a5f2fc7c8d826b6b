//! The lab itself: does it carry packets, and does it leave nothing behind?

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tsunaro_integration::lab::{
    Cmd, EGRESS_TARGET, GATEWAY_HOSTNAMES, HsNode, KeyOptions, LAN, LAN_HOST, LB_ADDRESS, LB_RANGE,
    Lab, LabOptions, PingMonitor, Signal, Start, UPSTREAMS, Zone, remove_leftovers, traces,
};
use tsunaro_integration::peers::Peers;
use tsunaro_integration::{say, wait_until};

/// Set in the process that a test starts to kill it.
const VICTIM: &str = "TSUNARO_LAB_VICTIM";

/// Says at its end how long the test took.
struct Timed(&'static str, Instant);

fn timed(name: &'static str) -> Timed {
    Timed(name, Instant::now())
}

impl Drop for Timed {
    fn drop(&mut self) {
        say(&format!(
            "test {}: {:.1} s",
            self.0,
            self.1.elapsed().as_secs_f64()
        ));
    }
}

fn one_gateway() -> Result<Lab> {
    Lab::start(LabOptions {
        gateways: [Start::LoggedIn, Start::Off],
        ..LabOptions::default()
    })
}

/// Advertises from the first gateway and waits until the peer's pings arrive.
fn route_through_gateway(lab: &Lab, routes: &str, target: &str) -> Result<()> {
    let started = Instant::now();
    let routes = format!("--advertise-routes={routes}");
    lab.gateway(1)?.tailscale(&["set", &routes])?.ok()?;
    lab.wait_until(
        "a ping through the gateway",
        Duration::from_secs(30),
        || lab.peer().ping_once(target).map(Some),
    )?;
    let took = started.elapsed().as_secs_f64();
    say(&format!("from the advertisement to a ping: {took:.2} s"));
    Ok(())
}

fn headscale_node(lab: &Lab, check: impl Fn(&HsNode) -> bool) -> Result<HsNode> {
    lab.wait_until(
        "the gateway in headscale's list",
        Duration::from_secs(15),
        || {
            let node = lab.headscale().rest().node(GATEWAY_HOSTNAMES[0])?;
            if !check(&node) {
                bail!("it is {node:?}");
            }
            Ok(Some(node))
        },
    )
}

#[test]
fn a_peer_reaches_the_lan_the_lb_address_and_an_egress_target_through_a_gateway() -> Result<()> {
    let _timed = timed("a peer reaches the LAN");
    let lab = one_gateway()?;
    assert!(lab.peer().ping_once(LAN_HOST).is_err());
    let routes = format!("{LAN},{LB_RANGE},10.0.10.0/24");
    route_through_gateway(&lab, &routes, LAN_HOST)?;
    for target in [LB_ADDRESS, EGRESS_TARGET, UPSTREAMS[0], UPSTREAMS[1]] {
        lab.peer().ping_once(target)?;
    }
    let node = headscale_node(&lab, |node| node.subnet_routes.len() == 3)?;
    assert_eq!(node.tags, ["tag:fabric"]);

    let ping = PingMonitor::start(lab.peer(), LAN_HOST)?;
    wait_until("20 pings", Duration::from_secs(10), || {
        Ok((ping.answers() >= 20).then_some(()))
    })?;
    let report = ping.stop()?;
    assert_eq!(report.lost, 0, "{report:?}");
    assert!(report.longest_gap < Duration::from_secs(1), "{report:?}");

    let ping = PingMonitor::start(lab.peer(), LAN_HOST)?;
    let seen = |at_least| {
        wait_until("pings", Duration::from_secs(10), || {
            Ok((ping.answers() >= at_least).then_some(()))
        })
    };
    seen(5)?;
    lab.gateway(1)?.set_ipv4_forwarding(false)?;
    wait_until("the loss of a ping", Duration::from_secs(10), || {
        Ok(lab.peer().ping_once(LAN_HOST).is_err().then_some(()))
    })?;
    let before = ping.answers();
    lab.gateway(1)?.set_ipv4_forwarding(true)?;
    seen(before + 5)?;
    let report = ping.stop()?;
    say(&format!("forwarding off for a moment: {report:?}"));
    assert!(
        report.lost >= 10 && report.longest_gap > Duration::from_millis(500),
        "{report:?}"
    );
    Ok(())
}

#[test]
fn two_labs_side_by_side_do_not_touch_each_other() -> Result<()> {
    let _timed = timed("two labs");
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(one_gateway);
        (one_gateway(), other.join())
    });
    let (one, two) = (one?, two.expect("the other start panicked")?);
    assert_ne!(one.id(), two.id());
    route_through_gateway(&one, LAN, LAN_HOST)?;
    // The other has not advertised anything: its peer has no way.
    assert!(two.peer().ping_once(LAN_HOST).is_err());
    let removed = remove_leftovers()?;
    assert!(
        !removed.iter().any(|id| id == one.id() || id == two.id()),
        "{removed:?}"
    );
    drop(two);
    one.peer().ping_once(LAN_HOST)
}

#[test]
fn dropping_a_lab_leaves_nothing() -> Result<()> {
    let _timed = timed("dropping a lab");
    let lab = one_gateway()?;
    let id = lab.id().to_owned();
    assert!(!traces(&id)?.is_empty());
    drop(lab);
    assert_eq!(traces(&id)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_panic_leaves_nothing() -> Result<()> {
    let _timed = timed("a panic");
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let result = std::thread::spawn(move || {
        let lab = Lab::start(LabOptions {
            gateways: [Start::Off, Start::Off],
            peer: Start::Daemon,
            ..LabOptions::default()
        })
        .unwrap();
        sender.send(lab.id().to_owned()).unwrap();
        panic!("on purpose, with the logs' ends below");
    })
    .join();
    assert!(result.is_err());
    assert_eq!(traces(&receiver.recv()?)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_killed_test_process_leaves_nothing_after_the_next_start() -> Result<()> {
    if std::env::var_os(VICTIM).is_some() {
        return be_the_victim();
    }
    let _timed = timed("a killed test process");
    let mut victim = Command::new(std::env::current_exe()?)
        .args([
            "--exact",
            "a_killed_test_process_leaves_nothing_after_the_next_start",
        ])
        .arg("--nocapture")
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(victim.stdout.take().context("no stdout")?).lines();
    let id = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split("victim's lab ").nth(1)?.trim().to_owned()))
        .context("the victim started no lab")?;
    // Alive, it is left alone.
    assert!(!remove_leftovers()?.contains(&id));
    assert!(traces(&id)?.len() > 10, "{:?}", traces(&id)?);
    victim.kill()?;
    victim.wait()?;
    // The programs die with it, even before anybody clears away. What they
    // forked does not: that has to be found by its namespace.
    wait_until(
        "the end of the victim's programs",
        Duration::from_secs(5),
        || {
            let mut left = traces(&id)?;
            left.retain(|trace| trace.starts_with("/proc/"));
            // A lab that starts beside this test may have removed the orphan.
            left.retain(|trace| !trace.contains("sleep 600"));
            ensure!(left.is_empty(), "{left:#?}");
            Ok(Some(()))
        },
    )?;
    let next = Lab::start(LabOptions {
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    assert_eq!(traces(&id)?, Vec::<String>::new());
    drop(next);
    Ok(())
}

/// Starts a lab, with an orphan and an unprivileged program, and waits to be killed.
fn be_the_victim() -> Result<()> {
    let lab = one_gateway()?;
    // Its parent ends, so that no death signal reaches it.
    lab.lan_host().sh("setsid sleep 600 >/dev/null 2>&1 &")?;
    let unprivileged = lab
        .lan_host()
        .spawn(Cmd::new("/bin/sleep").arg("601").unprivileged())?;
    wait_until("the unprivileged program", Duration::from_secs(5), || {
        let line = std::fs::read_to_string(format!("/proc/{}/comm", unprivileged.pid()))?;
        Ok((line == "sleep\n").then_some(()))
    })?;
    println!("victim's lab {}", lab.id());
    wait_until("the kill", Duration::from_secs(60), || Ok(None::<()>))
}

#[test]
fn an_unprivileged_program_has_no_capabilities_and_sees_its_nodes_files() -> Result<()> {
    let _timed = timed("an unprivileged program");
    let lab = Lab::start(LabOptions {
        gateways: [Start::Off, Start::Off],
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let node = lab.gateway(1)?;
    let seen = node
        .run(
            Cmd::from([
                "sh",
                "-c",
                "id -u; id -G; cat /proc/self/status /etc/resolv.conf /etc/hosts",
            ])
            .unprivileged(),
        )?
        .ok()?;
    assert!(seen.starts_with("65534\n65534\n"), "{seen}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(
            seen.contains(&format!("{set}:\t0000000000000000")),
            "{set}: {seen}"
        );
    }
    assert!(seen.contains("NoNewPrivs:\t1"), "{seen}");
    assert!(seen.contains("nameserver 198.51.100.53"), "{seen}");
    assert!(seen.contains("203.0.113.10 hs.lab.test"), "{seen}");

    // A binary below root's home, which this uid cannot enter.
    let hidden = tempfile::Builder::new()
        .prefix("tsunaro-lab-")
        .tempdir_in("/root")?;
    let binary = hidden.path().join("hidden-sleep");
    std::fs::copy("/bin/sleep", &binary)?;
    let process = node.spawn(Cmd::new(&binary).arg("60").unprivileged())?;
    wait_until(
        "the program itself under its pid",
        Duration::from_secs(5),
        || {
            let line = std::fs::read_to_string(format!("/proc/{}/cmdline", process.pid()))?;
            ensure!(
                line.ends_with("/bin/hidden-sleep\x0060\0"),
                "{line} {}",
                process.log()
            );
            Ok(Some(()))
        },
    )?;
    process.terminate(Duration::from_secs(5))?;
    assert!(!process.is_running());
    Ok(())
}

#[test]
fn an_unprivileged_program_logs_a_gateway_in_and_sets_its_routes() -> Result<()> {
    let _timed = timed("an unprivileged login");
    let lab = Lab::start(LabOptions::default())?;
    let gateway = lab.gateway(1)?;
    gateway.wait_state("NeedsLogin", Duration::from_secs(10))?;
    let socket = gateway.socket().display().to_string();
    let call = |method: &str, path: &str, body: &str| {
        let url = format!("http://local-tailscaled.sock/localapi/v0/{path}");
        let curl = Cmd::new("curl").args(["--silent", "--show-error", "--fail-with-body"]);
        let curl = curl.args(["--unix-socket", &socket, "-X", method, "-d", body, &url]);
        gateway.run(curl.unprivileged())?.ok()
    };
    let prefs = format!(r#"{{"AdvertiseRoutes":["{LAN}"],"AdvertiseRoutesSet":true}}"#);
    call("PATCH", "prefs", &prefs)?;
    let key = lab
        .headscale()
        .rest()
        .preauth_key(&KeyOptions::tagged("tag:fabric"))?;
    let file = gateway.write_auth_key(&key)?;
    let key = gateway
        .run(Cmd::from(["cat"]).arg(file).unprivileged())?
        .ok()?;
    call("POST", "start", &format!(r#"{{"AuthKey":"{key}"}}"#))?;
    call("POST", "login-interactive", "")?;
    gateway.wait_running()?;
    headscale_node(&lab, |node| node.online && node.subnet_routes == [LAN])?;
    lab.wait_until(
        "a ping through the gateway",
        Duration::from_secs(30),
        || lab.peer().ping_once(LAN_HOST).map(Some),
    )
}

#[test]
fn upstreams_serve_the_zones_of_the_test_to_a_gateway() -> Result<()> {
    let _timed = timed("upstreams");
    let lab = Lab::start(LabOptions {
        gateways: [Start::Off, Start::Off],
        peer: Start::Off,
        ..LabOptions::default()
    })?;
    let zones = [Zone::new("corp.example").record("www 60 IN A 192.0.2.7")];
    let first = lab.upstream().serve(UPSTREAMS[0], &zones)?;
    let _second = lab.upstream().serve(UPSTREAMS[1], &zones)?;
    let ask = |server: &str| lab.gateway(1)?.dns(server, "www.corp.example", "A");
    let answer = ("NOERROR".to_owned(), vec!["A 192.0.2.7".to_owned()]);
    assert_eq!(ask(UPSTREAMS[0])?, answer);
    assert_eq!(ask(UPSTREAMS[1])?, answer);
    first.kill_now()?;
    assert!(ask(UPSTREAMS[0]).is_err());
    assert_eq!(ask(UPSTREAMS[1])?, answer);
    Ok(())
}

#[test]
fn a_peer_that_accepts_dns_resolves_a_split_zone_through_the_gateway() -> Result<()> {
    let _timed = timed("split DNS");
    let lab = Lab::start(LabOptions {
        gateways: [Start::LoggedIn, Start::Off],
        peer_accepts_dns: true,
        split_dns: vec![("corp.example".to_owned(), vec![UPSTREAMS[0].to_owned()])],
        ..LabOptions::default()
    })?;
    let zones = [Zone::new("corp.example").record("www 60 IN A 192.0.2.7")];
    let _nsd = lab.upstream().serve(UPSTREAMS[0], &zones)?;
    route_through_gateway(&lab, LB_RANGE, UPSTREAMS[0])?;
    let (code, records) = lab.peer().dns("100.100.100.100", "www.corp.example", "A")?;
    assert_eq!(
        (code.as_str(), records),
        ("NOERROR", vec!["A 192.0.2.7".to_owned()])
    );
    let hosts = lab
        .peer()
        .run(["getent", "ahostsv4", "www.corp.example"])?
        .ok()?;
    assert!(hosts.starts_with("192.0.2.7 "), "{hosts}");
    Ok(())
}

#[test]
fn a_gateway_keeps_its_login_over_a_kill_and_takes_a_new_one_after_a_lost_state() -> Result<()> {
    let _timed = timed("a gateway's login");
    let lab = one_gateway()?;
    let gateway = lab.gateway(1)?;
    let address = gateway.tailnet_ipv4()?;
    let clock = Instant::now();
    let lap = |what: &str| say(&format!("{:.1} s: {what}", clock.elapsed().as_secs_f64()));
    gateway.restart(Signal::SIGKILL)?;
    gateway.wait_running()?;
    lap("Running after kill -9");
    assert_eq!(gateway.tailnet_ipv4()?, address);

    let rest = lab.headscale().rest();
    let old = headscale_node(&lab, |node| node.online)?;
    rest.expire(&old.id)?;
    gateway.wait_state("NeedsLogin", Duration::from_secs(15))?;
    lap("the node expired");
    rest.disable_expiry(&old.id)?;
    gateway.wait_running()?;
    lap("Running after disableExpiry");

    gateway.stop(Signal::SIGTERM)?;
    gateway.wipe_state()?;
    rest.delete(&old.id)?;
    gateway.start()?;
    gateway.wait_state("NeedsLogin", Duration::from_secs(15))?;
    gateway.login(&rest.preauth_key(&KeyOptions::tagged("tag:fabric"))?)?;
    gateway.wait_running()?;
    lap("Running again after a lost state");
    let new = headscale_node(&lab, |node| node.online)?;
    assert_ne!(new.id, old.id);
    rest.approve_routes(&new.id, &["192.0.2.0/24"])?;
    headscale_node(&lab, |node| node.approved_routes == ["192.0.2.0/24"])?;
    lap("approved by hand");

    let policy = rest.policy()?;
    assert!(policy.contains("autoApprovers"), "{policy}");
    lab.headscale().stop(Signal::SIGTERM)?;
    assert!(rest.nodes().is_err());
    lap("headscale stopped");
    lab.headscale().start()?;
    headscale_node(&lab, |node| node.online)?;
    lap("online after headscale's return");
    Ok(())
}

#[test]
fn the_second_gateway_takes_over_without_loss_when_the_firsts_approvals_are_emptied() -> Result<()>
{
    let _timed = timed("a planned handover");
    let lab = Lab::start(LabOptions {
        gateways: [Start::LoggedIn, Start::LoggedIn],
        ..LabOptions::default()
    })?;
    route_through_gateway(&lab, LAN, LAN_HOST)?;
    let first = headscale_node(&lab, |node| node.subnet_routes == [LAN])?;
    let set = ["set", &format!("--advertise-routes={LAN}")];
    lab.gateway(2)?.tailscale(&set)?.ok()?;
    let rest = lab.headscale().rest();
    lab.wait_until("the standby's approval", Duration::from_secs(10), || {
        let second = rest.node(GATEWAY_HOSTNAMES[1])?;
        ensure!(
            second.approved_routes == [LAN] && second.subnet_routes.is_empty(),
            "{second:?}"
        );
        Ok(Some(()))
    })?;
    let ping = PingMonitor::start(lab.peer(), LAN_HOST)?;
    let pings = |at_least| {
        lab.wait_until("pings", Duration::from_secs(20), || {
            Ok((ping.answers() >= at_least).then_some(()))
        })
    };
    pings(5)?;
    rest.approve_routes(&first.id, &[])?;
    lab.wait_until("the standby to be primary", Duration::from_secs(10), || {
        let second = rest.node(GATEWAY_HOSTNAMES[1])?;
        ensure!(second.subnet_routes == [LAN], "{second:?}");
        Ok(Some(()))
    })?;
    // Past headscale's batching and the peer's change of path.
    pings(ping.answers() + 60)?;
    let report = ping.stop()?;
    say(&format!("planned handover: {report:?}"));
    assert!(report.lost <= 2, "{report:?}");
    Ok(())
}

#[test]
fn the_pinned_programs_are_built_once() -> Result<()> {
    let _timed = timed("pinned programs");
    let first = Peers::ensure()?;
    let started = Instant::now();
    let second = Peers::ensure()?;
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    for (path, again, version) in [
        (&first.tailscale, &second.tailscale, "1.102.4"),
        (&first.tailscaled, &second.tailscaled, "1.102.4"),
        (&first.headscale, &second.headscale, "0.29.2"),
        (&first.coredns, &second.coredns, "1.14.7"),
    ] {
        assert_eq!(path, again);
        assert!(Path::new(path).is_file());
        let known = Command::new("go")
            .args(["version", "-m"])
            .arg(path)
            .output()?;
        let known = String::from_utf8(known.stdout)?;
        assert!(known.contains(version), "{known}");
    }
    Ok(())
}
