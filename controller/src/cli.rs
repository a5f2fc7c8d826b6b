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
