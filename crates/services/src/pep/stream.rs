//! One connection of the machine's TCP.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use narrows_core::SocketError;
use narrows_linux::tcp_options::ORDERLY;
use nix::errno::Errno;
use nix::sys::socket::{Shutdown, setsockopt, shutdown, sockopt};

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The SYN waits for the first data, to this address.
    Deferred(SocketAddr),
    Opening,
    Open,
    Over,
}

/// What a stream is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub readable: bool,
    pub writable: bool,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub fd: OwnedFd,
    /// Of one that was accepted.
    pub client: Option<SocketAddr>,
    pub phase: Phase,
    pub readable: bool,
    /// The kernel reported that the stream has an end, or urgent data: a read that gives less than
    /// was asked for may have stopped there.
    pub stops_short: bool,
    pub peer_closed: bool,
    /// For what it goes on when others have had their turn.
    pub due: Due,
    /// What was moved last, from it or to it, was so much that others go first.
    pub heavy: bool,
    /// What comes from it comes in large pieces.
    pub bulk: bool,
    /// Its peer is so near that nothing is read of it ahead of what goes out.
    pub near: bool,
    pub writable: bool,
    pub wants_room: bool,
    /// The application ended its stream before the connection was open.
    pub ending: bool,
}

impl Stream {
    pub fn new(fd: OwnedFd, client: Option<SocketAddr>, phase: Phase) -> Self {
        let open = phase == Phase::Open;
        Self {
            fd,
            client,
            phase,
            readable: false,
            stops_short: false,
            peer_closed: false,
            due: Due::default(),
            heavy: false,
            bulk: false,
            near: false,
            writable: open,
            wants_room: false,
            ending: false,
        }
    }

    /// Ends what is sent: in order from now on, whatever becomes of the process.
    pub fn end(&mut self) {
        // The peer may have gone meanwhile, which its own event tells.
        let _ = setsockopt(&self.fd, sockopt::Linger, &ORDERLY);
        let _ = shutdown(self.fd.as_raw_fd(), Shutdown::Write);
    }
}

pub(super) fn socket_error(
    why: Errno,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
) -> SocketError {
    match (why, local, remote) {
        (Errno::EADDRINUSE, Some(local), _) => SocketError::AddressInUse(local),
        (Errno::ENETUNREACH | Errno::EHOSTUNREACH, _, Some(remote)) => {
            SocketError::Unreachable(remote)
        }
        (Errno::EADDRNOTAVAIL, _, Some(_)) => SocketError::NoPort,
        (why, ..) => SocketError::System(why as i32),
    }
}
