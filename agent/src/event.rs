//! Everything that can happen to the agent, as one closed enum.

use std::net::IpAddr;

use ipnet::Ipv4Net;
use tsunaro_model::kernel::KernelView;
use tsunaro_model::kernel::checks::Opinions;
use tsunaro_model::plan::{Action, Refusal};
use tsunaro_model::tailnet::{DaemonStatus, Prefs, TailnetDns};

use crate::files::FileSeen;
use crate::zone_builder::Built;

/// What the main loop reacts to.
#[derive(Debug)]
pub(crate) enum Event {
    /// A watched file has new content, or cannot be read in a new way.
    File(FileSeen),
    /// The zone was rebuilt.
    Built(Built),
    /// tailscaled was read, or lost.
    Tailnet(TailnetSeen),
    /// A write to tailscaled came to its end.
    Applied {
        /// What was written.
        action: Action,
        /// The prefs read back, or why it was refused.
        result: Result<Option<Prefs>, Refusal>,
    },
    /// The agent asked itself: the listening addresses that did not answer, with the reason.
    Probed(Vec<String>),
    /// The kernel was read, or could not be.
    Kernel(Result<KernelView, String>),
    /// The control server's name was resolved anew.
    ControlServer(Vec<IpAddr>),
}

/// One reading of tailscaled.
#[derive(Debug)]
pub(crate) enum TailnetSeen {
    /// It answers.
    Read {
        /// Its status.
        status: Box<DaemonStatus>,
        /// Its preferences.
        prefs: Box<Prefs>,
        /// What the control server tells clients about DNS; None without a network map.
        dns: Option<TailnetDns>,
        /// What its own checks say.
        opinions: Opinions,
    },
    /// The control server refused a login, for this reason.
    LoginRefused(String),
    /// It cannot be reached, with the fix.
    Lost(String),
}

/// What the kernel watcher must look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KernelQuestion {
    /// False: nothing asks for the kernel's state, it is not read.
    pub(crate) read: bool,
    /// Prefixes whose paths matter.
    pub(crate) prefixes: Vec<Ipv4Net>,
}
