//! Reads the report of a running agent over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tsunaro_model::report::StatusReport;

/// How long the agent may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A report with 3,000 routes is about a megabyte.
const MAX_REPORT: usize = 16 * 1024 * 1024;

/// The report of this moment.
///
/// # Errors
/// When nobody answers there, or not as an agent does.
pub(super) fn report(address: SocketAddr) -> Result<StatusReport> {
    let mut last = None;
    watch(address, "/status", |report| {
        last = Some(report);
        Ok(())
    })?;
    last.with_context(|| format!("{address} sent no report"))
}

/// Calls `show` with each report that `path` brings, until the agent hangs up.
///
/// # Errors
/// As [`report`], or those of `show`.
pub(super) fn watch(
    address: SocketAddr,
    path: &str,
    mut show: impl FnMut(StatusReport) -> Result<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let hint =
            || format!("no agent answers on {address}; give its --http-listen with --address");
        let (response, mut connection) = tokio::time::timeout(TIMEOUT, get(address, path))
            .await
            .with_context(hint)?
            .with_context(hint)?;
        let mut reading = std::pin::pin!(read_lines(response, &mut show));
        loop {
            tokio::select! {
                read = &mut reading => return read,
                ended = drive(&mut connection), if connection.is_some() => {
                    ended.with_context(hint)?;
                    // What came before the end is still to be read.
                    connection = None;
                }
            }
        }
    })
}

type Connection = hyper::client::conn::http1::Connection<TokioIo<TcpStream>, Empty<Bytes>>;

/// The response's head, and the connection if it has more to do.
async fn get(address: SocketAddr, path: &str) -> Result<(Response<Incoming>, Option<Connection>)> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut connection = Some(connection);
    let request = Request::get(path)
        .header(hyper::header::HOST, address.to_string())
        .body(Empty::new())?;
    let mut answer = std::pin::pin!(sender.send_request(request));
    loop {
        tokio::select! {
            response = &mut answer => return Ok((response?, connection)),
            ended = drive(&mut connection), if connection.is_some() => {
                ended?;
                connection = None;
            }
        }
    }
}

async fn drive(connection: &mut Option<Connection>) -> hyper::Result<()> {
    match connection {
        Some(connection) => connection.await,
        None => std::future::pending().await,
    }
}

async fn read_lines(
    response: Response<Incoming>,
    show: &mut impl FnMut(StatusReport) -> Result<()>,
) -> Result<()> {
    if !response.status().is_success() {
        bail!("it answers HTTP {}", response.status());
    }
    let mut body = response.into_body();
    let mut pending = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            pending.extend_from_slice(data);
        }
        while let Some(end) = pending.iter().position(|octet| *octet == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            show(serde_json::from_slice(&line).context("it sends no report of this version")?)?;
        }
        if pending.len() > MAX_REPORT {
            bail!("it sends more than any report holds");
        }
    }
    Ok(())
}
