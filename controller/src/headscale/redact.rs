//! Keeps keys out of what a server's words end up in: errors, logs, conditions.

/// Longest text of the server that we repeat, in characters.
pub(super) const MAX_CHARS: usize = 512;

const REDACTED: &str = "[redacted]";

/// How secrets of Headscale and Tailscale begin (API, pre-auth and private keys).
const SECRET_PREFIXES: [&str; 4] = ["hskey-", "tskey-", "privkey:", "nlpriv:"];

/// What comes before a bearer token (RFC 6750 §2.1).
const BEARER: &str = "Bearer ";
/// How a JWT begins: `{"` in base64.
const JWT: &str = "eyJ";
/// What is in both besides letters and digits.
const TOKEN: &str = "-._~+/=";

/// The text without this secret, without anything that looks like a key, without control
/// characters, shortened.
pub(crate) fn clean(text: &str, secret: &str) -> String {
    let mut clean = text.to_owned();
    if !secret.is_empty() {
        clean = clean.replace(secret, REDACTED);
    }
    for prefix in SECRET_PREFIXES {
        clean = without_tokens(&clean, prefix, "", "-_");
    }
    clean = without_tokens(&clean, BEARER, BEARER, TOKEN);
    clean = without_tokens(&clean, JWT, "", TOKEN);
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

/// The text with `shown` in place of `prefix`, and nothing of what follows that in letters, digits and
/// `more`.
fn without_tokens(text: &str, prefix: &str, shown: &str, more: &str) -> String {
    let mut parts = text.split(prefix);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str(shown);
        // A JWT has the beginning of one in its middle.
        if !part.starts_with(REDACTED) && !clean.ends_with(REDACTED) {
            clean.push_str(REDACTED);
        }
        clean.push_str(
            part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || more.contains(c)),
        );
    }
    clean
}

#[cfg(test)]
mod tests;
