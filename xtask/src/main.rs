//! The project's own commands: test, architecture, peers.

use anyhow::Result;
use clap::Parser;
use tsunaro_integration::{packages, peers::Peers};

/// The project's own commands.
#[derive(Parser)]
enum Command {
    /// Install the Debian packages that the test lab needs; as root.
    Packages,
    /// Build the pinned tailscaled, Headscale and CoreDNS into the cache.
    Peers,
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Packages => packages::install(),
        Command::Peers => {
            let Peers {
                tailscale,
                tailscaled,
                headscale,
                coredns,
            } = Peers::ensure()?;
            for path in [tailscale, tailscaled, headscale, coredns] {
                println!("{}", path.display());
            }
            Ok(())
        }
    }
}
