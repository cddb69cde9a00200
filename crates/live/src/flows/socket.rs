//! A socket of a host.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use narrows_packet::{Endpoint, EndpointEvent, Limited};

use super::tcp::KernelTcp;
use super::udp::Datagrams;

/// What a socket is.
pub enum Kind {
    /// A connection.
    Stream(Stream),
    /// Waits for connections to the kernel's TCP.
    KernelListener(OwnedFd),
    /// Waits for connections over a UDP port.
    Listener {
        /// Which port.
        port: usize,
        /// Connections that may be accepted, oldest first.
        pending: VecDeque<u32>,
        /// Connections that are not accepted yet, open or not.
        waiting: u32,
        /// The most of these.
        backlog: u32,
    },
    /// Sends and receives datagrams.
    Datagrams(Datagrams),
}

/// What carries a connection.
pub enum Carrier {
    /// The kernel.
    Kernel(Box<KernelTcp>),
    /// A transport of ours over a UDP port.
    Port(Box<dyn Endpoint>, usize),
}

/// A connection.
pub struct Stream {
    /// What carries it.
    pub carrier: Carrier,
    /// The other end.
    pub remote: SocketAddr,
    /// The listener that it came to, until it is accepted.
    pub listener: Option<u32>,
    /// Events that came before it was accepted.
    pub held: VecDeque<EndpointEvent>,
    /// Whether its application asked for
    /// [`SocketEvent::Writable`](narrows_packet::SocketEvent).
    pub wants_room: bool,
    /// What was last reported, to report changes only.
    pub limited: Limited,
}

impl Stream {
    /// One that `carrier` carries, to `remote`.
    pub fn new(carrier: Carrier, remote: SocketAddr) -> Self {
        Self {
            carrier,
            remote,
            listener: None,
            held: VecDeque::new(),
            wants_room: false,
            limited: Limited::default(),
        }
    }

    /// Its transport.
    pub fn endpoint(&mut self) -> &mut dyn Endpoint {
        match &mut self.carrier {
            Carrier::Kernel(tcp) => &mut **tcp,
            Carrier::Port(endpoint, _) => &mut **endpoint,
        }
    }

    /// The kernel's connection, if it is one.
    pub fn kernel(&mut self) -> Option<&mut KernelTcp> {
        match &mut self.carrier {
            Carrier::Kernel(tcp) => Some(tcp),
            Carrier::Port(..) => None,
        }
    }
}

/// A socket.
pub struct Socket {
    /// What it is.
    pub kind: Kind,
    /// Whose it is; nobody's before it is accepted, and after it was closed.
    pub app: Option<usize>,
    /// Which options it has.
    pub profile: usize,
    /// Whether it waits to be served.
    pub dirty: bool,
}

impl Socket {
    /// The connection, if it is one.
    pub fn stream(&mut self) -> Option<&mut Stream> {
        match &mut self.kind {
            Kind::Stream(stream) => Some(stream),
            _ => None,
        }
    }
}
