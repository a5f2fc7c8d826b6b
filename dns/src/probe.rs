//! One question to a DNS server, to see that it answers for a zone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tsunaro_model::name::DnsName;

use crate::forward::ClientTransport;

/// How long an answer may take.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// Why a server does not answer as it should.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// Nothing came within [`TIMEOUT`].
    #[error("no answer within 1 s")]
    Timeout,
    /// The network's side.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Something came that is no answer for the zone.
    #[error("{0}")]
    Answer(String),
}

/// Asks `server` for the SOA of `apex`. A wildcard address is asked on loopback.
///
/// # Errors
/// When the answer is not the zone's own.
pub async fn ask_soa(
    server: SocketAddr,
    apex: &DnsName,
    transport: ClientTransport,
) -> Result<(), ProbeError> {
    let server = reachable(server);
    let id = rand::random();
    let request = question(id, apex)?;
    let exchange = async {
        match transport {
            ClientTransport::Udp => over_udp(server, &request).await,
            ClientTransport::Tcp => over_tcp(server, &request).await,
        }
    };
    let reply = tokio::time::timeout(TIMEOUT, exchange)
        .await
        .map_err(|_| ProbeError::Timeout)??;
    judge(id, &reply)
}

fn question(id: u16, apex: &DnsName) -> Result<Vec<u8>, ProbeError> {
    let name = Name::from_labels(apex.labels()).map_err(unfit)?;
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(name, RecordType::SOA));
    message.to_vec().map_err(unfit)
}

fn judge(id: u16, reply: &[u8]) -> Result<(), ProbeError> {
    let message = Message::from_vec(reply).map_err(unfit)?;
    let soa = message
        .answers
        .iter()
        .any(|record| record.record_type() == RecordType::SOA);
    match message.response_code {
        ResponseCode::NoError if message.id == id && soa => Ok(()),
        ResponseCode::NoError => Err(ProbeError::Answer("it answers something else".to_owned())),
        code => Err(ProbeError::Answer(format!("it answers {code}"))),
    }
}

async fn over_udp(server: SocketAddr, request: &[u8]) -> Result<Vec<u8>, ProbeError> {
    let any: IpAddr = if server.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(request).await?;
    let mut reply = vec![0; 1232];
    let length = socket.recv(&mut reply).await?;
    reply.truncate(length);
    Ok(reply)
}

async fn over_tcp(server: SocketAddr, request: &[u8]) -> Result<Vec<u8>, ProbeError> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(request.len()).map_err(unfit)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(request);
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut reply = vec![0; length.into()];
    stream.read_exact(&mut reply).await?;
    Ok(reply)
}

/// A socket bound to every address is asked on loopback.
fn reachable(server: SocketAddr) -> SocketAddr {
    let address = match server.ip() {
        IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        // A dual-stack socket takes IPv4 in, and hosts without IPv6 addresses have no ::1.
        IpAddr::V6(v6) if v6.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(address, server.port())
}

fn unfit(error: impl std::fmt::Display) -> ProbeError {
    ProbeError::Answer(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_where_nobody_listens_is_an_error_at_once() {
        let free = std::net::UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let apex = DnsName::parse_host("example.internal").unwrap();
        for transport in [ClientTransport::Udp, ClientTransport::Tcp] {
            let error = ask_soa(free, &apex, transport).await.unwrap_err();
            assert!(matches!(error, ProbeError::Io(_)), "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_that_stays_silent_is_given_up_after_a_second() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let apex = DnsName::parse_host("example.internal").unwrap();
        let address = silent.local_addr().unwrap();
        let error = ask_soa(address, &apex, ClientTransport::Udp)
            .await
            .unwrap_err();
        assert!(matches!(error, ProbeError::Timeout), "{error}");
    }
}
