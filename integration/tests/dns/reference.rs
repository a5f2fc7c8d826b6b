//! What the agent is compared with: real CoreDNS and real NSD, with the config
//! of each that comes nearest to a setup.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use tsunaro_integration::lab::Process;
use tsunaro_integration::peers::Peers;
use tsunaro_integration::wire::{Query, udp};
use tsunaro_integration::{Wait, spawn_local};

use crate::fixture::{hosts, static_records};
use crate::setup::{Base, HostsKind, Setup, StaticData};
use crate::text::{EXTRA, ZONE};

const START: Duration = Duration::from_secs(20);
const WILDCARD: &str = "192.0.2.200";

/// CoreDNS: `hosts` over `file` for the zone, `template` for the wildcard;
/// `hosts` over `forward` with `cache` for the extra zone.
pub(crate) fn coredns(
    setup: &Setup,
    dir: &Path,
    listen: SocketAddr,
    upstreams: &[SocketAddr],
) -> Result<Process> {
    let (ip, port) = (listen.ip(), listen.port());
    let zone = setup
        .zone
        .clone()
        .unwrap_or_else(|| ZONE.trim_end_matches('.').to_owned());
    let zone_file = dir.join("zone");
    std::fs::write(&zone_file, zone_text(setup, false))?;
    let template = match setup.base {
        Base::Wildcard => format!(
            "  template IN A {zone} {{\n    answer \"{{{{ .Name }}}} 30 IN A {WILDCARD}\"\n    fallthrough\n  }}\n"
        ),
        Base::NoWildcard | Base::Bare => String::new(),
    };
    let hosts = dir.join("mount/hosts");
    let hosts = hosts.display();
    let upstreams: Vec<String> = upstreams.iter().map(ToString::to_string).collect();
    let text = format!(
        "{zone}:{port} {{\n  bind {ip}\n  loadbalance\n{template}  hosts {hosts} {zone} {{\n    ttl 30\n    \
         fallthrough\n  }}\n  file {} {zone}\n}}\n\
         {EXTRA}:{port} {{\n  bind {ip}\n  loadbalance\n  hosts {hosts} {EXTRA} {{\n    ttl 30\n    fallthrough\n  }}\n  \
         forward . {} {{\n    policy sequential\n  }}\n  cache 30\n}}\n",
        zone_file.display(),
        upstreams.join(" "),
    );
    let corefile = dir.join("Corefile");
    std::fs::write(&corefile, text)?;
    let args: [PathBuf; 2] = ["-conf".into(), corefile];
    spawn_local(&Peers::ensure()?.coredns, args, &dir.join("server.log"))
}

/// NSD: one zone file with the static records and those of the hosts file.
pub(crate) fn nsd(setup: &Setup, dir: &Path, listen: SocketAddr) -> Result<Process> {
    std::fs::write(dir.join("zone"), zone_text(setup, true))?;
    let text = format!(
        "server:\n  ip-address: {}@{}\n  server-count: 1\n  hide-version: yes\n  username: \"\"\n  chroot: \"\"\n  zonesdir: \"{dir}\"\n  \
         database: \"\"\n  pidfile: \"{dir}/nsd.pid\"\n  xfrdfile: \"{dir}/xfrd.state\"\n  xfrdir: \"{dir}\"\n  \
         zonelistfile: \"{dir}/zone.list\"\nremote-control:\n  control-enable: no\n\
         zone:\n  name: \"{ZONE}\"\n  zonefile: \"zone\"\n",
        listen.ip(),
        listen.port(),
        dir = dir.display(),
    );
    let config = dir.join("nsd.conf");
    std::fs::write(&config, text)?;
    let args: [PathBuf; 3] = ["-d".into(), "-c".into(), config];
    spawn_local(Path::new("/usr/sbin/nsd"), args, &dir.join("server.log"))
}

/// The zone file: our own SOA and NS, the static records, and on request the
/// hosts file's records and the wildcard.
fn zone_text(setup: &Setup, whole: bool) -> String {
    let mut text = format!(
        "$ORIGIN {ZONE}\n$TTL 30\n@ IN SOA @ nobody.invalid. 1 7200 1800 86400 5\n@ IN NS @\n"
    );
    let mut add = |line: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    };
    for record in static_records(setup) {
        let name = record.name;
        match record.data {
            StaticData::Address(address) => add(format!("{name} IN A {address}")),
            StaticData::Target(target) if target.contains('.') => {
                add(format!("{name} IN CNAME {target}."));
            }
            StaticData::Target(target) => add(format!("{name} IN CNAME {target}")),
        }
    }
    if whole {
        if setup.base == Base::Wildcard {
            add(format!("* IN A {WILDCARD}"));
        }
        let mut records: Vec<String> = hosts(setup.hosts)
            .iter()
            .flatten()
            .flat_map(|line| records_of(line))
            .collect();
        records.sort();
        records.dedup();
        records.into_iter().for_each(add);
    }
    text
}

/// The records of a line of the hosts file whose names are in the zone.
fn records_of(line: &str) -> Vec<String> {
    let mut words = line.split_whitespace();
    let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else {
        return Vec::new();
    };
    let address = address.to_canonical();
    let rtype = if address.is_ipv4() { "A" } else { "AAAA" };
    let absolute =
        words.map(|name| format!("{}.", name.trim_end_matches('.').to_ascii_lowercase()));
    let ours = absolute.filter(|name| name == ZONE || name.ends_with(&format!(".{ZONE}")));
    ours.map(|name| format!("{name} IN {rtype} {address}"))
        .collect()
}

/// Waits until the server answers for the zone.
pub(crate) fn wait_until_it_serves(server: &Process, address: SocketAddr) -> Result<()> {
    wait_for_reply(server, address, ZONE)
}

/// Waits until the server replies to a question for this name.
pub(crate) fn wait_for_reply(server: &Process, address: SocketAddr, name: &str) -> Result<()> {
    let probe = Query::new(name, "SOA")?.encode(1)?;
    Wait::new(format!("a reply of {}", server.name()), START)
        .logs([server.log_path().to_owned()])
        .until(|| {
            ensure!(server.is_running(), "it has ended");
            Ok(udp(address, &probe, Duration::from_millis(200))?.map(drop))
        })
}

/// Whether NSD can be asked this at all: it forwards nothing, and reads no hosts file.
pub(crate) fn nsd_can(setup: &Setup) -> bool {
    matches!(setup.hosts, HostsKind::Usual | HostsKind::NoApex) && setup.zone.is_none()
}
