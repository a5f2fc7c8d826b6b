//! Keeps keys out of what the daemon's words end up in: errors, logs, the status report.

use tsunaro_model::tailnet::AuthKey;

/// Longest text of the daemon that we repeat, in characters.
const MAX_CHARS: usize = 512;

const REDACTED: &str = "[redacted]";

/// How secrets of Headscale and Tailscale begin (pre-auth, API and private keys).
const SECRET_PREFIXES: [&str; 4] = ["hskey-", "tskey-", "privkey:", "nlpriv:"];

/// Cleans texts of the daemon. It holds secrets, so it has no `Debug`.
#[derive(Default)]
pub(crate) struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Also removes this very key, whatever it looks like.
    pub(crate) fn knowing(key: &AuthKey) -> Self {
        let raw = key.secret().to_owned();
        let quoted = serde_json::Value::from(key.secret()).to_string();
        let quoted = quoted.trim_matches('"').to_owned();
        // The escaped form contains the raw one's beginning, so it goes first.
        Self {
            secrets: vec![quoted, raw],
        }
    }

    /// The text without secrets and control characters, shortened.
    pub(crate) fn clean(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in self.secrets.iter().filter(|secret| !secret.is_empty()) {
            clean = clean.replace(secret.as_str(), REDACTED);
        }
        for prefix in SECRET_PREFIXES {
            clean = without_tokens(&clean, prefix);
        }
        let mut short: String = clean
            .trim()
            .chars()
            .take(MAX_CHARS)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if clean.trim().chars().nth(MAX_CHARS).is_some() {
            short.push('…');
        }
        short
    }
}

fn without_tokens(text: &str, prefix: &str) -> String {
    let mut parts = text.split(prefix);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str(REDACTED);
        clean.push_str(
            part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')),
        );
    }
    clean
}

#[cfg(test)]
mod tests;
