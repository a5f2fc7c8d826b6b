//! One socket, one request at a time. A request that is dropped half-way leaves the socket usable.

use std::io;

use netlink_packet_core::{NLM_F_DUMP_INTR, NetlinkBuffer, NetlinkMessage, NetlinkPayload};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};

use crate::error::{Error, Subject};
use crate::wire::{Extent, Reply, Request, encode, split};

/// The kernel's own port, as sender and as destination.
const KERNEL: u32 = 0;

// Types of control messages in linux/netlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// How often a list that changed under the reader is asked for again.
const DUMP_ATTEMPTS: u32 = 8;

pub(crate) struct Requests {
    socket: TokioSocket,
    sequence: u32,
    /// A list whose end was not read, because the reader was dropped. The kernel refuses the next
    /// one (EBUSY) until this one has been read to its end.
    unfinished: Option<u32>,
}

impl Requests {
    pub(crate) fn open() -> Result<Self, Error> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)
            .map_err(|error| Error::from_io(Subject::Socket, error))?;
        socket
            .socket_mut()
            .bind_auto()
            .map_err(|error| Error::from_io(Subject::Socket, error))?;
        // Lets the kernel filter lists by what is asked (since 4.20). Older ones list everything,
        // and the readers pick what they want in any case.
        if let Err(error) = socket.socket_ref().set_netlink_get_strict_chk(true) {
            tracing::debug!(%error, "The kernel does not filter lists");
        }
        Ok(Self {
            socket,
            sequence: 0,
            unfinished: None,
        })
    }

    /// All objects that the request asks for, as one list that did not change underway.
    pub(crate) async fn list(
        &mut self,
        subject: Subject,
        request: Request,
    ) -> Result<Vec<Reply>, Error> {
        for _ in 0..DUMP_ATTEMPTS {
            let mut replies = Vec::new();
            let sequence = self.send(subject, request.clone(), Extent::All).await?;
            self.unfinished = Some(sequence);
            let interrupted = self
                .read(subject, sequence, Extent::All, &mut replies)
                .await?;
            if !interrupted {
                return Ok(replies);
            }
            tracing::debug!(%subject, "A list changed while it was read; asking again");
        }
        Err(Error::Interrupted {
            subject,
            attempts: DUMP_ATTEMPTS,
        })
    }

    /// The one object that the request asks for.
    pub(crate) async fn one(&mut self, subject: Subject, request: Request) -> Result<Reply, Error> {
        let mut replies = Vec::new();
        let sequence = self.send(subject, request, Extent::One).await?;
        self.read(subject, sequence, Extent::One, &mut replies)
            .await?;
        Ok(replies.pop().unwrap_or(Reply::Other))
    }

    async fn send(
        &mut self,
        subject: Subject,
        request: Request,
        extent: Extent,
    ) -> Result<u32, Error> {
        if let Some(sequence) = self.unfinished {
            self.skip(subject, sequence).await?;
            self.unfinished = None;
        }
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = encode(request, extent, self.sequence);
        self.socket
            .send_to(&bytes, &SocketAddr::new(KERNEL, 0))
            .await
            .map_err(|error| Error::from_io(subject, error))?;
        Ok(self.sequence)
    }

    /// Reads to the end of the answer with this sequence number; true when it was interrupted.
    async fn read(
        &mut self,
        subject: Subject,
        sequence: u32,
        extent: Extent,
        replies: &mut Vec<Reply>,
    ) -> Result<bool, Error> {
        let mut interrupted = false;
        loop {
            let datagram = self.receive(subject).await?;
            for message in split(&datagram) {
                let message = message
                    .and_then(NetlinkMessage::<Reply>::deserialize)
                    .map_err(|source| Error::Malformed { subject, source })?;
                if message.header.sequence_number != sequence {
                    continue;
                }
                interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
                let code = match message.payload {
                    NetlinkPayload::InnerMessage(reply) => {
                        replies.push(reply);
                        match extent {
                            Extent::One => return Ok(interrupted),
                            Extent::All => continue,
                        }
                    }
                    // A failed list ends with its error in NLMSG_DONE.
                    NetlinkPayload::Done(done) => done.code,
                    NetlinkPayload::Error(error) => error.raw_code(),
                    _ => continue,
                };
                self.unfinished = None;
                return match code {
                    0 => Ok(interrupted),
                    code => Err(Error::from_io(
                        subject,
                        io::Error::from_raw_os_error(code.saturating_abs()),
                    )),
                };
            }
        }
    }

    /// Reads past the end of the list with this sequence number, looking at headers only.
    async fn skip(&mut self, subject: Subject, sequence: u32) -> Result<(), Error> {
        loop {
            let datagram = self.receive(subject).await?;
            for message in split(&datagram) {
                let buffer = message
                    .and_then(NetlinkBuffer::new_checked)
                    .map_err(|source| Error::Malformed { subject, source })?;
                if buffer.sequence_number() == sequence
                    && matches!(buffer.message_type(), NLMSG_DONE | NLMSG_ERROR)
                {
                    return Ok(());
                }
            }
        }
    }

    /// The next datagram from the kernel.
    async fn receive(&mut self, subject: Subject) -> Result<Vec<u8>, Error> {
        loop {
            let (datagram, sender) = self
                .socket
                .recv_from_full()
                .await
                .map_err(|error| Error::from_io(subject, error))?;
            if sender.port_number() == KERNEL {
                return Ok(datagram);
            }
        }
    }
}
