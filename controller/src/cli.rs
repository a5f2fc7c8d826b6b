//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::version;

/// Gateways between Kubernetes clusters and a Headscale tailnet.
#[derive(Debug, Parser)]
#[command(name = "tsunaro-controller", version = version::VERSION, long_version = version::LONG, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Reconcile the gateways of a cluster until SIGTERM.
    Run(RunArgs),
    /// Move the traffic of a gateway, or of another router, to its approved standby: nothing is lost,
    /// and the approvals end as they were. The running controller does it. Exit code 0: done, also if
    /// there was nothing to move, 1: refused, 2: nobody answered.
    Handover(HandoverArgs),
    /// Print the nine objects of each gateway, in the order in which they are applied. Needs no
    /// cluster. Exit code 0: printed, 1: findings, 2: wrong usage.
    Render(RenderArgs),
    /// Check custom resources. Needs no cluster. Exit code 0: valid, 1: findings, 2: wrong usage.
    Check(CheckArgs),
    /// Print the definitions of the custom resources, for `kubectl apply`.
    Crds(CrdsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// A file with custom resources, in YAML or JSON, or a directory of such files; `-` is standard
    /// input. Repeatable. Objects of other groups are left alone.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Where the objects live.
    #[arg(
        short,
        long,
        env = "TSUNARO_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "tsunaro-system",
        value_parser = namespace
    )]
    pub(crate) namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// A file with the gateways as they are in the cluster, from `kubectl get tailnetgateways -o yaml`:
    /// changes of what cannot change any more are findings too.
    #[arg(long, value_name = "FILE")]
    pub(crate) live: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CrdsArgs {
    /// Write one file per definition into this directory instead.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HandoverArgs {
    /// A TailnetGateway.
    #[arg(
        value_name = "NAME",
        required_unless_present = "node",
        conflicts_with = "node"
    )]
    pub(crate) gateway: Option<String>,
    /// A router by its name at Headscale; it need not be a gateway of this cluster.
    #[arg(long, value_name = "NODE", requires = "tailnet")]
    pub(crate) node: Option<String>,
    /// The Tailnet of the node.
    #[arg(long, value_name = "TAILNET", requires = "node")]
    pub(crate) tailnet: Option<String>,
    /// The controller's namespace.
    #[arg(
        short,
        long,
        env = "TSUNARO_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "tsunaro-system"
    )]
    pub(crate) namespace: String,
    /// Seconds to wait for the controller.
    #[arg(long, value_name = "SECONDS", default_value_t = 45, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Where the objects of gateways live.
    #[arg(
        short,
        long,
        env = "TSUNARO_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "tsunaro-system"
    )]
    pub(crate) namespace: String,
    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    #[arg(
        long,
        env = "TSUNARO_HTTP_LISTEN",
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:9182"
    )]
    pub(crate) http_listen: std::net::SocketAddr,
    /// Seconds between two lists of a tailnet's nodes, for all gateways together; a second while a
    /// gateway is not settled.
    #[arg(long, env = "TSUNARO_HEADSCALE_INTERVAL", value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) headscale_interval: u64,
    /// Seconds between two looks at a gateway of which nothing is heard.
    #[arg(long, env = "TSUNARO_RESYNC", value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(5..=86400))]
    pub(crate) resync: u64,
    /// Whether to work only while holding a Lease, so that several controllers may run.
    #[arg(long, env = "TSUNARO_LEADER_ELECT", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,
    /// Name of the Lease, in the namespace.
    #[arg(
        long,
        env = "TSUNARO_LEASE_NAME",
        value_name = "NAME",
        default_value = "tsunaro-controller"
    )]
    pub(crate) lease_name: String,
    /// Seconds after which another controller takes a Lease that was not renewed. It is renewed five
    /// times as often; a holder that cannot stops working after two thirds, and goes on trying.
    #[arg(long, env = "TSUNARO_LEASE_DURATION", value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=600))]
    pub(crate) lease_duration: u64,
    /// How log lines are written.
    #[arg(
        long,
        env = "TSUNARO_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "json"
    )]
    pub(crate) log_format: LogFormat,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// A namespace's name: a label (RFC 1123).
fn namespace(text: &str) -> Result<String, String> {
    let fits = (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if fits {
        Ok(text.to_owned())
    } else {
        Err("write at most 63 of a-z, 0-9 and `-`, not beginning or ending with `-`".to_owned())
    }
}
