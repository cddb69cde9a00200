//! A tunnel: two connections, and what waits between them.

use std::net::SocketAddr;
use std::sync::Arc;

use narrows_core::{CountedBytes, SocketId};
use narrows_units::Instant;

use crate::config::{Intake, Listener};
use crate::onward::ParentRequest;
use crate::proxy_header::HeaderReader;
use crate::request::{Layout, RequestReader};
use crate::shared::Client;

/// What is known of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelFacts {
    /// Who opened it.
    pub client: SocketAddr,
    /// Where it leads, once that is asked for.
    pub destination: Option<SocketAddr>,
    /// Whether both ends are open.
    pub open: bool,
    /// Payload bytes read from the client.
    pub bytes_up: u64,
    /// Payload bytes read from the destination.
    pub bytes_down: u64,
    /// Bytes that wait for the destination.
    pub backlog_up: u64,
    /// Bytes that wait for the client.
    pub backlog_down: u64,
    /// When the client came.
    pub since: Instant,
    /// When a byte or an end was last read or written.
    pub active: Instant,
}

/// One of a tunnel's two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leg {
    /// To the client.
    Near,
    /// To the destination.
    Far,
}

impl Leg {
    pub fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

/// How far a tunnel has come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// A load balancer says whose it is.
    Header(HeaderReader),
    /// The client says what it wants.
    Request(RequestReader),
    /// The addresses of the name that it wants this port of are being found.
    Naming(u16),
    /// The connection to the destination is being opened.
    Connecting(Layout),
    /// Both are open.
    Open,
    /// The client was refused; what it still sends is read until it has closed, as
    /// unread data would reset the connection, and the answer with it (RFC 2525 §2.17).
    Refused,
}

/// What comes from one leg and goes to the other.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// Read, and not yet written.
    pub queue: CountedBytes,
    /// Bytes wait for the other leg, in the queue or with the leg that they come from.
    pub waits: bool,
    /// Payload bytes read from the leg that it comes from.
    pub bytes: u64,
    /// That leg's peer has ended its stream.
    pub peer_closed: bool,
    /// That end was passed on.
    pub ended: bool,
}

/// A tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// What it came to.
    pub listener: Arc<Listener>,
    /// Where what it does is counted.
    pub book: usize,
    pub client: SocketAddr,
    /// What it has in common with all tunnels of its client.
    pub account: Arc<Client>,
    pub near: SocketId,
    /// Where it leads, once that is asked for.
    pub destination: Option<SocketAddr>,
    /// Fallback addresses, the last of them first: further addresses of the same name, tried where
    /// a connection cannot be opened (RFC 1123 §2.3).
    pub fallback_addresses: Vec<SocketAddr>,
    /// The request to a parent proxy, until that has answered.
    pub parent_request: Option<ParentRequest>,
    /// The rest of that request, which the socket has not taken yet.
    pub request_tail: Vec<u8>,
    /// The rest of the PROXY header that precedes the client's data.
    pub preface: Vec<u8>,
    /// The connection to the destination, once it is asked for.
    pub far: Option<SocketId>,
    pub stage: Stage,
    /// From the client to the destination.
    pub up: Direction,
    /// From the destination to the client.
    pub down: Direction,
    /// When its time is over, unless something happens.
    pub deadline: Instant,
    /// When a byte or an end was last read or written.
    pub active: Instant,
    /// When the client came.
    pub since: Instant,
    /// When both ends were open.
    pub opened: Option<Instant>,
    /// The part of a link's rate that each leg was given last, in bytes/s; 0: none.
    pub given: [u64; 2],
}

impl Tunnel {
    pub fn new(
        (listener, book): (Arc<Listener>, usize),
        near: SocketId,
        (client, account): (SocketAddr, Arc<Client>),
        now: Instant,
    ) -> Self {
        Self {
            listener,
            book,
            client,
            account,
            near,
            destination: None,
            fallback_addresses: Vec::new(),
            parent_request: None,
            request_tail: Vec::new(),
            preface: Vec::new(),
            far: None,
            stage: Stage::Request(RequestReader::default()),
            up: Direction::default(),
            down: Direction::default(),
            deadline: now,
            active: now,
            since: now,
            opened: None,
            given: [0; 2],
        }
    }

    /// How the client asks, so that it is answered alike.
    pub fn layout(&self) -> Layout {
        match (&self.stage, self.listener.terms.intake) {
            (Stage::Connecting(layout), _) => *layout,
            (_, Intake::Request) => Layout::Convert,
            (_, Intake::Socks) => Layout::Socks,
            (_, Intake::Transparent) => Layout::Silent,
        }
    }

    pub fn facts(&self) -> TunnelFacts {
        TunnelFacts {
            client: self.client,
            destination: self.destination,
            open: matches!(self.stage, Stage::Open),
            bytes_up: self.up.bytes,
            bytes_down: self.down.bytes,
            backlog_up: self.up.queue.len(),
            backlog_down: self.down.queue.len(),
            since: self.since,
            active: self.active,
        }
    }

    pub fn socket(&self, leg: Leg) -> Option<SocketId> {
        match leg {
            Leg::Near => Some(self.near),
            Leg::Far => self.far,
        }
    }

    /// What comes from `leg`.
    pub fn from(&mut self, leg: Leg) -> &mut Direction {
        match leg {
            Leg::Near => &mut self.up,
            Leg::Far => &mut self.down,
        }
    }

    /// Whether it holds memory, or a place, for an end that may be gone without a word: of both a
    /// connection that its process has closed, or whose host has vanished, is silent.
    pub fn is_suspect(&self) -> bool {
        let either = |is: fn(&Direction) -> bool| is(&self.up) || is(&self.down);
        either(|direction| direction.waits) || either(|direction| direction.peer_closed)
    }

    /// Bytes that wait in it.
    pub fn backlog(&self) -> u64 {
        self.up.queue.len() + self.down.queue.len()
    }
}
