use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Why the LocalAPI gave no answer, by what a caller does about it.
///
/// Texts that come from the daemon are shortened, freed of control characters and of keys.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no socket: tailscaled has not started yet, or was stopped in an orderly way. Try
    /// again later.
    #[error(
        "{} does not exist: start tailscaled, or mount the directory of its socket here",
        .socket.display()
    )]
    SocketAbsent {
        /// Path of the socket.
        socket: Arc<Path>,
    },
    /// A socket is there, but nothing listens: tailscaled died. Try again later.
    #[error(
        "{} refuses connections: tailscaled died and left its socket behind; restart it",
        .socket.display()
    )]
    SocketStale {
        /// Path of the socket.
        socket: Arc<Path>,
    },
    /// Something that is not tailscaled is at the path. A person has to look.
    #[error(
        "{} is not tailscaled's ({detail}): set the path of the socket that tailscaled was started with",
        .socket.display()
    )]
    NotTailscaled {
        /// Path of the socket.
        socket: Arc<Path>,
        /// What was found instead.
        detail: String,
    },
    /// We may not do that (403). A person has to change tailscaled's prefs or our uid.
    #[error(
        "tailscaled at {} forbids {request} ({message}): run as root, or let tailscaled's \
         OperatorUser name our user: `\"OperatorUser\": \"nobody\"` in its config file, or `tailscale \
         set --operator=nobody`, where nobody stands for the agent's user (uid 65534 in a Pod)",
        .socket.display()
    )]
    Forbidden {
        /// Path of the socket.
        socket: Arc<Path>,
        /// Method and name of the request.
        request: String,
        /// The daemon's words.
        message: String,
    },
    /// tailscaled's config file locks its prefs. A person has to change that file.
    #[error(
        "tailscaled at {} refuses to change prefs ({message}): set `\"Locked\": false` in its config \
         file and restart it",
        .socket.display()
    )]
    Locked {
        /// Path of the socket.
        socket: Arc<Path>,
        /// The daemon's words.
        message: String,
    },
    /// tailscaled says no for another reason, such as an unacceptable prefix. Repeating the same
    /// request does not help unless the state of the daemon changes.
    #[error("tailscaled at {} refuses {request} with {status}: {message}", .socket.display())]
    Rejected {
        /// Path of the socket.
        socket: Arc<Path>,
        /// Method and name of the request.
        request: String,
        /// HTTP status.
        status: u16,
        /// The daemon's words.
        message: String,
    },
    /// No whole answer in time. Try again later.
    #[error(
        "tailscaled at {} did not answer {request} within {after:?}: it hangs or the machine is overloaded",
        .socket.display()
    )]
    Timeout {
        /// Path of the socket.
        socket: Arc<Path>,
        /// Method and name of the request.
        request: String,
        /// How long was waited.
        after: Duration,
    },
    /// A body or a line of the bus is longer than we take.
    #[error("{request} with tailscaled at {}: more than {limit} bytes", .socket.display())]
    TooLarge {
        /// Path of the socket.
        socket: Arc<Path>,
        /// Method and name of the request, and which part of it.
        request: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The operating system or the connection failed. Try again later.
    #[error("{request} with tailscaled at {}: {cause}", .socket.display())]
    Io {
        /// Path of the socket.
        socket: Arc<Path>,
        /// Method and name of the request.
        request: String,
        /// What failed.
        cause: io::Error,
    },
    /// tailscaled answered something else than we know: most likely a version that we do not.
    #[error(
        "{request} with tailscaled at {}: the answer is not what tailscaled 1.102 sends: {detail}",
        .socket.display()
    )]
    Decode {
        /// Path of the socket.
        socket: Arc<Path>,
        /// Method and name of the request.
        request: String,
        /// Where and why.
        detail: String,
    },
}
