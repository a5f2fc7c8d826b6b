//! GET over HTTP/1.1, one connection each.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

const TIMEOUT: Duration = Duration::from_secs(2);

/// What a GET came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HttpSeen {
    Reply {
        status: u16,
        body: String,
    },
    /// Nothing listens, or the connection was cut.
    Refused,
}

pub(crate) fn get(server: SocketAddr, path: &str) -> Result<HttpSeen> {
    match try_get(server, path) {
        Ok(text) if text.is_empty() => Ok(HttpSeen::Refused),
        Ok(text) => parse(&text),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
            ) =>
        {
            Ok(HttpSeen::Refused)
        }
        Err(error) => Err(error).with_context(|| format!("GET http://{server}{path}")),
    }
}

fn try_get(server: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets)?;
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

fn parse(text: &str) -> Result<HttpSeen> {
    let (head, body) = text
        .split_once("\r\n\r\n")
        .context("an HTTP reply without an end of its head")?;
    let status = head
        .split_whitespace()
        .nth(1)
        .context("no status")?
        .parse()?;
    Ok(HttpSeen::Reply {
        status,
        body: body.to_owned(),
    })
}
