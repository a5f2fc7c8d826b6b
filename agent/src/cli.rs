//! Flags and their environment variables. They win over the config file.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::version;

/// Split-DNS resolver and subnet-router agent beside a tailscaled.
#[derive(Debug, Parser)]
#[command(name = "tsunaro-agent", version = version::VERSION, long_version = version::LONG, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve DNS, keep tailscaled's login and routes as configured, report.
    Run(RunArgs),
    /// Check a config file and its hosts file. Exit code 0: valid, 1: findings, 2: wrong usage.
    Check(FileArgs),
    /// Say which source answers a query, and why; `explain route PREFIX` says how far a prefix got.
    /// Exit code 0: said (for a route: it is whole), 1: the files or the question cannot be
    /// understood, or the route is not whole, 2: wrong usage.
    Explain(ExplainArgs),
    /// Show the report of a running agent.
    Status(StatusArgs),
    /// Run a command as PID 1 of a container: start it again when it ends, pass signals on, reap.
    Supervise(SuperviseArgs),
    /// Copy this binary into a directory, such as one that another container runs it from.
    Install(InstallArgs),
}

/// Which files to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    /// The config file.
    #[arg(long, env = "TSUNARO_CONFIG", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The hosts file, instead of the one that the config names.
    #[arg(long, env = "TSUNARO_HOSTS", value_name = "FILE")]
    pub(crate) hosts: Option<PathBuf>,
    /// Octets that a hosts file may have at most.
    #[arg(long, env = "TSUNARO_HOSTS_MAX_BYTES", value_name = "OCTETS", default_value_t = 8 * 1024 * 1024)]
    pub(crate) hosts_max_bytes: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Where to serve DNS over UDP and TCP; repeatable. Default: listen.dns of the config, else
    /// [::]:53, or 0.0.0.0:53 on hosts without IPv6.
    #[arg(
        long,
        env = "TSUNARO_DNS_LISTEN",
        value_name = "ADDRESS:PORT",
        value_delimiter = ','
    )]
    pub(crate) dns_listen: Vec<SocketAddr>,
    /// Where to serve probes, status and metrics. Default: listen.http of the config, else port
    /// 9181 on the same address.
    #[arg(long, env = "TSUNARO_HTTP_LISTEN", value_name = "ADDRESS:PORT")]
    pub(crate) http_listen: Option<SocketAddr>,
    /// tailscaled's LocalAPI socket.
    #[arg(
        long,
        env = "TSUNARO_TAILSCALED_SOCKET",
        value_name = "FILE",
        default_value = "/run/tailscale/tailscaled.sock"
    )]
    pub(crate) tailscaled_socket: PathBuf,
    /// Form of the log.
    #[arg(long, env = "TSUNARO_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// How long to go on serving after SIGTERM before withdrawing the routes and closing, such as
    /// 5s or 500ms.
    #[arg(long, env = "TSUNARO_LAME_DUCK", value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) lame_duck: Duration,
    /// Leave the advertised routes in place when the agent stops, such as for a restart on a host
    /// whose tailscaled stays.
    #[arg(long, env = "TSUNARO_KEEP_ROUTES")]
    pub(crate) keep_routes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) running: RunningAgent,
    /// The name to ask for, absolute, a final dot is optional; or the word `route`.
    pub(crate) name: String,
    /// The record type, such as A, AAAA, TXT or TYPE65; after `route` the prefix.
    #[arg(default_value = "A")]
    pub(crate) rtype: String,
}

/// Which agent to ask for its report.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunningAgent {
    /// Where the running agent serves its status.
    #[arg(
        long,
        env = "TSUNARO_STATUS_ADDRESS",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9181"
    )]
    pub(crate) address: SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) running: RunningAgent,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
    /// Print it again at each change, until interrupted.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Tables for people.
    Table,
    /// The report as JSON.
    Json,
    /// The report as YAML.
    Yaml,
}

#[derive(Debug, Args)]
pub(crate) struct SuperviseArgs {
    /// The LocalAPI socket of the tailscaled that is supervised: it is then restarted, too, when it
    /// could not open its state store and fell back to memory.
    #[arg(long, env = "TSUNARO_TAILSCALED_SOCKET", value_name = "FILE")]
    pub(crate) tailscaled_socket: Option<PathBuf>,
    /// Form of the log.
    #[arg(long, env = "TSUNARO_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The directory, which must exist.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Reads `5s`, `500ms` or `2m`: digits and a unit.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("\"{text}\" is no time; write it like 5s, 500ms or 2m"))?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err(format!(
            "\"{text}\" has no unit that is known; write it like 5s, 500ms or 2m"
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_systemd_unit_starts_it_with_flags_that_exist() {
        let unit = include_str!("../../deploy/systemd/tsunaro-agent.service");
        let command = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="))
            .unwrap();
        let Command::Run(run) = Cli::parse_from(command.split(' ')).command else {
            panic!("{command}");
        };
        assert_eq!(run.files.config, PathBuf::from("/etc/tsunaro/gateway.yaml"));
        assert!(unit.contains("TimeoutStopSec=15s"), "lame duck and 10 s");
        assert_eq!(run.lame_duck, Duration::from_secs(5));
    }

    #[test]
    fn times_need_a_number_and_a_unit() {
        for (text, expected) in [
            ("5s", Some(Duration::from_secs(5))),
            ("500ms", Some(Duration::from_millis(500))),
            ("2m", Some(Duration::from_secs(120))),
            ("0s", Some(Duration::ZERO)),
            ("5", None),
            ("s", None),
            ("5h", None),
            ("-1s", None),
        ] {
            assert_eq!(parse_duration(text).ok(), expected, "{text}");
        }
    }
}
