//! The servers: their programs and configs.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tsunaro_integration::peers::Peers;
use tsunaro_integration::wire::free_port;
use tsunaro_integration::{Step, packages};

use crate::content::{EXTRA, FEW, NAMES, WILD, ZONE, address, hosts, zone_file};
use crate::server::{LOAD_CORE, SERVER_CORE, Server};

/// Programs that are measured or ask, and the Debian packages that they are in.
const PROGRAMS: [(&str, &str); 5] = [
    ("/usr/sbin/nsd", "nsd"),
    ("/usr/sbin/knotd", "knot"),
    ("/usr/sbin/unbound", "unbound"),
    ("/usr/sbin/dnsmasq", "dnsmasq-base"),
    (crate::dnsperf::PROGRAM, "dnsperf"),
];

/// Installs what is missing; needs root for that.
pub(crate) fn install_missing() -> Result<()> {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !Path::new(program).exists())
        .map(|(_, package)| *package)
        .collect();
    packages::install_these(&missing)
}

/// A directory with the content of all servers.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    agent: PathBuf,
    pub(crate) coredns: PathBuf,
}

/// Content that waits for its moment.
pub(crate) struct Prepared([(PathBuf, PathBuf); 2]);

impl Prepared {
    /// Puts it in its place at once.
    pub(crate) fn swap(&self) -> Result<()> {
        for (from, to) in &self.0 {
            std::fs::rename(from, to)?;
        }
        Ok(())
    }
}

/// An address on loopback that nobody uses.
pub(crate) fn free() -> Result<SocketAddr> {
    let ip = Ipv4Addr::LOCALHOST.into();
    Ok(SocketAddr::new(ip, free_port(ip)?))
}

impl Place {
    /// Writes the content.
    pub(crate) fn new(agent: &Path) -> Result<Self> {
        let step = Step::new("writing zones, finding CoreDNS");
        let place = Self {
            dir: tempfile::tempdir()?,
            agent: agent.to_owned(),
            coredns: Peers::ensure()?.coredns,
        };
        place.write_mix(NAMES, 0, 1)?;
        place.write("wild.hosts", &hosts(WILD, FEW, 0))?;
        place.write("wild.zone", &zone_file(WILD, FEW, 0, 1, true))?;
        let mut upstream = zone_file(EXTRA, FEW, 0, 1, false);
        upstream.push_str("*.new IN A 192.0.2.7\n");
        place.write("extra.zone", &upstream)?;
        step.done();
        Ok(place)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Replaces a file at once.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        let new = self.path().join(format!(".{name}.new"));
        std::fs::write(&new, text).with_context(|| format!("write {}", new.display()))?;
        std::fs::rename(&new, &path)?;
        Ok(path)
    }

    /// Writes the zone of the mixed load in both formats.
    pub(crate) fn write_mix(&self, names: usize, salt: u8, serial: u32) -> Result<()> {
        self.prepare_mix(names, salt, serial)?.swap()
    }

    /// As [`Place::write_mix`], without putting it in its place yet.
    pub(crate) fn prepare_mix(&self, names: usize, salt: u8, serial: u32) -> Result<Prepared> {
        // A directory of its own: the agent watches what changes beside its hosts file.
        std::fs::create_dir_all(self.path().join("mix"))?;
        std::fs::create_dir_all(self.path().join("next"))?;
        let of = |name: &str, text: String| -> Result<(PathBuf, PathBuf)> {
            let file = name.replace('/', "-");
            let new = self.path().join("next").join(file);
            std::fs::write(&new, text).with_context(|| format!("write {}", new.display()))?;
            Ok((new, self.path().join(name)))
        };
        Ok(Prepared([
            of("mix/hosts", hosts(ZONE, names, salt))?,
            of("mix.zone", zone_file(ZONE, names, salt, serial, false))?,
        ]))
    }

    /// Our agent over a hosts file of a zone.
    pub(crate) fn agent(&self, zone: &str, upstream: Option<SocketAddr>) -> Result<Server> {
        self.agent_over(
            zone,
            upstream,
            if zone == WILD {
                "wild.hosts"
            } else {
                "mix/hosts"
            },
        )
    }

