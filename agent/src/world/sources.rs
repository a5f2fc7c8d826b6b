//! Config content on its way into the world.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tsunaro_model::config::{self, Config};
use tsunaro_model::finding::Finding;

use super::World;
use crate::files::{Content, ReadFault};

/// What there is to say about the config file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConfigState {
    /// Its path, as given.
    pub(crate) path: String,
    /// Counts up by one per accepted content.
    pub(crate) generation: u64,
    /// SHA-256 of the accepted content.
    pub(crate) hash: String,
    /// Warnings of the accepted content, as lines.
    pub(crate) findings: Vec<String>,
    /// Why the newest content is not in use.
    pub(crate) error: Option<String>,
}

/// What new config content led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConfigChange {
    /// The content in use, again.
    None,
    /// A new config is in use.
    Accepted {
        /// Its listen addresses differ from those the process started with.
        listen_differs: bool,
    },
    /// It is not used, for these reasons.
    Refused(Vec<String>),
}

/// Parses config content for a process that listens on `listeners`.
pub(crate) fn parse_config(
    text: &[u8],
    listeners: &[SocketAddr],
) -> (Option<Config>, Vec<Finding>) {
    let text = String::from_utf8_lossy(text);
    let mut parsed = config::parse(&text);
    if parsed.config.is_some() {
        parsed
            .findings
            .extend(parsed.check_upstreams_against(listeners));
    }
    let usable = !parsed.findings.iter().any(Finding::spoils_the_file);
    (parsed.config.filter(|_| usable), parsed.findings)
}

/// Findings shown at most of one config.
const MAX_LINES: usize = 100;

/// The first findings as lines, errors before warnings, and how many more there are.
pub(crate) fn first_lines(findings: &[Finding], path: &str) -> Vec<String> {
    let (errors, warnings): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.is_error());
    let mut lines: Vec<String> = errors
        .into_iter()
        .chain(warnings)
        .take(MAX_LINES)
        .map(|finding| finding.in_file(path).to_string())
        .collect();
    if findings.len() > MAX_LINES {
        let more = findings.len() - MAX_LINES;
        lines.push(format!(
            "{path}: {more} more findings; see tsunaro-agent check"
        ));
    }
    lines
}

/// The `nameserver` lines of resolv.conf (resolv.conf(5)).
pub(super) fn resolvers(text: &[u8]) -> Vec<IpAddr> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| line.strip_prefix("nameserver")?.trim().parse().ok())
        .collect()
}

/// The first of several lines, and how many more there are.
fn summary(lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

impl World {
    /// Takes in config content; what cannot be used changes nothing but the state's error.
    pub(crate) fn see_config(
        &mut self,
        content: &Result<Arc<Content>, ReadFault>,
        listeners: &[SocketAddr],
    ) -> ConfigChange {
        let state = &mut self.config_state;
        let content = match content {
            Ok(content) => content,
            Err(fault) => {
                let why = format!("{}: {fault}", state.path);
                state.error = Some(why.clone());
                return ConfigChange::Refused(vec![why]);
            }
        };
        if content.hash == state.hash {
            state.error = None;
            return ConfigChange::None;
        }
        let (config, findings) = parse_config(&content.bytes, listeners);
        let lines = first_lines(&findings, &state.path);
        let Some(config) = config else {
            state.error = Some(summary(&lines));
            return ConfigChange::Refused(lines);
        };
        let listen_differs = config.listen != self.started_with;
        state.generation += 1;
        state.hash.clone_from(&content.hash);
        state.findings = lines;
        if listen_differs {
            state.findings.push(format!(
                "{}: listen: the addresses changed; restart the agent to listen on them",
                state.path
            ));
        }
        state.error = None;
        self.use_config(config);
        ConfigChange::Accepted { listen_differs }
    }
}
