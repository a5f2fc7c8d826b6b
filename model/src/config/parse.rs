//! From text to config: first structure, then meaning; both collect every remark.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Config, meaning, structure};
use crate::document::tree;
use crate::finding::{Finding, Place, Position, Report, quoted};

/// What a config file says, and all remarks about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The config, without the entries that cannot be used. None exactly when a finding spoils the
    /// whole file.
    pub config: Option<Config>,
    /// All remarks, by position.
    pub findings: Vec<Finding>,
    upstreams: Vec<Upstream>,
}

/// An upstream of an extra zone and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) place: Place,
}

/// Parses and checks a config file. Total: any text gives either a config or at least one error.
pub fn parse(text: &str) -> Parsed {
    // Editors on Windows begin files with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut report = Report::default();
    let (config, upstreams) = match tree::read(text, &mut report) {
        Some(root) if !root.is_nothing() => match structure::document(&root, &mut report) {
            Some(document) => meaning::config(document, &mut report),
            None => (None, Vec::new()),
        },
        Some(_) => {
            empty(&mut report);
            (None, Vec::new())
        }
        None => {
            if !report.has_errors() {
                empty(&mut report);
            }
            (None, Vec::new())
        }
    };
    let config = config.filter(|_| !report.is_spoiled());
    Parsed {
        config,
        findings: report.into_sorted(),
        upstreams,
    }
}

fn empty(report: &mut Report) {
    let place = tree::whole_file(Position { line: 1, column: 1 });
    let fix = format!(
        "begin with `apiVersion: {}`, `kind: {}` and `dns:`",
        structure::API_VERSION,
        structure::KIND
    );
    report.error(&place, "the file is empty", fix);
}

impl Parsed {
    /// Errors for upstreams that are one of our own listening addresses (rule 4 of the DNS
    /// contract): each query would come back to us. `listeners` are the addresses in effect, since
    /// flags win over the file. A listener on all addresses stands for every loopback address.
    pub fn check_upstreams_against(&self, listeners: &[SocketAddr]) -> Vec<Finding> {
        let mut report = Report::default();
        for Upstream { address, place } in &self.upstreams {
            if let Some(listener) = listeners
                .iter()
                .find(|listener| reaches(**listener, *address))
            {
                let what = format!(
                    "the upstream {} is this gateway itself, which listens on {}",
                    quoted(&address.to_string()),
                    quoted(&listener.to_string())
                );
                report.error(place, what, "name the DNS server that knows this zone");
            }
        }
        report.into_sorted()
    }
}

/// True when a query to `upstream` surely arrives at `listener`.
fn reaches(listener: SocketAddr, upstream: SocketAddr) -> bool {
    let listening = listener.ip().to_canonical();
    let asked = upstream.ip().to_canonical();
    listener.port() == upstream.port()
        && match listening {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => asked.is_ipv4() && asked.is_loopback(),
            // A socket on `[::]` takes IPv4 as well, unless the system says otherwise.
            IpAddr::V6(v6) if v6.is_unspecified() => asked.is_loopback(),
            _ => listening == asked,
        }
}
