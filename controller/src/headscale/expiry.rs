use jiff::Timestamp;

/// Start of year 2. Go's zero time lies before it.
const YEAR_TWO: Timestamp = Timestamp::constant(-62_104_060_800, 0);

/// When something stops being valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    Never,
    /// From this moment on.
    At(Timestamp),
}

impl Expiry {
    /// Whether it is over at `now`.
    pub fn is_over(self, now: Timestamp) -> bool {
        match self {
            Self::Never => false,
            Self::At(at) => at <= now,
        }
    }

    /// A node's: absent and Go's zero time both mean never (`Node.IsExpired`,
    /// hscontrol/types/node.go).
    pub(super) fn of_node(expiry: Option<Timestamp>) -> Self {
        expiry
            .filter(|at| *at >= YEAR_TWO)
            .map_or(Self::Never, Self::At)
    }

    /// A key's: absent means never, but Go's zero time is a moment in the past, and a key that was
    /// minted without an expiration has it (`PreAuthKey.Validate`, hscontrol/types/preauth_key.go).
    pub(super) fn of_key(expiration: Option<Timestamp>) -> Self {
        expiration.map_or(Self::Never, Self::At)
    }
}

#[cfg(test)]
mod tests;
