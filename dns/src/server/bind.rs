//! Binding a UDP and a TCP socket per address, with errors that say what to do.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use nix::libc::EAFNOSUPPORT;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use thiserror::Error;
use tokio::net::TcpListener;

use crate::forwarding::ClientTransport;

/// Waiting connections: more than our own limit of open ones is of no use.
const BACKLOG: i32 = 1024;

/// Asked for, for receiving and for sending; the kernel caps it at `net.core.rmem_max` and
/// `wmem_max`. A megabyte holds some hundred milliseconds of the most that one core answers.
const BUFFER: usize = 1 << 20;

/// Attempts to find a port that is free for UDP and TCP alike when port 0 is asked for.
const ANY_PORT_ATTEMPTS: usize = 16;

/// One address that could not be bound.
#[derive(Debug, Error)]
#[error(
    "cannot listen on {address} ({transport:?}): {source}; {}",
    fix(source)
)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// For UDP or TCP.
    pub transport: ClientTransport,
    /// Why.
    pub source: io::Error,
}

/// All addresses that could not be bound.
#[derive(Debug, Error)]
pub struct BindErrors(pub Vec<BindError>);

impl fmt::Display for BindErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

fn fix(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another process listens there (see `ss -lnptu`): stop it, or choose another address or port with --dns-listen"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the sysctl net.ipv4.ip_unprivileged_port_start=0 in this network namespace, \
             or the capability NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => {
            "no interface has this address: correct it, or start after it is there"
        }
        _ if error.raw_os_error() == Some(EAFNOSUPPORT) => {
            "this host has no IPv6: listen on IPv4 addresses only"
        }
        _ => "check the address",
    }
}

/// The sockets of one address.
#[derive(Debug)]
pub(super) struct Pair {
    /// One per worker; the kernel spreads clients over them by their address and port.
    pub(super) udp: Vec<UdpSocket>,
    pub(super) tcp: TcpListener,
    pub(super) address: SocketAddr,
}

/// Binds every address with `workers` UDP sockets; all errors are collected.
pub(super) fn all(addresses: &[SocketAddr], workers: usize) -> Result<Vec<Pair>, BindErrors> {
    let mut pairs = Vec::new();
    let mut errors = Vec::new();
    for address in addresses {
        // `[::]` takes IPv4 in as well, unless it has an address of its own.
        let v4_too = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
        match pair(*address, addresses.contains(&v4_too), workers) {
            Ok(pair) => pairs.push(pair),
            Err(failed) => errors.extend(failed),
        }
    }
    if errors.is_empty() {
        Ok(pairs)
    } else {
        Err(BindErrors(errors))
    }
}

fn pair(address: SocketAddr, only_v6: bool, workers: usize) -> Result<Pair, Vec<BindError>> {
    let error = |transport| {
        move |source| BindError {
            address,
            transport,
            source,
        }
    };
    if address.port() != 0 {
        return match (udp(address, only_v6), tcp(address, only_v6)) {
            (Ok(first), Ok(tcp)) => {
                let udp = share(first, address, only_v6, workers)
                    .map_err(|source| vec![error(ClientTransport::Udp)(source)])?;
                Ok(Pair { udp, tcp, address })
            }
            (udp, tcp) => {
                let failed = [
                    udp.err().map(error(ClientTransport::Udp)),
                    tcp.err().map(error(ClientTransport::Tcp)),
                ];
                Err(failed.into_iter().flatten().collect())
            }
        };
    }
    let mut attempt = 1;
    loop {
        let udp =
            udp(address, only_v6).map_err(|source| vec![error(ClientTransport::Udp)(source)])?;
        let address = udp
            .local_addr()
            .map_err(|source| vec![error(ClientTransport::Udp)(source)])?;
        match tcp(address, only_v6) {
            Ok(tcp) => {
                let udp = share(udp, address, only_v6, workers)
                    .map_err(|source| vec![error(ClientTransport::Udp)(source)])?;
                return Ok(Pair { udp, tcp, address });
            }
            Err(taken)
                if taken.kind() == io::ErrorKind::AddrInUse && attempt < ANY_PORT_ATTEMPTS =>
            {
                attempt += 1;
            }
            Err(source) => return Err(vec![error(ClientTransport::Tcp)(source)]),
        }
    }
}

/// A UDP socket that has its address to itself.
fn udp(address: SocketAddr, only_v6: bool) -> io::Result<UdpSocket> {
    let socket = udp_unbound(address, only_v6)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Binds further sockets to the address of the first one. Only now is it shared: two servers
/// still exclude each other.
fn share(
    first: UdpSocket,
    address: SocketAddr,
    only_v6: bool,
    workers: usize,
) -> io::Result<Vec<UdpSocket>> {
    let mut all = vec![first];
    if workers > 1 {
        for socket in &all {
            SockRef::from(socket).set_reuse_port(true)?;
        }
    }
    while all.len() < workers {
        let socket = udp_unbound(address, only_v6)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        all.push(socket.into());
    }
    Ok(all)
}

fn udp_unbound(address: SocketAddr, only_v6: bool) -> io::Result<Socket> {
    let socket = socket(address, only_v6, Type::DGRAM, Protocol::UDP)?;
    socket.set_nonblocking(false)?;
    // Best effort: a small buffer loses queries in bursts, nothing else.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        }
    }
    Ok(socket)
}

/// Says once what the kernel made of the buffers that were asked for.
pub(super) fn say_buffers(pairs: &[Pair]) {
    let Some(socket) = pairs.first().and_then(|pair| pair.udp.first()) else {
        return;
    };
    let socket = SockRef::from(socket);
    // The kernel doubles what it grants, for its own bookkeeping (socket(7)).
    let granted = |size: io::Result<usize>| size.unwrap_or_default() / 2;
    let (receive, send) = (
        granted(socket.recv_buffer_size()),
        granted(socket.send_buffer_size()),
    );
    if receive < BUFFER {
        tracing::warn!(
            asked = BUFFER,
            receive,
            send,
            "UDP buffers are smaller than asked for: bursts may lose queries; \
             raise the sysctls net.core.rmem_max and net.core.wmem_max of the node"
        );
    } else {
        tracing::debug!(asked = BUFFER, receive, send, "UDP buffers");
    }
}

fn tcp(address: SocketAddr, only_v6: bool) -> io::Result<TcpListener> {
    let socket = socket(address, only_v6, Type::STREAM, Protocol::TCP)?;
    // Lets a restart bind while old connections linger; two listeners still exclude each other.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn socket(
    address: SocketAddr,
    only_v6: bool,
    kind: Type,
    protocol: Protocol,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if let IpAddr::V6(ip) = address.ip() {
        socket.set_only_v6(only_v6 || !ip.is_unspecified())?;
    }
    Ok(socket)
}
