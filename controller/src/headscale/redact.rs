//! Keeps keys out of what a server's words end up in: errors, logs, conditions.

/// Longest text of the server that we repeat, in characters.
pub(super) const MAX_CHARS: usize = 512;

const REDACTED: &str = "[redacted]";

/// How secrets of Headscale and Tailscale begin (API, pre-auth and private keys).
const SECRET_PREFIXES: [&str; 4] = ["hskey-", "tskey-", "privkey:", "nlpriv:"];

/// The text without this secret, without anything that looks like a key, without control
/// characters, shortened.
pub(crate) fn clean(text: &str, secret: &str) -> String {
    let mut clean = text.to_owned();
    if !secret.is_empty() {
        clean = clean.replace(secret, REDACTED);
    }
    for prefix in SECRET_PREFIXES {
        clean = without_tokens(&clean, prefix);
    }
    let clean = clean.trim();
    let mut short: String = clean
        .chars()
        .take(MAX_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if clean.chars().nth(MAX_CHARS).is_some() {
        short.push('…');
    }
    short
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
