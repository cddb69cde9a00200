//! How bytes get from one connection to another. What the second takes at once goes there by
//! one of two ways, chosen by what the first brings: copied through the process, with one
//! call to read and one to write; or spliced, by references to the kernel's pages in a pipe,
//! where pieces are so large that copying costs more than the calls. What it does not take
//! is read into the proxy's queue, which alone holds what waits: the pipe is empty
//! again before anything else happens, so that both ways count to the byte.
//!
//! Where the sender is near, nothing is read that the other connection has no room for: the
//! kernel's buffers hold as much as such a sender delivers until it knows of new room,
//! and what waits in the process is copied twice.
//!
//! Where there is no memory to read ahead ([`narrows_pep`]'s budget), nothing is kept either:
//! bytes are looked at (`MSG_PEEK`), offered to the other connection, and taken from the kernel
//! as far as that has them. So a tunnel is served without holding any.

use std::os::fd::{AsRawFd, OwnedFd};

use narrows_core::{CountedBytes, Data, Relayed, SocketId, Sockets};
use narrows_linux::socket_option::tcp_info;
use narrows_units::Duration;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::{pipe2, read};
use tracing::debug;

use super::sockets::OsSockets;
use super::stream::Phase;

/// Bytes of a piece from which on the next is spliced (our choice, by `bench/pep`).
const BULK: usize = 32 << 10;

/// Bytes that are spliced at a time (our choice: the largest burst that segmentation
/// makes): some of the last is copied, as the other connection has no room for it.
const SPLICED: usize = 64 << 10;

/// Where less than this may be read ahead, nothing is (our choice: a page).
const PEEKED: usize = 4 << 10;

/// Bytes for which the pipe has room: what a user without rights may ask for
/// (`fs.pipe-max-size`).
const PIPE: usize = 1 << 20;

/// Senders whose round trip is shorter are near, unless it is said otherwise (our choice: at
/// 10 Gbit/s 1.25 MB arrive in that time, and the kernel's own limit of a receive buffer
/// is 6 MB, `net.ipv4.tcp_rmem`).
pub(super) const READ_AHEAD: Duration = Duration::from_millis(1);

/// A pipe that spliced bytes go through.
pub(super) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    /// `None` where there is none to be had: then all is copied.
    pub fn open() -> Option<Self> {
        let (out, into) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            .inspect_err(|why| debug!(%why, "no pipe to splice by"))
            .ok()?;
        // A smaller one takes more turns.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(PIPE as i32));
        Some(Self { out, into })
    }
}

impl OsSockets {
    /// See [`Sockets::relay`].
    pub(super) fn relay_some(
        &mut self,
        from: SocketId,
        to: SocketId,
        ahead: u64,
        queue: &mut CountedBytes,
    ) -> Relayed {
        let (source, sink) = (self.token(from), self.token(to));
        // As much as it holds, and what it may hold beside that.
        let most = queue.len().saturating_add(ahead);
        let mut done = Relayed {
            read: 0,
            written: queue.write_with(|data| self.write(to, data)),
            left: false,
        };
        while queue.is_empty() && self.takes(sink) {
            let part = self.part(ahead);
            let bulk = part >= BULK && self.stream(source).is_some_and(|stream| stream.bulk);
            let (read, written) = if part < PEEKED {
                self.pass(source, to)
            } else if bulk && self.pipe.is_some() {
                self.splice(source, sink, part, queue)
            } else {
                self.copy(source, to, part, queue)
            };
            if read == 0 {
                break;
            }
            if let Some(stream) = self.stream(source) {
                stream.bulk = read >= BULK;
            }
            done.read += read as u64;
            done.written += written as u64;
        }
        // What it does not take waits, here or where it comes from.
        if !queue.is_empty() || !self.takes(sink) {
            let room = most.saturating_sub(queue.len());
            if room > 0 && !self.is_near(source) {
                done.read += self.read_counted(from, room, queue);
            }
            done.left = self.stream(source).is_some_and(|s| s.readable);
        }
        self.end_of_turn(source);
        for end in [source, sink] {
            if let Some(stream) = self.stream(end).filter(|_| done.read > 0) {
                stream.heavy = done.read >= BULK as u64;
            }
        }
        done
    }

    /// Whether the stream at `token` can be written to.
    fn takes(&mut self, token: u64) -> bool {
        let stream = self.stream(token);
        stream.is_some_and(|stream| match stream.phase {
            Phase::Deferred(_) => true,
            phase => phase == Phase::Open && stream.writable,
        })
    }

