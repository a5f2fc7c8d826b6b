//! Batches of datagrams with the local addresses they came to, so that replies leave from there
//! (rule 71).

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc::{in_pktinfo, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6,
    SockaddrLike, recvmmsg, sendmmsg, sendmsg,
};

use crate::wire::EDNS_SIZE;

/// Datagrams that one system call moves at most. More gain nothing: the cost of the call itself
/// is spread thin by then, and the buffers should stay in the cache.
pub(super) const BATCH: usize = 32;

/// Far above any query; a longer datagram is cut, and so FORMERR.
const QUERY: usize = 4096;

/// No reply over UDP is longer (rule 62).
pub(super) const REPLY: usize = EDNS_SIZE as usize;

/// An address as the kernel writes it, of the family of the socket.
pub(super) trait Peer: SockaddrLike + Copy + fmt::Debug + Send + 'static {
    /// As the rest of the program knows it.
    fn address(self) -> SocketAddr;

    /// The port.
    fn port(self) -> u16;
}

impl Peer for SockaddrIn {
    fn address(self) -> SocketAddr {
        SocketAddrV4::from(self).into()
    }

    fn port(self) -> u16 {
        Self::port(&self)
    }
}

impl Peer for SockaddrIn6 {
    fn address(self) -> SocketAddr {
        SocketAddrV6::from(self).into()
    }

    fn port(self) -> u16 {
        Self::port(&self)
    }
}

/// The local address of a datagram.
#[derive(Debug, Clone, Copy)]
pub(super) enum Local {
    /// The address that the socket is bound to.
    Bound,
    V4(in_pktinfo),
    /// Also for IPv4 on a dual-stack socket, as an IPv4-mapped address.
    V6(in6_pktinfo),
}

impl Local {
    fn control(&self) -> Option<ControlMessage<'_>> {
        match self {
            Self::Bound => None,
            Self::V4(info) => Some(ControlMessage::Ipv4PacketInfo(info)),
            Self::V6(info) => Some(ControlMessage::Ipv6PacketInfo(info)),
        }
    }

    /// True when replies to both may leave in one batch.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bound, Self::Bound) => true,
            (Self::V4(one), Self::V4(two)) => {
                one.ipi_spec_dst.s_addr == two.ipi_spec_dst.s_addr
                    && one.ipi_addr.s_addr == two.ipi_addr.s_addr
            }
            (Self::V6(one), Self::V6(two)) => {
                one.ipi6_addr.s6_addr == two.ipi6_addr.s6_addr
                    && one.ipi6_ifindex == two.ipi6_ifindex
            }
            _ => false,
        }
    }
}

/// Where a datagram came from, and to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<P> {
    pub(super) peer: P,
    pub(super) local: Local,
}

/// Room for one batch of queries.
pub(super) struct Queries<P> {
    headers: MultiHeaders<P>,
    buffers: Box<[[u8; QUERY]]>,
    received: Vec<(usize, Origin<P>)>,
}

impl<P: Peer> Queries<P> {
    /// `anywhere`: the socket is bound to no address in particular, and tells with each datagram
    /// which one it came to.
    pub(super) fn new(anywhere: bool) -> Self {
        Self {
            headers: MultiHeaders::preallocate(BATCH, anywhere.then(control_buffer)),
            buffers: vec![[0; QUERY]; BATCH].into_boxed_slice(),
            received: Vec::with_capacity(BATCH),
        }
    }

    /// Receives what is there, at most a batch. Waits for the first datagram if it may.
    ///
    /// # Errors
    /// `WouldBlock` when there is none and it may not wait; else what the kernel says.
    pub(super) fn receive(&mut self, socket: &UdpSocket, wait: bool) -> io::Result<()> {
        let Self {
            headers,
            buffers,
            received,
        } = self;
        received.clear();
        let flags = if wait {
            MsgFlags::MSG_WAITFORONE
        } else {
            MsgFlags::MSG_DONTWAIT
        };
        let Some(buffers) = buffers.first_chunk_mut::<BATCH>() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut slices = buffers
            .each_mut()
            .map(|buffer| [IoSliceMut::new(buffer.as_mut_slice())]);
        let messages = recvmmsg(socket.as_raw_fd(), headers, slices.iter_mut(), flags, None)?;
        for message in messages {
            let Some(peer) = message.address else {
                continue;
            };
            let local = message.cmsgs().map_or(Local::Bound, |mut controls| {
                controls
                    .find_map(|control| local(&control))
                    .unwrap_or(Local::Bound)
            });
            received.push((message.bytes, Origin { peer, local }));
        }
        Ok(())
    }

