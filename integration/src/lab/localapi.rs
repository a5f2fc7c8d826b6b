//! tailscaled's LocalAPI, as much as the lab needs to log a node in and watch it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Sends one request; the answer's status and body.
pub(super) fn request(
    socket: &Path,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, String)> {
    let mut stream =
        UnixStream::connect(socket).with_context(|| format!("connect {}", socket.display()))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    // HTTP/1.0: the answer comes unchunked and ends with the connection.
    write!(
        stream,
        "{method} /localapi/v0/{path} HTTP/1.0\r\nHost: local-tailscaled.sock\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("an answer without a head")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .context("an answer without a status")?;
    Ok((status, body.to_owned()))
}

/// As [`request`], with any answer but 2xx as an error.
pub(super) fn call(socket: &Path, method: &str, path: &str, body: &str) -> Result<String> {
    let (status, answer) = request(socket, method, path, body)?;
    if !(200..300).contains(&status) {
        bail!("{method} {path}: {status}: {}", answer.trim());
    }
    Ok(answer)
}

/// The node's status.
pub(super) fn status(socket: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&call(socket, "GET", "status", "")?)?)
}
