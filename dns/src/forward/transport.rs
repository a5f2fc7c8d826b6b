//! How queries reach upstreams.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// A way to upstreams; tests replace it.
pub trait Transport: Send + Sync + 'static {
    /// A UDP exchange with one upstream.
    type Channel: Channel;

    /// Opens an exchange from a fresh, unpredictable port.
    fn open(&self, upstream: SocketAddr) -> impl Future<Output = io::Result<Self::Channel>> + Send;

    /// Sends one message over TCP and returns the first one that comes back.
    fn ask_over_tcp(
        &self,
        upstream: SocketAddr,
        query: Vec<u8>,
    ) -> impl Future<Output = io::Result<Vec<u8>>> + Send;
}

/// A UDP exchange: nothing but datagrams of the queried address and port come out of it, and an
/// ICMP error comes out as an error.
pub trait Channel: Send + Sync {
    /// Sends one datagram.
    fn send(&self, octets: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Receives one datagram; what does not fit into `buffer` is lost. Safe to drop and repeat.
    fn receive(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
}

/// Sockets of the system: one connected UDP socket per query, from an ephemeral port that the
/// kernel draws at random (RFC 5452 §9.2); one TCP connection per query.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sockets;

impl Transport for Sockets {
    type Channel = UdpSocket;

    async fn open(&self, upstream: SocketAddr) -> io::Result<UdpSocket> {
        let any = match upstream {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(upstream).await?;
        Ok(socket)
    }

    async fn ask_over_tcp(&self, upstream: SocketAddr, query: Vec<u8>) -> io::Result<Vec<u8>> {
        let length = u16::try_from(query.len()).map_err(io::Error::other)?;
        let mut framed = Vec::with_capacity(query.len() + 2);
        framed.extend(length.to_be_bytes());
        framed.extend(query);
        let mut stream = TcpStream::connect(upstream).await?;
        // Length and message in one segment (RFC 7766 §8).
        stream.write_all(&framed).await?;
        let mut reply = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut reply).await?;
        Ok(reply)
    }
}

impl Channel for UdpSocket {
    async fn send(&self, octets: &[u8]) -> io::Result<()> {
        UdpSocket::send(self, octets).await.map(|_| ())
    }

    async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer).await
    }
}
