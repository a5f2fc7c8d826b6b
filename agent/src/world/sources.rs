//! Config content on its way into the world.

use std::net::SocketAddr;
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
    let usable = !parsed.findings.iter().any(Finding::is_error);
    (parsed.config.filter(|_| usable), parsed.findings)
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
        let lines: Vec<String> = findings
            .iter()
            .map(|finding| finding.in_file(&state.path).to_string())
            .collect();
        let Some(config) = config else {
            state.error = Some(lines.join("\n"));
            return ConfigChange::Refused(lines);
        };
        let listen_differs = config.listen != self.config.listen;
        state.generation += 1;
        state.hash.clone_from(&content.hash);
        state.findings = lines;
        state.error = None;
        self.config = Arc::new(config);
        ConfigChange::Accepted { listen_differs }
    }
}