    /// Whether the stream at `source` has something to read, and its sender is so near that it is
    /// left to the kernel.
    fn is_near(&mut self, source: u64) -> bool {
        let read_ahead = self.read_ahead;
        let Some(stream) = self.stream(source).filter(|stream| stream.readable) else {
            return false;
        };
        if !stream.near {
            let rtt = tcp_info(&stream.fd).and_then(|info| info.min_rtt);
            // All ones before there is one (tcp_input.c, minmax_reset).
            let rtt = rtt.filter(|us| *us != u32::MAX);
            stream.near = rtt.is_some_and(|us| Duration::from_micros(us.into()) < read_ahead);
        }
        stream.near
    }

    /// By a buffer of the process: bytes read and written.
    fn copy(
        &mut self,
        source: u64,
        to: SocketId,
        most: usize,
        queue: &mut CountedBytes,
    ) -> (usize, usize) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let most = most.min(scratch.len());
        let read = self.receive(source, &mut scratch[..most]);
        // Nothing would be a SYN without data.
        let written = match read {
            0 => 0,
            _ => self.write(to, Data::Bytes(&scratch[..read])) as usize,
        };
        queue.append(&scratch[written..read]);
        self.scratch = scratch;
        (read, written)
    }

    /// Without keeping any: what the other connection takes of what is there is taken from the
    /// kernel once it has it. Bytes read, which are those that were written.
    fn pass(&mut self, source: u64, to: SocketId) -> (usize, usize) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let most = self.turn.min(SPLICED).min(scratch.len());
        let peek = MsgFlags::MSG_PEEK;
        let there = loop {
            match self.stream(source).filter(|s| s.readable && most > 0) {
                Some(stream) => match recv(stream.fd.as_raw_fd(), &mut scratch[..most], peek) {
                    Err(Errno::EINTR) => {}
                    there => break there,
                },
                None => break Err(Errno::EAGAIN),
            }
        };
        let passed = match there {
            // Nothing would be a SYN without data.
            Ok(0) | Err(_) => {
                if most > 0 {
                    self.received(source, there.map(|bytes| (bytes, true)));
                }
                0
            }
            Ok(there) => {
                let passed = self.write(to, Data::Bytes(&scratch[..there])) as usize;
                self.discard(source, &mut scratch[..passed]);
                let stops_short = self.stream(source).is_some_and(|s| s.stops_short);
                if passed > 0 {
                    let all = there < most && passed == there && !stops_short;
                    self.received(source, Ok((passed, all)));
                }
                passed
            }
        };
        self.scratch = scratch;
        (passed, passed)
    }

    /// Takes as many bytes as `these` from the kernel, which are known already.
    fn discard(&mut self, source: u64, these: &mut [u8]) {
        let mut left = these.len();
        while let Some(stream) = self.stream(source).filter(|_| left > 0) {
            // Not copied, of TCP (tcp(7)).
            match recv(
                stream.fd.as_raw_fd(),
                &mut these[..left],
                MsgFlags::MSG_TRUNC,
            ) {
                Ok(bytes) if bytes > 0 => left -= bytes,
                Err(Errno::EINTR) => {}
                // They were there. A reset meanwhile takes what was not read, which is an event
                // of its own; what was passed on stands.
                _ => return,
            }
        }
    }

    /// By the pipe: bytes read and written.
    fn splice(
        &mut self,
        source: u64,
        sink: u64,
        most: usize,
        queue: &mut CountedBytes,
    ) -> (usize, usize) {
        let Some(pipe) = self.pipe.take() else {
            return (0, 0);
        };
        let moves = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
        let got = match self.stream(source).filter(|stream| stream.readable) {
            Some(stream) => {
                let most = most.min(SPLICED);
                splice(&stream.fd, None, &pipe.into, None, most, moves)
            }
            None => Err(Errno::EAGAIN),
        };
        let read = self.received(source, got.map(|bytes| (bytes, false)));
        let mut written = 0;
        while written < read && self.takes(sink) {
            let Some(stream) = self.stream(sink) else {
                break;
            };
            let left = read - written;
            let sent = splice(&pipe.out, None, &stream.fd, None, left, moves);
            written += self.sent(sink, sent, left);
        }
        self.pipe = Some(pipe);
        self.empty_pipe(read - written, queue);
        (read, written)
    }

    /// Reads what is left in the pipe.
    fn empty_pipe(&mut self, left: usize, queue: &mut CountedBytes) {
        let mut left = left;
        while let Some(pipe) = self.pipe.as_ref().filter(|_| left > 0) {
            let most = left.min(self.scratch.len());
            match read(&pipe.out, &mut self.scratch[..most]) {
                Ok(bytes) if bytes > 0 => {
                    queue.append(&self.scratch[..bytes]);
                    left -= bytes;
                }
                Err(Errno::EINTR) => {}
                // It holds as many as it was given.
                _ => unreachable!("{left} bytes are missing in a pipe"),
            }
        }
    }
}