    fn agent_over(&self, zone: &str, upstream: Option<SocketAddr>, hosts: &str) -> Result<Server> {
        let (address, http) = (free()?, free()?);
        let mut config = format!(
            "apiVersion: agent.tsunaro.io/v1alpha1\nkind: GatewayConfig\nhosts: {hosts}\ndns:\n  zone: {zone}\n"
        );
        if zone == WILD {
            config.push_str("  wildcardAddress: 192.0.2.200\n  staticRecords:\n");
            for number in 0..100 {
                writeln!(
                    config,
                    "    - {{ name: alias{number:03}, target: host{number:07}.{zone} }}"
                )?;
            }
        }
        if let Some(upstream) = upstream {
            writeln!(
                config,
                "  extraZones:\n    - {{ zone: {EXTRA}, upstreams: [\"{upstream}\"] }}"
            )?;
        }
        let config = self.write(&format!("agent-{}.yaml", address.port()), &config)?;
        let mut command = Command::new(&self.agent);
        command.args(["run", "--hosts-max-bytes", "268435456", "--config"]);
        command.arg(config);
        command.args(["--dns-listen", &address.to_string()]);
        command.args(["--http-listen", &http.to_string()]);
        command.arg("--tailscaled-socket");
        command.arg(self.path().join("no-tailscaled"));
        let mut server = Server::spawn("tsunaro", address, SERVER_CORE, self.path(), &mut command)?;
        server.until_it_answers(&format!("host{:07}.{zone}", 0))?;
        Ok(server)
    }

    /// CoreDNS with `hosts`.
    pub(crate) fn coredns_hosts(&self) -> Result<Server> {
        let block = format!(
            "hosts {} {{\n ttl 30\n reload 1s\n }}",
            self.path().join("mix/hosts").display()
        );
        self.coredns("CoreDNS hosts", &[(ZONE, block)], ZONE)
    }

    /// CoreDNS with `file`.
    pub(crate) fn coredns_file(&self) -> Result<Server> {
        let block = |file: &str| format!("file {}", self.path().join(file).display());
        let blocks = [(ZONE, block("mix.zone")), (WILD, block("wild.zone"))];
        self.coredns("CoreDNS file", &blocks, ZONE)
    }

    /// CoreDNS with `forward` and `cache`.
    pub(crate) fn coredns_forward(&self, upstream: SocketAddr) -> Result<Server> {
        let block = format!("cache 30\n forward . {upstream}");
        self.coredns("CoreDNS forward", &[(EXTRA, block)], EXTRA)
    }

    fn coredns(&self, name: &'static str, blocks: &[(&str, String)], zone: &str) -> Result<Server> {
        let address = free()?;
        let mut text = String::new();
        for (zone, block) in blocks {
            writeln!(
                text,
                "{zone}:{} {{\n bind 127.0.0.1\n {block}\n}}",
                address.port()
            )?;
        }
        let corefile = self.write(&format!("Corefile-{}", address.port()), &text)?;
        let mut command = Command::new(&self.coredns);
        command.arg("-conf").arg(corefile);
        let mut server = Server::spawn(name, address, SERVER_CORE, self.path(), &mut command)?;
        server.until_it_answers(&format!("host{:07}.{zone}", 0))?;
        Ok(server)
    }

    /// NSD over both local zones.
    pub(crate) fn nsd(&self) -> Result<Server> {
        self.nsd_over(
            "NSD",
            SERVER_CORE,
            &[(ZONE, "mix.zone"), (WILD, "wild.zone")],
        )
    }

    /// The upstream: NSD beside the load generator.
    pub(crate) fn upstream(&self) -> Result<Server> {
        self.nsd_over("upstream", LOAD_CORE, &[(EXTRA, "extra.zone")])
    }

    fn nsd_over(&self, name: &'static str, core: usize, zones: &[(&str, &str)]) -> Result<Server> {
        let address = free()?;
        let dir = self.path().join(format!("nsd-{}", address.port()));
        std::fs::create_dir_all(&dir)?;
        let mut text = format!(
            "server:\n  ip-address: {}@{}\n  server-count: 1\n  username: \"\"\n  chroot: \"\"\n  \
             rrl-ratelimit: 0\n  rrl-whitelist-ratelimit: 0\n  zonesdir: \"{zones}\"\n  database: \"\"\n  pidfile: \"{dir}/nsd.pid\"\n  \
             xfrdfile: \"{dir}/xfrd.state\"\n  xfrdir: \"{dir}\"\n  zonelistfile: \"{dir}/zone.list\"\n\
             remote-control:\n  control-enable: no\n",
            address.ip(),
            address.port(),
            zones = self.path().display(),
            dir = dir.display()
        );
        for (zone, file) in zones {
            writeln!(text, "zone:\n  name: \"{zone}\"\n  zonefile: \"{file}\"")?;
        }
        let config = dir.join("nsd.conf");
        std::fs::write(&config, text)?;
        let mut command = Command::new("/usr/sbin/nsd");
        command.args(["-d", "-c"]).arg(config);
        let mut server = Server::spawn(name, address, core, self.path(), &mut command)?;
        let zone = zones.first().map_or(ZONE, |(zone, _)| zone);
        server.until_it_answers(&format!("host{:07}.{zone}", 0))?;
        Ok(server)
    }

