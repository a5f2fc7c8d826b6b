//! Datagrams with the local address they came to, so that replies leave from there (rule 71).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::libc::{in_pktinfo, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The local address of a datagram.
#[derive(Debug, Clone, Copy)]
pub(super) enum Local {
    /// The address that the socket is bound to.
    Bound,
    V4(in_pktinfo),
    /// Also for IPv4 on a dual-stack socket, as an IPv4-mapped address.
    V6(in6_pktinfo),
}

/// A datagram's origin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    pub(super) len: usize,
    pub(super) peer: SocketAddr,
    pub(super) local: Local,
}

/// Room for the control messages of one datagram.
pub(super) fn control_buffer() -> Vec<u8> {
    nix::cmsg_space!(in_pktinfo, in6_pktinfo)
}

/// Receives one datagram, if one is there as far as the runtime knows; a longer one is cut to the
/// buffer.
///
/// # Errors
/// `WouldBlock` when there is none; else what the kernel says.
pub(super) fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
    control: &mut [u8],
) -> io::Result<Received> {
    socket.try_io(Interest::READABLE, || receive_now(socket, buffer, control))
}

/// As [`receive`], but asks the kernel: the runtime learns of datagrams a little later.
///
/// # Errors
/// As [`receive`].
pub(super) fn receive_now(
    socket: &UdpSocket,
    buffer: &mut [u8],
    control: &mut [u8],
) -> io::Result<Received> {
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut parts,
        Some(control),
        MsgFlags::MSG_DONTWAIT,
    )?;
    let peer = message
        .address
        .as_ref()
        .and_then(socket_addr)
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut local = Local::Bound;
    for control in message.cmsgs()? {
        match control {
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                // The interface is left to routing: paths may be asymmetric.
                local = Local::V4(in_pktinfo {
                    ipi_ifindex: 0,
                    ..info
                });
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                let ipi6_ifindex = if address.is_unicast_link_local() {
                    info.ipi6_ifindex
                } else {
                    0
                };
                local = Local::V6(in6_pktinfo {
                    ipi6_ifindex,
                    ..info
                });
            }
            _ => {}
        }
    }
    Ok(Received {
        len: message.bytes,
        peer,
        local,
    })
}

/// Sends one datagram from the address that the query came to.
///
/// # Errors
/// What the kernel says.
pub(super) async fn send(
    socket: &UdpSocket,
    octets: &[u8],
    peer: SocketAddr,
    local: Local,
) -> io::Result<()> {
    socket
        .async_io(Interest::WRITABLE, || {
            let info = match &local {
                Local::Bound => None,
                Local::V4(info) => Some(ControlMessage::Ipv4PacketInfo(info)),
                Local::V6(info) => Some(ControlMessage::Ipv6PacketInfo(info)),
            };
            let peer = SockaddrStorage::from(peer);
            sendmsg(
                socket.as_raw_fd(),
                &[IoSlice::new(octets)],
                info.as_slice(),
                MsgFlags::empty(),
                Some(&peer),
            )?;
            Ok(())
        })
        .await
}

fn socket_addr(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddrV4::from(*v4).into());
    }
    address
        .as_sockaddr_in6()
        .map(|v6| SocketAddrV6::from(*v6).into())
}
