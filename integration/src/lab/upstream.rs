//! Upstream resolvers: a real NSD for each address.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};

use super::command::Cmd;
use super::node::Node;
use super::process::Process;
use super::wires::UPSTREAMS;
use crate::Wait;

/// A zone that an upstream serves.
#[derive(Debug, Clone)]
pub struct Zone {
    name: String,
    records: Vec<String>,
}

impl Zone {
    /// A zone with its SOA and NS, named without a final dot.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            records: Vec::new(),
        }
    }

    /// One more line of the zone file, as `www 60 IN A 192.0.2.7`.
    #[must_use]
    pub fn record(mut self, line: &str) -> Self {
        self.records.push(line.to_owned());
        self
    }

    fn file(&self) -> Result<String> {
        let mut text = format!(
            "$ORIGIN {}.\n$TTL 300\n@ IN SOA ns hostmaster 1 3600 600 86400 60\n@ IN NS ns\n\
             ns IN A {}\n",
            self.name, UPSTREAMS[0]
        );
        for record in &self.records {
            writeln!(text, "{record}")?;
        }
        Ok(text)
    }
}

/// The machine with the upstream resolvers' addresses.
#[derive(Debug)]
pub struct Upstream {
    pub(super) node: Node,
}

impl Upstream {
    /// The machine itself, for other servers than NSD.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Serves zones by an NSD on port 53 of one of [`UPSTREAMS`], until the
    /// returned process is dropped or killed.
    pub fn serve(&self, address: &str, zones: &[Zone]) -> Result<Process> {
        let base = format!("nsd-{address}");
        let dir = self.node.dir().join(&base);
        std::fs::create_dir_all(&dir)?;
        let mut config = format!(
            "server:\n  ip-address: {address}\n  server-count: 1\n  username: \"\"\n  chroot: \"\"\n  \
             zonesdir: \"{0}\"\n  database: \"\"\n  pidfile: \"{0}/nsd.pid\"\n  \
             xfrdfile: \"{0}/xfrd.state\"\n  xfrdir: \"{0}\"\n  zonelistfile: \"{0}/zone.list\"\n\
             remote-control:\n  control-enable: no\n",
            dir.display()
        );
        for zone in zones {
            let file = format!("{}.zone", zone.name);
            self.node.write(&format!("{base}/{file}"), &zone.file()?)?;
            writeln!(
                config,
                "zone:\n  name: \"{}\"\n  zonefile: \"{file}\"",
                zone.name
            )?;
        }
        let config = self.node.write(&format!("{base}/nsd.conf"), &config)?;
        let nsd = self.node.spawn(
            Cmd::new("/usr/sbin/nsd")
                .args(["-d", "-c"])
                .arg(config)
                .name(&base),
        )?;
        let first = zones.first().map_or(".", |zone| zone.name.as_str());
        let server = format!("@{address}");
        Wait::new(format!("an answer of {base}"), Duration::from_secs(10))
            .logs([nsd.log_path().to_owned()])
            .until(|| {
                if let Some(status) = nsd.try_wait()? {
                    bail!("nsd has ended: {status}");
                }
                let query = ["kdig", &server, first, "SOA", "+time=1", "+retry=0"];
                let answer = self.node.run(query)?.ok()?;
                Ok(answer.contains("status: ").then_some(()))
            })?;
        Ok(nsd)
    }
}
