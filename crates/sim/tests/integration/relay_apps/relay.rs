//! A relay: accepts connections, opens one onward for each, and copies both ways.
//!
//! It is the smallest application that does everything the socket interface offers
//! streams, and an example of how to write one.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use narrows_core::{App, Data, Profile, SocketError, SocketEvent, SocketId, Sockets};

/// Bytes of each direction that wait in the relay at most (our choice: as many as other
/// applications write ahead). Beyond that it does not read, so that the sender's window
/// closes.
const BUFFER: usize = narrows_core::WRITE_AHEAD as usize;

/// Connections that may wait to be accepted: Linux's default `net.core.somaxconn`.
const BACKLOG: u32 = 4_096;

/// One of the two connections of a pair, and what came from it.
#[derive(Debug)]
struct Leg {
    other: SocketId,
    /// Read from this leg, and not yet written to the other.
    waiting: Vec<u8>,
    /// The peer has ended its stream.
    peer_closed: bool,
    /// That end was passed on.
    passed_on: bool,
}

impl Leg {
    fn to(other: SocketId) -> Self {
        Self {
            other,
            waiting: Vec::new(),
            peer_closed: false,
            passed_on: false,
        }
    }
}

/// The application.
#[derive(Debug)]
pub struct Relay {
    near: Profile,
    local: SocketAddr,
    far: Profile,
    onward: SocketAddr,
    legs: BTreeMap<SocketId, Leg>,
}

impl Relay {
    /// One that listens at `local` with the options `near`, and connects to `onward` with
    /// the options `far`.
    pub fn new(near: Profile, local: SocketAddr, far: Profile, onward: SocketAddr) -> Self {
        Self {
            near,
            local,
            far,
            onward,
            legs: BTreeMap::new(),
        }
    }

    fn accept(&mut self, host: &mut dyn Sockets, listener: SocketId) {
        while let Some((near, _)) = host.accept(listener) {
            match host.connect(self.far, None, self.onward) {
                Ok(far) => {
                    self.legs.insert(near, Leg::to(far));
                    self.legs.insert(far, Leg::to(near));
                }
                Err(_) => {
                    host.reset(near);
                    host.close(near);
                }
            }
        }
    }

    /// Copies what came from `from` to its other leg, as far as that takes it.
    fn copy(&mut self, host: &mut dyn Sockets, from: SocketId) {
        let Some(leg) = self.legs.get_mut(&from) else {
            return;
        };
        loop {
            let space = BUFFER.saturating_sub(leg.waiting.len()) as u64;
            let read = host.read(from, space, Some(&mut leg.waiting));
            let written = host.write(leg.other, Data::Bytes(&leg.waiting));
            leg.waiting.drain(..written as usize);
            if read == 0 || written == 0 {
                break;
            }
        }
        host.want_room(leg.other, !leg.waiting.is_empty());
        if leg.peer_closed && leg.waiting.is_empty() && !leg.passed_on {
            leg.passed_on = true;
            let other = leg.other;
            host.shut_down(other);
            if self.legs.get(&other).is_none_or(|leg| leg.passed_on) {
                self.forget(host, from);
            }
        }
    }

    /// Both directions are over.
    fn forget(&mut self, host: &mut dyn Sockets, one: SocketId) {
        let other = self.legs.remove(&one).map(|leg| leg.other);
        for socket in [Some(one), other].into_iter().flatten() {
            self.legs.remove(&socket);
            host.close(socket);
        }
    }
}

impl App for Relay {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.listen(self.near, self.local, BACKLOG).map(|_| ())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Incoming => self.accept(host, socket),
            // What came before the other leg was open can go on.
            SocketEvent::Established { .. } | SocketEvent::Writable => {
                if let Some(other) = self.legs.get(&socket).map(|leg| leg.other) {
                    self.copy(host, other);
                }
            }
            SocketEvent::Readable => self.copy(host, socket),
            SocketEvent::PeerClosed => {
                if let Some(leg) = self.legs.get_mut(&socket) {
                    leg.peer_closed = true;
                }
                self.copy(host, socket);
            }
            SocketEvent::Broken(_) => {
                if let Some(leg) = self.legs.get(&socket) {
                    host.reset(leg.other);
                }
                self.forget(host, socket);
            }
            _ => {}
        }
    }
}
