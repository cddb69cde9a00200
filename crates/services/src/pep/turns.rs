//! Who goes on before whom. Tunnels that move little go first; then one that moves much, and a
//! few clients that come, of whom there may be any number.

use narrows_core::SocketEvent;

use super::sockets::OsSockets;
use super::stream::Due;

/// Bytes that are read of one socket before others have their turn (our choice: a splice, by
/// `bench/pep`).
pub(super) const TURN: usize = 64 << 10;

/// Clients that are accepted before others have their turn (HAProxy 2.6's `tune.maxaccept`, "which
/// showed best results").
pub(super) const ACCEPTED: usize = 4;

impl OsSockets {
    /// Has the next of those go on that let others go first.
    pub fn go_on_later(&mut self) {
        while let Some(token) = self.later.pop_front() {
            if self.go_on_with(token) {
                break;
            }
        }
    }

    /// Has the stream at `token` go on, if it is still there.
    fn go_on_with(&mut self, token: u64) -> bool {
        let Some(stream) = self.stream(token) else {
            return false;
        };
        let due = std::mem::take(&mut stream.due);
        let events = [
            (due.readable, SocketEvent::Readable),
            (due.writable, SocketEvent::Writable),
        ];
        let events = events.into_iter().filter(|(is_due, _)| *is_due);
        self.events.extend(events.map(|(_, event)| (token, event)));
        true
    }

    /// The stream at `token` is ready to be read or written to: it goes on with the others that are
    /// ready, or where it moves large pieces, after them.
    pub(super) fn is_ready(&mut self, token: u64, event: SocketEvent) {
        match self.stream(token) {
            Some(stream) if stream.heavy => self.wait_turn(token, event),
            _ => self.events.push_back((token, event)),
        }
    }

    /// The stream at `token` goes on after others.
    pub(super) fn wait_turn(&mut self, token: u64, event: SocketEvent) {
        let Some(stream) = self.stream(token) else {
            return;
        };
        let first = stream.due == Due::default();
        match event {
            SocketEvent::Writable => stream.due.writable = true,
            _ => stream.due.readable = true,
        }
        if first {
            self.later.push_back(token);
        }
    }

    /// Has those listeners go on that had their turn before.
    pub fn go_on(&mut self) {
        self.accepts = ACCEPTED;
        let more = std::mem::take(&mut self.more_clients).into_iter();
        self.events
            .extend(more.map(|token| (token, SocketEvent::Incoming)));
        if let Some((_, listeners)) = self.exhausted.take_if(|(at, _)| *at <= self.now) {
            let incoming = listeners.into_iter().map(|t| (t, SocketEvent::Incoming));
            self.events.extend(incoming);
        }
    }
}
