//! The requests that we send.

use std::fmt;

use http::Method;

/// One request of the LocalAPI (`ipn/localapi/localapi.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Status,
    Prefs,
    EditPrefs,
    Start,
    LoginInteractive,
    CheckIpForwarding,
    CheckUdpGroForwarding,
    DnsConfig,
    Watch,
}

impl Endpoint {
    pub(crate) const fn method(self) -> Method {
        match self {
            Self::EditPrefs => Method::PATCH,
            Self::Start | Self::LoginInteractive => Method::POST,
            Self::Status
            | Self::Prefs
            | Self::CheckIpForwarding
            | Self::CheckUdpGroForwarding
            | Self::DnsConfig
            | Self::Watch => Method::GET,
        }
    }

    pub(crate) const fn path_and_query(self) -> &'static str {
        match self {
            // Peers make the reply grow with the tailnet, and we do not read them.
            Self::Status => "/localapi/v0/status?peers=false",
            Self::Prefs | Self::EditPrefs => "/localapi/v0/prefs",
            Self::Start => "/localapi/v0/start",
            Self::LoginInteractive => "/localapi/v0/login-interactive",
            Self::CheckIpForwarding => "/localapi/v0/check-ip-forwarding",
            Self::CheckUdpGroForwarding => "/localapi/v0/check-udp-gro-forwarding",
            Self::DnsConfig => "/localapi/v0/dns-config",
            // NotifyInitialState (2) + NotifyInitialPrefs (4) + NotifyInitialHealthState (128),
            // ipn/backend.go.
            Self::Watch => "/localapi/v0/watch-ipn-bus?mask=134",
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path_and_query();
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let name = path.strip_prefix("/localapi/v0/").unwrap_or(path);
        write!(f, "{} {name}", self.method())
    }
}
