use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::uri::{Authority, Scheme};

/// Why a text is no URL of a Headscale.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Not an absolute URL.
    #[error("it is no URL: write it as https://headscale.example.com")]
    NotAUrl,
    /// Another scheme than https and http.
    #[error("its scheme is neither https nor http")]
    Scheme,
    /// User or password in it.
    #[error("it has a user or a password in it: the API key goes into its Secret")]
    Credentials,
    /// A path, a query, or both.
    #[error("it has a path or a query: write scheme, host and port only")]
    Path,
}

/// Where a Headscale is: scheme, host and port.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    text: Arc<str>,
    scheme: Security,
    host: String,
    port: u16,
}

/// Whether the connection is TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    Tls,
    Plain,
}

impl ServerUrl {
    /// Reads an URL such as `https://headscale.example.com:8443`.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let uri: Uri = text.trim().parse().map_err(|_| InvalidUrl::NotAUrl)?;
        let scheme = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => Security::Tls,
            Some(scheme) if *scheme == Scheme::HTTP => Security::Plain,
            Some(_) => return Err(InvalidUrl::Scheme),
            None => return Err(InvalidUrl::NotAUrl),
        };
        let authority = uri.authority().ok_or(InvalidUrl::NotAUrl)?;
        if authority.as_str().contains('@') {
            return Err(InvalidUrl::Credentials);
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(InvalidUrl::Path);
        }
        let (name, default_port) = match scheme {
            Security::Tls => ("https", 443),
            Security::Plain => ("http", 80),
        };
        let port = explicit_port(authority)?;
        if authority.host().is_empty() {
            return Err(InvalidUrl::NotAUrl);
        }
        let shown = match port {
            Some(port) if port != default_port => format!("{}:{port}", authority.host()),
            _ => authority.host().to_owned(),
        };
        Ok(Self {
            text: format!("{name}://{shown}").into(),
            scheme,
            host: authority.host().to_owned(),
            port: port.unwrap_or(default_port),
        })
    }

    /// Whether calls, and the API key with them, go over the network in the clear.
    pub fn is_plaintext(&self) -> bool {
        self.scheme == Security::Plain
    }

    pub(super) fn security(&self) -> Security {
        self.scheme
    }

    /// The name or address to connect to, an IPv6 address without its brackets.
    pub(super) fn host(&self) -> &str {
        self.host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(&self.host)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The `Host` header: what follows the scheme.
    pub(super) fn authority(&self) -> &str {
        self.text
            .split_once("://")
            .map_or(&self.text, |(_, authority)| authority)
    }

    pub(super) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }
}

/// The port, if one is written: `Authority::port_u16` takes one out of range for none. An empty one,
/// as in `https://host:`, is the default one (RFC 3986, section 3.2.3).
fn explicit_port(authority: &Authority) -> Result<Option<u16>, InvalidUrl> {
    let after_host = authority.as_str().strip_prefix(authority.host());
    match after_host.map(|rest| rest.strip_prefix(':').unwrap_or(rest)) {
        None | Some("") => Ok(None),
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => Err(InvalidUrl::NotAUrl),
            Ok(port) => Ok(Some(port)),
        },
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({})", self.text)
    }
}

#[cfg(test)]
mod tests;
