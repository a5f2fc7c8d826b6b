//! How a child ended, or why it could not be started.

use std::fmt;
use std::io;

use nix::libc;
use nix::sys::signal::Signal;
use rustix::process::WaitStatus;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It exited with this code.
    Code(u8),
    /// This signal killed it.
    Signal(i32),
}

impl End {
    /// The end that a wait tells of; None while the process lives on (stopped, continued).
    pub(super) fn of(status: WaitStatus) -> Option<Self> {
        if let Some(signal) = status.terminating_signal() {
            return Some(Self::Signal(signal));
        }
        // The kernel keeps only the low eight bits of what was given to exit.
        status
            .exit_status()
            .map(|code| Self::Code(u8::try_from(code).unwrap_or(u8::MAX)))
    }

    /// The code that a shell would exit with: the child's, or 128 and the signal's number.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => 128_u8.saturating_add(u8::try_from(number).unwrap_or(u8::MAX)),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(f, "signal {number} ({signal})"),
                Err(_) => write!(f, "signal {number}"),
            },
        }
    }
}

/// Why a command could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotStarted {
    /// There is no such file, neither at the path nor on PATH.
    NotFound,
    /// It may not be executed, or is no program of this machine.
    NotExecutable,
    /// The system had no room for it, or something else that may pass.
    Other,
}

impl NotStarted {
    /// Sorts the error of a start.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Self::NotFound,
            Some(libc::EACCES | libc::EPERM | libc::ENOEXEC | libc::EISDIR) => Self::NotExecutable,
            _ => Self::Other,
        }
    }

    /// The code that a shell would exit with (POSIX, Shell Command Language, 2.8.2); None where
    /// another try may work.
    pub(super) fn exit_code(self) -> Option<u8> {
        match self {
            Self::NotFound => Some(127),
            Self::NotExecutable => Some(126),
            Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_becomes_the_exit_code_and_the_words_of_a_shell() {
        for (end, code, words) in [
            (End::Code(0), 0, "exit code 0"),
            (End::Code(3), 3, "exit code 3"),
            (End::Code(255), 255, "exit code 255"),
            (End::Signal(9), 137, "signal 9 (SIGKILL)"),
            (End::Signal(15), 143, "signal 15 (SIGTERM)"),
            // A real-time signal has no name.
            (End::Signal(40), 168, "signal 40"),
        ] {
            assert_eq!((end.exit_code(), end.to_string()), (code, words.to_owned()));
        }
    }

    #[test]
    fn a_start_fails_for_ever_or_for_now() {
        for (errno, code) in [
            (libc::ENOENT, Some(127)),
            (libc::EACCES, Some(126)),
            (libc::ENOEXEC, Some(126)),
            (libc::EAGAIN, None),
            (libc::ENOMEM, None),
            (libc::ETXTBSY, None),
        ] {
            assert_eq!(
                NotStarted::of(&io::Error::from_raw_os_error(errno)).exit_code(),
                code,
                "{errno}"
            );
        }
    }
}