    /// What was received, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Origin<P>)> {
        self.buffers
            .iter()
            .zip(&self.received)
            .map(|(buffer, (length, origin))| (buffer.get(..*length).unwrap_or_default(), *origin))
    }
}

/// Room for one batch of replies.
pub(super) struct Replies<P> {
    headers: MultiHeaders<P>,
    buffers: Box<[[u8; REPLY]]>,
    lengths: Vec<usize>,
    peers: Vec<Option<P>>,
    locals: Vec<Local>,
}

impl<P: Peer> Replies<P> {
    pub(super) fn new(anywhere: bool) -> Self {
        Self {
            headers: MultiHeaders::preallocate(BATCH, anywhere.then(control_buffer)),
            buffers: vec![[0; REPLY]; BATCH].into_boxed_slice(),
            lengths: Vec::with_capacity(BATCH),
            peers: Vec::with_capacity(BATCH),
            locals: Vec::with_capacity(BATCH),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.lengths.len() >= BATCH
    }

    /// Where the next reply may be written; none when the batch is full.
    pub(super) fn next(&mut self) -> Option<&mut [u8; REPLY]> {
        self.buffers.get_mut(self.lengths.len())
    }

    /// Takes what was written as a reply.
    pub(super) fn push(&mut self, length: usize, to: Origin<P>) {
        self.lengths.push(length);
        self.peers.push(Some(to.peer));
        self.locals.push(to.local);
    }

    /// Sends all of them, and tells of each one that the kernel did not take.
    pub(super) fn flush(
        &mut self,
        socket: &UdpSocket,
        mut failed: impl FnMut(SocketAddr, io::Error),
    ) {
        let mut from = 0;
        while let Some(local) = self.locals.get(from).copied() {
            let run = self
                .locals
                .iter()
                .skip(from)
                .take_while(|other| other.is(&local))
                .count();
            match self.send(socket, from, run, local) {
                Ok(sent) => from += sent.max(1),
                Err(Errno::EINTR) => {}
                Err(error) => {
                    // The error is that of the first; the next ones may have better luck.
                    if let Some(Some(peer)) = self.peers.get(from) {
                        failed(peer.address(), error.into());
                    }
                    from += 1;
                }
            }
        }
        self.lengths.clear();
        self.peers.clear();
        self.locals.clear();
    }

    fn send(
        &mut self,
        socket: &UdpSocket,
        from: usize,
        count: usize,
        local: Local,
    ) -> nix::Result<usize> {
        let Self {
            headers,
            buffers,
            lengths,
            peers,
            locals: _,
        } = self;
        let slices: [[IoSlice<'_>; 1]; BATCH] = std::array::from_fn(|index| {
            let at = from + index;
            let octets = buffers
                .get(at)
                .zip(lengths.get(at))
                .and_then(|(buffer, length)| buffer.get(..*length))
                .unwrap_or_default();
            [IoSlice::new(octets)]
        });
        let control = local.control();
        let sent = sendmmsg(
            socket.as_raw_fd(),
            headers,
            slices.iter().take(count),
            peers.get(from..).unwrap_or_default(),
            control.as_slice(),
            MsgFlags::empty(),
        )?;
        Ok(sent.count())
    }
}

/// Room for the control messages of one datagram: exactly one of them, since the kernel's calls
/// leave the length of the last one behind for the next.
fn control_buffer() -> Vec<u8> {
    nix::cmsg_space!(in6_pktinfo)
}

fn local(control: &ControlMessageOwned) -> Option<Local> {
    match control {
        // The interface is left to routing: paths may be asymmetric.
        ControlMessageOwned::Ipv4PacketInfo(info) => Some(Local::V4(in_pktinfo {
            ipi_ifindex: 0,
            ..*info
        })),
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
            let ipi6_ifindex = if address.is_unicast_link_local() {
                info.ipi6_ifindex
            } else {
                0
            };
            Some(Local::V6(in6_pktinfo {
                ipi6_ifindex,
                ..*info
            }))
        }
        _ => None,
    }
}

/// Sends one datagram from the address that the query came to, without waiting.
///
/// # Errors
/// What the kernel says; `WouldBlock` when its buffer is full.
pub(super) fn send_one<P: Peer>(
    socket: &UdpSocket,
    octets: &[u8],
    to: Origin<P>,
) -> io::Result<()> {
    sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(octets)],
        to.local.control().as_slice(),
        MsgFlags::MSG_DONTWAIT,
        Some(&to.peer),
    )?;
    Ok(())
}
