//! The command line of the controller.

mod version;

use clap::Parser;

/// The controller of the gateways of a Headscale tailnet.
#[derive(Debug, Parser)]
#[command(name = "tsunaro-controller", version = version::VERSION, long_version = version::LONG, max_term_width = 100)]
struct Cli {}

fn main() {
    let Cli {} = Cli::parse();
}
