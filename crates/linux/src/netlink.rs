//! Questions and orders to the kernel's routing tables (rtnetlink), one at a
//! time.

use std::io;

use netlink_packet_core::{
    NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkMessage,
    NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// A netlink socket of the network namespace in which it was opened,
/// whichever thread uses it.
#[derive(Debug)]
pub struct Netlink {
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
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        self.send(message, NLM_F_DUMP)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut messages = Messages::new(&datagram);
            for (kind, sequence, body) in &mut messages {
                match kind {
                    _ if sequence != self.sequence => {}
                    NLMSG_ERROR => return Err(error_in(body)),
                    NLMSG_DONE => return Ok(answers),
                    _ => answers.push(body.to_vec()),
                }
            }
            if messages.is_cut_short() {
                return Err(invalid());
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

/// Bytes of `struct nlmsghdr` (linux/netlink.h).
pub const HEADER: usize = 16;

/// The messages of one read: kind, sequence number and what follows the header.
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Those of the bytes of one read.
    pub fn new(read: &'a [u8]) -> Self {
        Self(read)
    }

    /// Whether what is left has a header, and less behind it than that says.
    fn is_cut_short(&self) -> bool {
        self.0.len() >= HEADER
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header: &[u8; HEADER] = self.0.first_chunk()?;
        let len = u32::from_ne_bytes(*header.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let sequence = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
        let body = self.0.get(HEADER..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, sequence, body))
    }
}

/// What `NLMSG_ERROR` carries: a negated errno.
pub fn error_in(body: &[u8]) -> io::Error {
    let code = body.first_chunk().map_or(0, |b| i32::from_ne_bytes(*b));
    io::Error::from_raw_os_error(code.saturating_neg())
}

/// The value of the attribute `kind`.
pub fn attribute(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut all = NlasIterator::new(attributes).map_while(Result::ok);
    let found = all.find(|attribute| attribute.kind() == kind)?;
    let length = usize::from(found.length());
    found.into_inner().get(NLA_HEADER_SIZE..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u32) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([0; 68]);
        bytes
    }

    #[test]
    fn cut_and_strange_messages_are_passed_over() {
        assert_eq!(Messages::new(&[0; 15]).count(), 0);
        assert_eq!(Messages::new(&message(72)).count(), 1);
        // A length shorter than its header, or longer than what was read.
        for wrong in [0, 15, 5_000] {
            assert_eq!(Messages::new(&message(wrong)).count(), 0, "{wrong}");
        }
        assert_eq!(attribute(&[3, 0, 2, 0], 2), None);
        assert_eq!(attribute(&[5, 0, 2, 0, 9], 2), Some(&[9][..]));
        assert_eq!(attribute(&[5, 0, 2, 0], 2), None);
    }
}
