//! Why the kernel could not be read.

use std::fmt;
use std::io;

use netlink_packet_core::DecodeError;
use thiserror::Error;

/// What was being read when an [`enum@Error`] came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The socket itself.
    Socket,
    /// Network interfaces.
    Links,
    /// Addresses of interfaces.
    Addresses,
    /// Forwarding and reverse path filter (netconf).
    Settings,
    /// IPv4 policy rules.
    Rules,
    /// Routes of table 52.
    Table52,
    /// The route to one host.
    Path,
    /// Notifications of changes.
    Changes,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket => "the netlink socket",
            Self::Links => "links",
            Self::Addresses => "addresses",
            Self::Settings => "IPv4 settings of interfaces",
            Self::Rules => "policy rules",
            Self::Table52 => "routes of table 52",
            Self::Path => "the route to a host",
            Self::Changes => "notifications of changes",
        })
    }
}

/// A failed reading. Nothing is half read: the caller has the whole view or this.
#[derive(Debug, Error)]
pub enum Error {
    /// The kernel, or a sandbox around it, refused (EPERM, EACCES). Trying again will not help.
    #[error("no permission to read {subject}: {source}")]
    Permission {
        /// What was read.
        subject: Subject,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This kernel cannot tell (EOPNOTSUPP, EAFNOSUPPORT and the like). Trying again will not help.
    #[error("this kernel does not support reading {subject}: {source}")]
    Unsupported {
        /// What was read.
        subject: Subject,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Any other failure of the socket.
    #[error("reading {subject} failed: {source}")]
    Io {
        /// What was read.
        subject: Subject,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel sent something that is no such message.
    #[error("the kernel's answer about {subject} is malformed: {source}")]
    Malformed {
        /// What was read.
        subject: Subject,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The state changed during each of several attempts to list it (NLM_F_DUMP_INTR).
    #[error("{subject} changed during each of {attempts} attempts to list them")]
    Interrupted {
        /// What was read.
        subject: Subject,
        /// How often it was tried.
        attempts: u32,
    },
}

impl Error {
    pub(crate) fn from_io(subject: Subject, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Permission { subject, source },
            Some(
                libc::EOPNOTSUPP
                | libc::EAFNOSUPPORT
                | libc::EPROTONOSUPPORT
                | libc::EPFNOSUPPORT
                | libc::ENOSYS,
            ) => Self::Unsupported { subject, source },
            _ => Self::Io { subject, source },
        }
    }
}
