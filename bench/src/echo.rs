//! The limit: a server that only turns a datagram round.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use anyhow::Result;
use nix::sys::socket::{MsgFlags, setsockopt, sockopt};

use crate::batch::Batch;

/// As the DNS servers have.
const BUFFER: usize = 1 << 20;

pub(crate) fn run(address: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(address)?;
    setsockopt(&socket, sockopt::RcvBuf, &BUFFER)?;
    let mut batch = Batch::new();
    loop {
        if batch.receive(socket.as_raw_fd(), MsgFlags::MSG_WAITFORONE)? > 0 {
            batch.send_back(socket.as_raw_fd(), |message| {
                // QR, so that the load generator takes it for a reply.
                if let Some(bits) = message.get_mut(2) {
                    *bits |= 0x80;
                }
            })?;
        }
    }
}
