//! What this binary is, and what it was tested with.

/// The package's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The text of `--version`.
pub(crate) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("TSUNARO_COMMIT"),
    "\ntested with: tailscaled 1.102.4, headscale 0.29.2"
);