    /// Knot over the zone of the mixed load.
    pub(crate) fn knot(&self) -> Result<Server> {
        let address = free()?;
        let dir = self.path().join(format!("knot-{}", address.port()));
        std::fs::create_dir_all(&dir)?;
        let text = format!(
            "server:\n  listen: {}@{}\n  rundir: {dir}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
             database:\n  storage: {dir}\n\
             log:\n- target: stderr\n  any: warning\n\
             template:\n- id: default\n  storage: {zones}\n  zonefile-sync: -1\n  journal-content: none\n\
             zone:\n- domain: {ZONE}\n  file: mix.zone\n",
            address.ip(),
            address.port(),
            dir = dir.display(),
            zones = self.path().display()
        );
        let config = dir.join("knot.conf");
        std::fs::write(&config, text)?;
        let mut command = Command::new("/usr/sbin/knotd");
        command.arg("-c").arg(config);
        let mut server = Server::spawn("Knot", address, SERVER_CORE, self.path(), &mut command)?;
        server.until_it_answers(&format!("host{:07}.{ZONE}", 0))?;
        Ok(server)
    }

    /// unbound with the zone of the mixed load as local data, and as a forwarder.
    pub(crate) fn unbound(&self, upstream: Option<SocketAddr>) -> Result<Server> {
        let listen = free()?;
        let mut text = format!(
            "server:\n  interface: {}@{}\n  port: {1}\n  num-threads: 1\n  username: \"\"\n  chroot: \"\"\n  \
             directory: \"{dir}\"\n  pidfile: \"{dir}/unbound.pid\"\n  use-syslog: no\n  verbosity: 0\n  \
             do-not-query-localhost: no\n  module-config: \"iterator\"\n  access-control: 127.0.0.0/8 allow\n  \
             so-rcvbuf: 1m\n",
            listen.ip(),
            listen.port(),
            dir = self.path().display()
        );
        match upstream {
            None => {
                writeln!(text, "  local-zone: \"{ZONE}.\" static")?;
                writeln!(
                    text,
                    "  local-data: \"{ZONE}. 30 IN SOA {ZONE}. nobody.invalid. 1 7200 1800 86400 5\""
                )?;
                for number in 0..NAMES {
                    writeln!(
                        text,
                        "  local-data: \"host{number:07}.{ZONE}. 30 IN A {}\"",
                        address(number, 0)
                    )?;
                }
            }
            Some(upstream) => writeln!(
                text,
                "  local-zone: \"{EXTRA}.\" nodefault\nforward-zone:\n  name: \"{EXTRA}\"\n  forward-addr: {}@{}",
                upstream.ip(),
                upstream.port()
            )?,
        }
        text.push_str("remote-control:\n  control-enable: no\n");
        let config = self.write(&format!("unbound-{}.conf", listen.port()), &text)?;
        let mut command = Command::new("/usr/sbin/unbound");
        command.args(["-d", "-c"]).arg(config);
        let mut server = Server::spawn("unbound", listen, SERVER_CORE, self.path(), &mut command)?;
        let zone = if upstream.is_some() { EXTRA } else { ZONE };
        server.until_it_answers(&format!("host{:07}.{zone}", 0))?;
        Ok(server)
    }

    /// dnsmasq over the hosts file of the mixed load.
    pub(crate) fn dnsmasq(&self) -> Result<Server> {
        let listen = free()?;
        let mut command = Command::new("/usr/sbin/dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--user=root",
            "--bind-interfaces",
            "--listen-address=127.0.0.1",
            "--pid-file=",
            "--local-ttl=30",
        ]);
        command.arg(format!("--port={}", listen.port()));
        command.arg(format!("--local=/{ZONE}/"));
        command.arg(format!(
            "--addn-hosts={}",
            self.path().join("mix/hosts").display()
        ));
        let mut server = Server::spawn("dnsmasq", listen, SERVER_CORE, self.path(), &mut command)?;
        server.until_it_answers(&format!("host{:07}.{ZONE}", 0))?;
        Ok(server)
    }

    /// The bare echo.
    pub(crate) fn echo(&self) -> Result<Server> {
        let address = free()?;
        let own = std::env::current_exe()?;
        let mut command = Command::new(own);
        command.arg("echo").arg(address.to_string());
        let server = Server::spawn("UDP echo", address, SERVER_CORE, self.path(), &mut command)?;
        for _ in 0..100 {
            let reply = tsunaro_integration::wire::udp(
                address,
                &[0; 12],
                std::time::Duration::from_millis(20),
            )?;
            if reply.is_some() {
                return Ok(server);
            }
        }
        bail!("the echo does not answer")
    }
}
