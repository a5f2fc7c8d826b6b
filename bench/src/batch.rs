//! Datagrams in batches, for the echo and the load generator.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;

use anyhow::Result;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};

/// Datagrams that one system call moves at most.
pub(crate) const BATCH: usize = 32;

/// Octets that are kept of one.
const SIZE: usize = 1232;

/// Room for one batch.
pub(crate) struct Batch {
    headers: MultiHeaders<SockaddrIn>,
    /// Sending leaves pointers behind that receiving must not follow.
    sending: MultiHeaders<SockaddrIn>,
    buffers: Vec<[u8; SIZE]>,
    /// What was received: length and sender.
    received: Vec<(usize, Option<SockaddrIn>)>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            headers: MultiHeaders::preallocate(BATCH, None),
            sending: MultiHeaders::preallocate(BATCH, None),
            buffers: vec![[0; SIZE]; BATCH],
            received: Vec::with_capacity(BATCH),
        }
    }

    /// Receives what is there, waiting for the first one if the flags do not say otherwise. The
    /// number of datagrams; 0 when there is none.
    pub(crate) fn receive(&mut self, fd: RawFd, flags: MsgFlags) -> Result<usize> {
        let Self {
            headers,
            sending: _,
            buffers,
            received,
        } = self;
        received.clear();
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers
            .iter_mut()
            .map(|buffer| [IoSliceMut::new(buffer)])
            .collect();
        match recvmmsg(fd, headers, slices.iter_mut(), flags, None) {
            Ok(messages) => received.extend(messages.map(|one| (one.bytes, one.address))),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(received.len())
    }

    /// What was received.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.buffers
            .iter()
            .zip(&self.received)
            .filter_map(|(buffer, (length, _))| buffer.get(..*length))
    }

    /// Sends everything received back to where it came from, changed by `change`.
    pub(crate) fn send_back(&mut self, fd: RawFd, change: fn(&mut [u8])) -> Result<()> {
        let Self {
            headers: _,
            sending,
            buffers,
            received,
        } = self;
        for (buffer, (length, _)) in buffers.iter_mut().zip(received.iter()) {
            change(buffer.get_mut(..*length).unwrap_or_default());
        }
        let slices: Vec<[IoSlice<'_>; 1]> = buffers
            .iter()
            .zip(received.iter())
            .map(|(buffer, (length, _))| [IoSlice::new(buffer.get(..*length).unwrap_or_default())])
            .collect();
        let addresses: Vec<Option<SockaddrIn>> =
            received.iter().map(|(_, address)| *address).collect();
        let count = sendmmsg(fd, sending, &slices, addresses, [], MsgFlags::empty());
        match count {
            Ok(_) | Err(Errno::EAGAIN | Errno::ECONNREFUSED) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends messages over a connected socket; how many went out.
    pub(crate) fn send(&mut self, fd: RawFd, messages: &[Vec<u8>]) -> Result<usize> {
        let slices: Vec<[IoSlice<'_>; 1]> = messages
            .iter()
            .map(|message| [IoSlice::new(message)])
            .collect();
        let addresses = vec![None; messages.len()];
        let sent = sendmmsg(
            fd,
            &mut self.sending,
            &slices,
            addresses,
            [],
            MsgFlags::MSG_DONTWAIT,
        );
        match sent {
            Ok(sent) => Ok(sent.count()),
            Err(Errno::EAGAIN | Errno::ECONNREFUSED) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}
