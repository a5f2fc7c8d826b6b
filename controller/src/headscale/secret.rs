use std::fmt;

use http::HeaderValue;

/// Characters of a new key's public part (`NewAPIKeyPrefixLength`, hscontrol/types/api_key.go).
const PREFIX_LENGTH: usize = 12;
/// Characters of an old key's public part, before a dot.
const OLD_PREFIX_LENGTH: usize = 7;
const NEW_KEY: &str = "hskey-api-";

/// An API key of Headscale. Its text never shows in `Debug`, logs or errors.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    text: String,
    authorization: HeaderValue,
}

/// Why a text is no API key. The text is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidApiKey {
    /// Nothing but white space.
    #[error("it is empty: put the output of `headscale apikeys create` there")]
    Empty,
    /// A key, but of the kind that nodes log in with.
    #[error(
        "it is a pre-auth key, which only logs nodes in: put the output of `headscale apikeys create` there"
    )]
    PreAuthKey,
    /// White space within, control characters, or not ASCII.
    #[error(
        "it has white space or characters other than ASCII in it: put the output of `headscale apikeys create` there, and nothing else"
    )]
    Characters,
}

impl ApiKey {
    /// Takes a Secret's content; white space around it is dropped.
    pub fn parse(content: &str) -> Result<Self, InvalidApiKey> {
        let text = content.trim();
        if text.is_empty() {
            return Err(InvalidApiKey::Empty);
        }
        if text.starts_with("hskey-auth-") {
            return Err(InvalidApiKey::PreAuthKey);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidApiKey::Characters);
        }
        let mut authorization = HeaderValue::try_from(format!("Bearer {text}"))
            .map_err(|_| InvalidApiKey::Characters)?;
        authorization.set_sensitive(true);
        Ok(Self {
            text: text.to_owned(),
            authorization,
        })
    }

    pub(super) fn secret(&self) -> &str {
        &self.text
    }

    pub(super) fn authorization(&self) -> HeaderValue {
        self.authorization.clone()
    }

    /// How Headscale names this key in its list (`APIKey.Proto`, hscontrol/types/api_key.go).
    pub(super) fn listed_as(&self) -> Option<String> {
        if let Some(rest) = self.text.strip_prefix(NEW_KEY) {
            let prefix = rest.get(..PREFIX_LENGTH)?;
            return Some(format!("{NEW_KEY}{prefix}-***"));
        }
        let (prefix, _) = self.text.split_once('.')?;
        (prefix.len() == OLD_PREFIX_LENGTH).then(|| format!("{prefix}***"))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(redacted)")
    }
}

#[cfg(test)]
mod tests;
