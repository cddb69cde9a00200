//! Single reads and writes of the machine's connections, and what follows from them.

use std::os::fd::AsRawFd;

use narrows_core::SocketEvent;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use super::sockets::OsSockets;

impl OsSockets {
    /// Bytes of the stream at `token`, read to `into`.
    pub(super) fn read_some(&mut self, token: u64, most: u64, into: &mut dyn FnMut(&[u8])) -> u64 {
        let mut total = 0;
        let mut scratch = std::mem::take(&mut self.scratch);
        while total < most {
            let part = self.part(most - total).min(scratch.len());
            let bytes = self.receive(token, &mut scratch[..part]);
            if bytes == 0 {
                break;
            }
            into(&scratch[..bytes]);
            total += bytes as u64;
        }
        self.scratch = scratch;
        self.end_of_turn(token);
        total
    }

    /// Bytes that may be read at once of `most`.
    pub(super) fn part(&self, most: u64) -> usize {
        usize::try_from(most).unwrap_or(usize::MAX).min(self.turn)
    }

    /// One read of the stream at `token`; none if there is nothing, or its turn is over.
    pub(super) fn receive(&mut self, token: u64, into: &mut [u8]) -> usize {
        let Some(stream) = self.stream(token).filter(|stream| stream.readable) else {
            return 0;
        };
        if into.is_empty() {
            return 0;
        }
        let received = loop {
            match recv(stream.fd.as_raw_fd(), into, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                received => break received,
            }
        };
        // Fewer than asked for were all; but an end would not be reported again, nor what follows
        // urgent data.
        let (most, stops_short) = (into.len(), stream.stops_short);
        let received = received.map(|bytes| (bytes, bytes < most && !stops_short));
        self.received(token, received)
    }

    /// What a read of the stream at `token` gave, and whether that was all that is there.
    pub(super) fn received(&mut self, token: u64, got: nix::Result<(usize, bool)>) -> usize {
        let Some(stream) = self.stream(token) else {
            return 0;
        };
        match got {
            Ok((0, _)) => {
                (stream.readable, stream.peer_closed) = (false, true);
                self.events.push_back((token, SocketEvent::PeerClosed));
                0
            }
            Ok((bytes, all)) => {
                stream.readable = !all;
                self.turn -= bytes;
                bytes
            }
            Err(Errno::EAGAIN) => {
                stream.readable = false;
                0
            }
            Err(why) => {
                self.fail(token, why);
                0
            }
        }
    }

    /// Has the stream at `token` go on after others, if its turn is over before it was read
    /// to its end.
    pub(super) fn end_of_turn(&mut self, token: u64) {
        let over = self.turn == 0;
        if over && self.stream(token).is_some_and(|stream| stream.readable) {
            self.wait_turn(token, SocketEvent::Readable);
        }
    }

    /// What a write of `whole` bytes to the stream at `token` gave; how many were taken.
    pub(super) fn sent(&mut self, token: u64, sent: nix::Result<usize>, whole: usize) -> usize {
        let Some(stream) = self.stream(token) else {
            return 0;
        };
        match sent {
            Ok(taken) => {
                stream.writable &= taken == whole;
                taken
            }
            Err(Errno::EAGAIN | Errno::EINPROGRESS) => {
                stream.writable = false;
                0
            }
            Err(Errno::EINTR) => 0,
            Err(why) => {
                self.fail(token, why);
                0
            }
        }
    }
}
