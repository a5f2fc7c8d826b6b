use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Which request to which server failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// The server's URL.
    pub server: Arc<str>,
    /// Method and path below `/api/v1`, such as `GET /node`.
    pub request: String,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at Headscale {}", self.request, self.server)
    }
}

/// How far an exchange came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Name resolution, TCP and TLS: nothing was asked yet.
    Connecting,
    /// The request may have arrived and may have been carried out.
    Answering,
}

/// Why Headscale gave no answer, by what a caller does about it.
///
/// Texts that come from the server are shortened, freed of control characters and of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The node, key or policy is not there (any more). For a deletion that is success.
    #[error("{at}: not found: {message}")]
    NotFound {
        /// What was asked.
        at: At,
        /// The server's words.
        message: String,
    },
    /// It contradicts what is there. Read again, then decide.
    #[error("{at}: conflict: {message}")]
    Conflict {
        /// What was asked.
        at: At,
        /// The server's words.
        message: String,
    },
    /// The API key is not accepted (401, or 403 of a proxy). A person has to renew it.
    #[error(
        "{at}: the API key is refused with {status}: it is unknown or has expired; create one with \
         `headscale apikeys create` and put it into the Secret"
    )]
    Unauthorized {
        /// What was asked.
        at: At,
        /// HTTP status.
        status: u16,
    },
    /// A tag of a new key is not acceptable. A person has to change the tag or the policy.
    #[error("{at}: a tag is refused: {message}")]
    InvalidTag {
        /// What was asked.
        at: At,
        /// The server's words.
        message: String,
    },
    /// The request is wrong, such as a policy that does not parse. Repeating it does not help.
    #[error("{at}: refused with {status}: {message}")]
    Rejected {
        /// What was asked.
        at: At,
        /// HTTP status.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The policy is a file of the server. A person has to change that, or use policy mode Observe.
    #[error(
        "{at}: this Headscale reads its policy from a file: set `policy.mode: database` in its \
         configuration, or leave the policy to its administrator ({message})"
    )]
    PolicyNotWritable {
        /// What was asked.
        at: At,
        /// The server's words.
        message: String,
    },
    /// This Headscale cannot do that; nothing was changed. A person has to update it.
    #[error("{at}: this Headscale ({version}) cannot do that: it needs {needs} or newer")]
    Unsupported {
        /// What was asked.
        at: At,
        /// The server's version.
        version: String,
        /// The version that can.
        needs: &'static str,
    },
    /// The server cannot be reached or does not serve now (429, 502, 503, 504). Try again later.
    #[error("{at}: not available: {cause}")]
    Unavailable {
        /// What was asked.
        at: At,
        /// How far it came.
        phase: Phase,
        /// What failed.
        cause: String,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// No whole answer in time. Try again later.
    #[error("{at}: no answer within {after:?}")]
    Timeout {
        /// What was asked.
        at: At,
        /// How far it came.
        phase: Phase,
        /// How long was waited.
        after: Duration,
    },
    /// The server's certificate is not good for us. A person has to look.
    #[error(
        "{at}: the certificate is not trusted ({detail}): put the certificate authority into the CA \
         bundle, or correct the name in the URL"
    )]
    Untrusted {
        /// What was asked.
        at: At,
        /// What is wrong with it.
        detail: String,
    },
    /// Something that is not Headscale's REST interface is there. A person has to look.
    #[error("{at}: this is not Headscale's REST interface ({detail}): correct the URL")]
    NotHeadscale {
        /// What was asked.
        at: At,
        /// What was found instead.
        detail: String,
    },
    /// A request or an answer is longer than we take.
    #[error("{at}: {what} has more than {limit} bytes")]
    TooLarge {
        /// What was asked.
        at: At,
        /// The request or the answer.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// The server failed (500), for a reason that we do not know. Look into its log.
    #[error("{at}: Headscale failed: {message}")]
    Internal {
        /// What was asked.
        at: At,
        /// The server's words.
        message: String,
    },
    /// The server answered something else than we know: most likely a version that we do not.
    #[error("{at}: the answer is not what Headscale 0.28 or 0.29 sends: {detail}")]
    Decode {
        /// What was asked.
        at: At,
        /// Where and why.
        detail: String,
    },
}

impl Error {
    /// Whether the same call may succeed later without anyone doing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Timeout { .. })
    }

    /// Whether the object of the call is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the request may have been carried out although no answer came.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Unavailable { phase, .. } | Self::Timeout { phase, .. } => {
                *phase == Phase::Answering
            }
            Self::Decode { .. }
            | Self::TooLarge {
                what: "the answer", ..
            } => true,
            // A panic of the handler is a 500 too, and may come after the work.
            Self::Internal { .. } => true,
            _ => false,
        }
    }

    /// How long the server asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
