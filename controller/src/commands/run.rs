//! `run`: the reconciler.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tsunaro_controller::cluster::Settings;
use tsunaro_controller::lease::Limits;
use tsunaro_controller::run::Election;

use crate::cli::{LogFormat, RunArgs};

pub(crate) fn run(args: RunArgs) -> Result<ExitCode> {
    let RunArgs {
        namespace,
        http_listen,
        headscale_interval,
        resync,
        leader_elect,
        lease_name,
        lease_duration,
        log_format,
    } = args;
    let (writer, _guard) = tracing_appender::non_blocking::NonBlockingBuilder::default()
        .lossy(true)
        .finish(std::io::stderr());
    // kube's own lines hold what the API server answered, Secrets too; each failure is told by us.
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,hyper=warn,tower=warn"))
        .add_directive("kube=off".parse()?)
        .add_directive("kube_client=off".parse()?);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false);
    match log_format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    let settings = Settings {
        namespace,
        headscale_interval: Duration::from_secs(headscale_interval),
        resync: Duration::from_secs(resync),
    };
    let election = if leader_elect {
        Election::Lease {
            name: lease_name,
            limits: Limits::of(Duration::from_secs(lease_duration)),
        }
    } else {
        Election::Alone
    };
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(tsunaro_controller::run::run(
            settings,
            http_listen,
            election,
        ))?;
    Ok(ExitCode::SUCCESS)
}
