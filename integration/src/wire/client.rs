//! A client that sends octets and measures.

use std::io::{ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket,
};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a port that is free for UDP may turn out taken for TCP.
const PORT_ATTEMPTS: usize = 64;

/// A datagram that came back.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// The message.
    pub octets: Vec<u8>,
    /// Where it came from.
    pub from: SocketAddr,
    /// Since the query was sent.
    pub after: Duration,
}

/// Sends a datagram from an unconnected socket, and waits for one datagram
/// from anywhere; `None` if none comes in time.
pub fn udp(server: SocketAddr, message: &[u8], timeout: Duration) -> Result<Option<Datagram>> {
    let socket = UdpSocket::bind((any_address(server), 0)).context("bind a client socket")?;
    let started = Instant::now();
    socket
        .send_to(message, server)
        .with_context(|| format!("send to {server}"))?;
    let mut buffer = vec![0; 65_535];
    socket.set_read_timeout(Some(timeout))?;
    match socket.recv_from(&mut buffer) {
        Ok((length, from)) => {
            let after = started.elapsed();
            buffer.truncate(length);
            Ok(Some(Datagram {
                octets: buffer,
                from,
                after,
            }))
        }
        Err(error) if is_timeout(&error) => Ok(None),
        Err(error) => Err(error).context("receive"),
    }
}

pub(super) fn any_address(server: SocketAddr) -> IpAddr {
    match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A port that is free for UDP and TCP at this address now.
pub fn free_port(address: IpAddr) -> Result<u16> {
    for _ in 0..PORT_ATTEMPTS {
        let udp = UdpSocket::bind((address, 0)).with_context(|| format!("bind {address}"))?;
        let port = udp.local_addr()?.port();
        if TcpListener::bind((address, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port of {address} is free for both UDP and TCP")
}

/// A TCP connection to a DNS server.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
}

/// What a read of one message found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// The server has closed the connection.
    Closed,
    /// Nothing in time.
    Nothing,
}

impl Connection {
    /// Connects, waiting at most 2 s.
    pub fn open(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&server, Duration::from_secs(2))
            .with_context(|| format!("connect to {server}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// Sends messages, each after its length, in one write.
    pub fn send(&mut self, messages: &[Vec<u8>]) -> Result<()> {
        let mut octets = Vec::new();
        for message in messages {
            octets.extend(u16::try_from(message.len())?.to_be_bytes());
            octets.extend(message);
        }
        self.stream.write_all(&octets).context("write")
    }

    /// Tells the server that no more will be sent.
    pub fn half_close(&self) -> Result<()> {
        self.stream.shutdown(Shutdown::Write).context("half-close")
    }

    /// Reads the next message.
    pub fn read(&mut self, timeout: Duration) -> Result<Frame> {
        self.stream.set_read_timeout(Some(timeout))?;
        let mut length = [0; 2];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if is_timeout(&error) => return Ok(Frame::Nothing),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                return Ok(Frame::Closed);
            }
            Err(error) => return Err(error).context("read"),
        }
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        self.stream
            .read_exact(&mut message)
            .context("read the rest of a message")?;
        Ok(Frame::Message(message))
    }
}
