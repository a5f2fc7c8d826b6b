//! Hints that something changed. What exactly is for the next view to tell.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use libc::{
    RTM_DELADDR, RTM_DELLINK, RTM_DELROUTE, RTM_DELRULE, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE,
    RTM_NEWRULE,
};
use netlink_packet_core::NetlinkBuffer;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, TokioSocket};

use crate::error::{Error, Subject};
use crate::wire::{RTM_DELNETCONF, RTM_NEWNETCONF, split};

/// Multicast groups (`enum rtnetlink_groups` in linux/rtnetlink.h): links, IPv4 addresses, routes,
/// rules, IPv6 addresses, IPv4 netconf.
const GROUPS: [u32; 6] = [1, 5, 7, 8, 9, 24];

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// A network interface came, went or changed.
    Link,
    /// An address of an interface, of either family.
    Address,
    /// An IPv4 route, in any table.
    Route,
    /// An IPv4 policy rule.
    Rule,
    /// IPv4 forwarding or reverse path filter.
    Settings,
    /// Changes came faster than they were read, and some are lost: read everything again.
    Resync,
}

/// The stream of [`Change`]s in one network namespace. It ends only by an error,
/// after which nothing more comes; subscribe anew then, and read everything again.
pub struct Changes {
    socket: TokioSocket,
    /// Changes of a datagram that are not handed out yet.
    waiting: VecDeque<Change>,
    over: bool,
}

impl Changes {
    /// Subscribes in the calling thread's network namespace, within a tokio runtime. What changes
    /// from now on is told, so subscribe first and read the first view then.
    ///
    /// # Errors
    /// When the process may not or cannot open a netlink socket and join the groups.
    pub fn subscribe() -> Result<Self, Error> {
        Self::join().map_err(|error| Error::from_io(Subject::Changes, error))
    }

    fn join() -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        socket.socket_mut().bind_auto()?;
        for group in GROUPS {
            socket.socket_mut().add_membership(group)?;
        }
        Ok(Self {
            socket,
            waiting: VecDeque::new(),
            over: false,
        })
    }

    /// Throws away what is left in the receive buffer. After an overrun the kernel drops every
    /// further message, and does not say so again, until the reader has emptied the buffer
    /// (NETLINK_S_CONGESTED in net/netlink/af_netlink.c). A view that is read before that would
    /// miss what changes between the two. For the same reason this ends: nothing is added meanwhile.
    fn empty(&self) -> io::Result<()> {
        loop {
            match self.socket.socket_ref().recv_from_full() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Stream for Changes {
    type Item = Result<Change, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Poll::Ready(Some(Ok(change)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match futures::ready!(self.socket.poll_recv_from_full(context)) {
                Ok((datagram, sender)) if sender.port_number() == 0 => {
                    self.waiting = changes_in(&datagram);
                }
                // Not from the kernel.
                Ok(_) => {}
                // netlink(7): the receive buffer overran, and messages are lost.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    if let Err(error) = self.empty() {
                        self.over = true;
                        return Poll::Ready(Some(Err(Error::from_io(Subject::Changes, error))));
                    }
                    return Poll::Ready(Some(Ok(Change::Resync)));
                }
                Err(error) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(Error::from_io(Subject::Changes, error))));
                }
            }
        }
    }
}

/// The kinds of change in a datagram, each once. What cannot be read must not be missed either.
fn changes_in(datagram: &[u8]) -> VecDeque<Change> {
    let mut changes = VecDeque::new();
    for message in split(datagram) {
        let change = match message.and_then(NetlinkBuffer::new_checked) {
            Ok(buffer) => change_of(buffer.message_type()),
            Err(error) => {
                tracing::debug!(%error, "A notification is malformed");
                Some(Change::Resync)
            }
        };
        if let Some(change) = change
            && !changes.contains(&change)
        {
            changes.push_back(change);
        }
    }
    changes
}

fn change_of(message_type: u16) -> Option<Change> {
    // NLMSG_OVERRUN in linux/netlink.h.
    const OVERRUN: u16 = 4;
    match message_type {
        RTM_NEWLINK | RTM_DELLINK => Some(Change::Link),
        RTM_NEWADDR | RTM_DELADDR => Some(Change::Address),
        RTM_NEWROUTE | RTM_DELROUTE => Some(Change::Route),
        RTM_NEWRULE | RTM_DELRULE => Some(Change::Rule),
        RTM_NEWNETCONF | RTM_DELNETCONF => Some(Change::Settings),
        OVERRUN => Some(Change::Resync),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
