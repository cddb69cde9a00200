//! A socket of a host.

use std::collections::VecDeque;
use std::net::SocketAddr;

use narrows_core::{DatagramError, Endpoint, EndpointEvent, Packet, Role};
use narrows_path::routes::Hop;
use narrows_units::Instant;

/// Payload and headers of datagrams that may wait to be read, in bytes: Linux's
/// `net.core.rmem_default`, which counts more for each packet than its length.
pub(crate) const DATAGRAM_BUFFER: u64 = 212_992;

/// What a socket is.
pub(crate) enum Kind {
    /// A connection, or an end of one that is not open yet.
    Stream(Stream),
    /// Waits for connections.
    Listener {
        /// Connections that may be accepted, oldest first.
        pending: VecDeque<u32>,
        /// Connections that are not accepted yet, open or not.
        waiting: u32,
        /// The most of these.
        backlog: u32,
    },
    /// Sends and receives datagrams.
    Datagrams {
        /// What was received and not yet read, and when.
        received: VecDeque<(Instant, Box<Packet>)>,
        /// Bytes in these.
        bytes: u64,
        /// Errors of what was sent, not yet read, with what they quote of the payload.
        errors: VecDeque<(DatagramError, Vec<u8>)>,
        /// IPv4 identification of the next datagram.
        ident: u16,
        /// Whether anything was sent or received: who sends first is the initiator.
        used: bool,
    },
}

/// A connection of a host.
pub(crate) struct Stream {
    pub endpoint: Box<dyn Endpoint>,
    /// The first link towards the other end.
    pub hop: Hop,
    /// The listener that it came to, until it is accepted.
    pub listener: Option<u32>,
    /// Events that came before it was accepted.
    pub held: VecDeque<EndpointEvent>,
    /// Whether its application asked for [`SocketEvent::Writable`](narrows_core::SocketEvent).
    pub wants_room: bool,
}

impl Stream {
    /// A connection over `endpoint` whose packets leave by `hop`.
    pub fn new(endpoint: Box<dyn Endpoint>, hop: Hop) -> Self {
        Self {
            endpoint,
            hop,
            listener: None,
            held: VecDeque::new(),
            wants_room: false,
        }
    }
}

/// A socket.
pub(crate) struct Socket {
    pub kind: Kind,
    pub node: usize,
    /// The application that owns it; none before it is accepted and after it was closed.
    pub app: Option<usize>,
    /// Which options it has.
    pub profile: usize,
    pub local: SocketAddr,
    /// The other end, of a connection.
    pub remote: Option<SocketAddr>,
    pub role: Role,
    /// Whether it waits for [`Hosts::settle`](crate::Hosts).
    pub dirty: bool,
}

impl Socket {
    /// A connection from `local` to `remote`, which no application owns yet.
    pub fn connected(
        stream: Stream,
        node: usize,
        profile: usize,
        role: Role,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Self {
        Self {
            kind: Kind::Stream(stream),
            node,
            app: None,
            profile,
            local,
            remote: Some(remote),
            role,
            dirty: false,
        }
    }

    pub fn stream(&mut self) -> Option<&mut Stream> {
        match &mut self.kind {
            Kind::Stream(stream) => Some(stream),
            _ => None,
        }
    }
}
