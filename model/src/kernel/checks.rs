//! What the kernel must look like for a gateway to carry traffic, checked against one view.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;

use super::KernelView;

mod daemon;
mod opinions;
mod traffic;

/// The interface of kernel-mode tailscaled.
pub const INTERFACE: &str = "tailscale0";

/// The routing table of tailscaled on Linux (`tailscaleRouteTable` in its router).
pub const TABLE_TAILSCALE: u32 = 52;

/// The tailnet's own range, RFC 6598.
const TAILNET_RANGE: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10);

/// Whether this process has a tailscaled to look after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Routes are wanted: tailscaled and the kernel must carry them.
    Router,
    /// Only DNS: nobody expects a tailscaled here.
    DnsOnly,
}

/// What the checks need to know besides the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInputs {
    /// Whether routes are wanted at all.
    pub duty: Duty,
    /// The prefixes that the gateway wants to advertise.
    pub wanted: Vec<Ipv4Net>,
    /// Tailnet addresses of this node as tailscaled tells them; empty before the first login.
    pub tailnet_addresses: Vec<IpAddr>,
    /// The resolvers in this host's resolv.conf.
    pub resolvers: Vec<IpAddr>,
    /// Addresses of the control server; None while they are not known.
    pub control_server: Option<Vec<IpAddr>>,
    /// What tailscaled itself finds.
    pub opinions: Opinions,
}

/// What tailscaled's own checks say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opinions {
    /// Of IP forwarding.
    pub forwarding: Opinion,
    /// Of generic receive offload for UDP, without which forwarding is slow.
    pub udp_gro: Opinion,
}

/// The outcome of one of tailscaled's own checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Opinion {
    /// It was not asked, or gave no answer.
    #[default]
    NotAsked,
    /// It finds nothing.
    Fine,
    /// It warns, in these words.
    Warns(String),
}

/// A check's stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckName {
    /// tailscale0 is there and up.
    TailscaleInterface,
    /// tailscale0 has the tailnet address.
    TailscaleAddress,
    /// IPv4 packets are forwarded.
    Ipv4Forwarding,
    /// tailscaled's policy rules 5210–5270 are there.
    PolicyRules,
    /// Table 52 has routes, and a rule looks them up.
    Table52,
    /// Packets to a wanted prefix leave towards it.
    PathOut,
    /// No address or resolver of this host lies in the tailnet's range.
    TailnetRangeClash,
    /// No strict reverse path filter drops what the gateway forwards.
    ReversePathFilter,
    /// The control server can be reached without us.
    ControlServerOutside,
    /// tailscaled's own check of IP forwarding, a second opinion.
    TailscaledForwarding,
    /// UDP is forwarded fast, by tailscaled's own check.
    UdpGroForwarding,
    /// Netfilter lets the gateway's traffic pass; not readable without NET_ADMIN.
    Netfilter,
    /// TCP's MSS is clamped to the path's MTU; not readable without NET_ADMIN.
    MssClamping,
}

impl CheckName {
    /// The name as it shows in reports, metrics and the runbook.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TailscaleInterface => "TailscaleInterface",
            Self::TailscaleAddress => "TailscaleAddress",
            Self::Ipv4Forwarding => "Ipv4Forwarding",
            Self::PolicyRules => "PolicyRules",
            Self::Table52 => "Table52",
            Self::PathOut => "PathOut",
            Self::TailnetRangeClash => "TailnetRangeClash",
            Self::ReversePathFilter => "ReversePathFilter",
            Self::ControlServerOutside => "ControlServerOutside",
            Self::TailscaledForwarding => "TailscaledForwarding",
            Self::UdpGroForwarding => "UdpGroForwarding",
            Self::Netfilter => "Netfilter",
            Self::MssClamping => "MssClamping",
        }
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a check came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckState {
    /// As it should be.
    Ok,
    /// Traffic suffers or will.
    Failed {
        /// Stable, CamelCase.
        reason: &'static str,
        /// What is wrong, and the command that mends it.
        message: String,
    },
    /// Traffic passes, but something should be mended.
    Warned {
        /// Stable, CamelCase.
        reason: &'static str,
        /// What is wrong, and the command that mends it.
        message: String,
    },
    /// The view does not tell.
    Unknown {
        /// Stable, CamelCase.
        reason: &'static str,
        /// The command that shows it.
        command: String,
    },
}

