//! Questions and orders to the kernel's routing tables (rtnetlink), one at a
//! time.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// A netlink socket of the network namespace in which it was opened,
/// whichever thread uses it.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Gives an order; `flags` beside those of every order.
    pub fn order(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.request(message, NLM_F_ACK | flags).map(|_| ())
    }

    /// Asks about one thing.
    pub fn get(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.request(message, NLM_F_ACK)
    }

    /// Asks for everything of a kind.
    pub fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.request(message, NLM_F_DUMP)
    }

    /// Asks for everything of a kind, and gives the answers as they are: each
    /// without its `nlmsghdr`. For what has parameters of its own in each of
    /// its kinds, as queueing disciplines have.
    pub fn dump_bytes(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<Vec<u8>>> {
        // struct nlmsghdr (linux/netlink.h): length, type, flags, sequence,
        // port; NLMSG_ERROR is 2 and NLMSG_DONE is 3.
        const HEADER: usize = 16;
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        self.send(message, NLM_F_DUMP)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while rest.len() >= HEADER {
                let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| rest[at + i]));
                let (length, sequence) = (word(0) as usize, word(8));
                let kind = u16::from_ne_bytes([rest[4], rest[5]]);
                let body = rest.get(HEADER..length).ok_or_else(invalid)?;
                let code = body
                    .get(..4)
                    .map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                match kind {
                    _ if sequence != self.sequence => {}
                    2 => return Err(io::Error::from_raw_os_error(-code.ok_or_else(invalid)?)),
                    3 => return Ok(answers),
                    _ => answers.push(body.to_vec()),
                }
            }
        }
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | flags;
        request.header.sequence_number = self.sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.send(message, flags)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
                // Messages are padded to four bytes (`NLMSG_ALIGNTO`).
                let length = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or_default();
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    NetlinkPayload::Error(e) if e.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(e) => return Err(e.to_io()),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    _ => {}
                }
            }
        }
    }
}
