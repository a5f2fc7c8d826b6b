//! What tailscaled says of itself, in our words.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::{IpNet, Ipv4Net};

use crate::name::DnsName;

/// tailscaled's state machine (`ipn.State`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// Just started, or the state store or control server was never reached.
    NoState,
    /// Another user owns it (never on Linux).
    InUseOtherUser,
    /// Logged out, expired or never logged in.
    NeedsLogin,
    /// Waits for an administrator's approval of the machine.
    NeedsMachineAuth,
    /// Logged in, but told not to run (`tailscale down`).
    Stopped,
    /// Logged in and connecting.
    Starting,
    /// Logged in with a network map.
    Running,
}

/// A daemon's preferences, as far as a gateway cares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefs {
    /// Advertised prefixes, in the daemon's order, exit routes included.
    pub advertise_routes: Vec<IpNet>,
    /// Advertised entries that are no prefix; tailscaled accepts an empty text, for one. Any of
    /// them means that the advertised set is not ours.
    pub unreadable_routes: Vec<String>,
    /// The user who may change prefs besides root.
    pub operator_user: String,
    /// False after `tailscale down`.
    pub want_running: bool,
    /// True after `tailscale logout`.
    pub logged_out: bool,
    /// Accepts other nodes' routes (`--accept-routes`).
    pub route_all: bool,
    /// Lets the tailnet manage resolv.conf (`--accept-dns`).
    pub corp_dns: bool,
    /// Does not masquerade subnet traffic (`--snat-subnet-routes=false`).
    pub no_snat: bool,
    /// Refuses incoming connections (`--shields-up`).
    pub shields_up: bool,
    /// The node used as exit node, empty for none.
    pub exit_node: String,
    /// The control server's URL.
    pub control_url: String,
    /// The host name given to the control server.
    pub hostname: String,
}

/// `GET /localapi/v0/status`, as far as a gateway cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonStatus {
    /// tailscaled's version.
    pub version: String,
    /// Its state.
    pub backend: Backend,
    /// A node key exists, be it expired or not.
    pub have_node_key: bool,
    /// Tailnet addresses of this node.
    pub addresses: Vec<IpAddr>,
    /// Warnings of the daemon, for people.
    pub health: Vec<String>,
    /// Where to log in interactively, empty for none.
    pub auth_url: String,
    /// This node as the control server sees it.
    pub node: Option<NodeStatus>,
}

/// This node as the control server sees it. Approvals are left out on purpose: they lag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Stable node id.
    pub id: String,
    /// Host name.
    pub hostname: String,
    /// Tags, such as `tag:fabric`.
    pub tags: Vec<String>,
    /// Connected to the control server.
    pub online: bool,
    /// RFC 3339 time at which the node key expires; None for never.
    pub key_expiry: Option<String>,
    /// The node key has expired.
    pub expired: bool,
}

/// One thing that tailscaled finds wrong with itself (`health.UnhealthyState`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthWarning {
    /// Stable code, such as [`HealthWarning::STATE_STORE`].
    pub code: String,
    /// Text for people.
    pub text: String,
    /// It says that traffic suffers.
    pub impacts_connectivity: bool,
}

impl HealthWarning {
    /// The state store could not be opened: logins are refused until the process is restarted
    /// (`ipn.StateStoreHealth`).
    pub const STATE_STORE: &str = "state-store-health";
    /// How the text of that warning begins, which is all that the status shows of it.
    pub const STATE_STORE_WORDS: &str = "State store failed to initialize";
    /// Logged out; the text holds the last login's error (`health.LoginStateWarnable`).
    pub const LOGIN_STATE: &str = "login-state";
}

/// The tailnet's DNS settings as the control server sent them to this node, applied or not
/// (`tailcfg.DNSConfig`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TailnetDns {
    /// Split DNS: which resolvers answer for a zone. An empty list means tailscaled's own resolver.
    pub routes: BTreeMap<DnsName, Vec<TailnetResolver>>,
    /// Zones left out of `routes` because they are no names.
    pub unreadable_zones: Vec<String>,
    /// MagicDNS is on.
    pub magic_dns: bool,
}

/// A resolver of the tailnet's DNS settings (`dnstype.Resolver`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TailnetResolver {
    /// DNS over UDP and TCP, at port 53 unless told otherwise.
    Plain(SocketAddr),
    /// Anything else, such as the URL of a DNS-over-HTTPS server.
    Other(String),
}

/// A pre-auth key. Its text never shows in `Debug`, logs, status or errors.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthKey(String);

impl AuthKey {
    /// Takes the content of a key file; None when there is nothing but white space in it.
    pub fn from_file_content(content: &str) -> Option<Self> {
        let key = content.trim();
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    /// The text without the key in it.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "(key redacted)")
    }

    /// The secret itself, for the one request that needs it.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AuthKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthKey(redacted)")
    }
}

/// One change of preferences; what is None stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefsChange {
    /// The whole new set of advertised prefixes.
    pub advertise_routes: Option<Vec<Ipv4Net>>,
    /// Run or stop.
    pub want_running: Option<bool>,
    /// Accept other nodes' routes.
    pub route_all: Option<bool>,
    /// Let the tailnet manage resolv.conf.
    pub corp_dns: Option<bool>,
    /// Refuse incoming connections.
    pub shields_up: Option<bool>,
    /// Use no exit node.
    pub no_exit_node: bool,
    /// Do not masquerade subnet traffic.
    pub no_snat: Option<bool>,
}