/// One check of one view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCheck {
    /// Which.
    pub name: CheckName,
    /// The prefix it is about, for [`CheckName::PathOut`].
    pub prefix: Option<Ipv4Net>,
    /// The outcome.
    pub state: CheckState,
}

/// Runs every check that applies: without the duty to route only [`CheckName::TailnetRangeClash`].
/// The order is fixed; [`CheckName::PathOut`] comes once per wanted prefix.
pub fn check(view: &KernelView, inputs: &KernelInputs) -> Vec<KernelCheck> {
    let of = |name, state| KernelCheck {
        name,
        prefix: None,
        state,
    };
    let clash = of(
        CheckName::TailnetRangeClash,
        traffic::tailnet_range_clash(view, &inputs.resolvers),
    );
    if inputs.duty == Duty::DnsOnly {
        return vec![clash];
    }
    let mut checks = vec![
        of(CheckName::TailscaleInterface, daemon::interface(view)),
        of(
            CheckName::TailscaleAddress,
            daemon::address(view, &inputs.tailnet_addresses),
        ),
        of(
            CheckName::Ipv4Forwarding,
            traffic::forwarding(view, &inputs.wanted),
        ),
        of(CheckName::PolicyRules, daemon::policy_rules(view)),
        of(CheckName::Table52, daemon::table_52(view)),
    ];
    let own = view.own_ipv4();
    checks.extend(inputs.wanted.iter().map(|prefix| KernelCheck {
        name: CheckName::PathOut,
        prefix: Some(*prefix),
        state: traffic::path_out(view, *prefix, host_to_ask(*prefix, &own)),
    }));
    checks.extend([
        clash,
        of(
            CheckName::ReversePathFilter,
            traffic::reverse_path_filter(view, &inputs.wanted),
        ),
        of(
            CheckName::ControlServerOutside,
            opinions::control_server(inputs.control_server.as_deref(), &inputs.wanted),
        ),
        of(
            CheckName::TailscaledForwarding,
            opinions::forwarding(&inputs.opinions.forwarding),
        ),
        of(
            CheckName::UdpGroForwarding,
            opinions::udp_gro(&inputs.opinions.udp_gro),
        ),
        of(
            CheckName::Netfilter,
            needs_net_admin("nft list ruleset || iptables-save"),
        ),
        of(
            CheckName::MssClamping,
            needs_net_admin(
                "nft list ruleset | grep maxseg || iptables-save -t mangle | grep TCPMSS",
            ),
        ),
    ]);
    checks
}

/// The host to ask the kernel about for a prefix: its first host address, or the next one if that
/// is our own. A prefix that has only own addresses is asked by its first.
pub fn host_to_ask(prefix: Ipv4Net, own_addresses: &[Ipv4Addr]) -> Ipv4Addr {
    prefix
        .hosts()
        .find(|host| !own_addresses.contains(host))
        .or_else(|| prefix.hosts().next())
        .unwrap_or(prefix.addr())
}

fn failed(reason: &'static str, message: String) -> CheckState {
    CheckState::Failed { reason, message }
}

fn warned(reason: &'static str, message: String) -> CheckState {
    CheckState::Warned { reason, message }
}

fn unknown(reason: &'static str, command: impl Into<String>) -> CheckState {
    CheckState::Unknown {
        reason,
        command: command.into(),
    }
}

fn needs_net_admin(command: &str) -> CheckState {
    unknown("NeedsNetAdmin", command)
}

#[cfg(test)]
mod tests;
