//! Why a proxy could not begin, or go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use narrows_packet::SocketError;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PepError {
    /// An address cannot be listened at.
    #[error("{address} cannot be listened at: {reason}{}", hint(reason))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        reason: SocketError,
    },
    /// The process was given sockets for which there is no listener.
    #[error(
        "a socket at {0} was handed over (LISTEN_FDS), and no listener has that address: \
         give it one, or take it out of the socket unit"
    )]
    NotTaken(SocketAddr),
    /// There is no such user.
    #[error("user: this machine knows no user {0:?}")]
    NoUser(String),
    /// The process cannot become that user.
    #[error("the process cannot become the user {user:?}: {reason} (start it as root)")]
    NotBecome {
        /// Whom.
        user: String,
        /// What the kernel said.
        reason: io::Error,
    },
    /// The state cannot be told at a socket.
    #[error("{}: the state cannot be told here: {reason}", path.display())]
    Status {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// No daemon answers there.
    #[error("{}: no proxy tells its state here: {reason} (is one running? --socket names another)", path.display())]
    NoDaemon {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// A step of the set-up failed, which it does not on a working system.
    #[error("cannot {action}: {reason}")]
    Setup {
        /// What was to be done.
        action: &'static str,
        /// What the kernel said.
        reason: io::Error,
    },
}

impl PepError {
    /// Makes errors of a step.
    pub(super) fn setup<E: Into<io::Error>>(action: &'static str) -> impl Fn(E) -> Self {
        move |reason| Self::Setup {
            action,
            reason: reason.into(),
        }
    }
}

fn hint(reason: &SocketError) -> &'static str {
    match reason {
        SocketError::System(nix::libc::EACCES | nix::libc::EPERM) => {
            " (ports below 1024 and transparent listeners take root)"
        }
        SocketError::System(nix::libc::ENOENT) => " (its congestion control is not in this kernel)",
        SocketError::System(nix::libc::EADDRNOTAVAIL) | SocketError::NoPort => {
            " (it is no address of this machine)"
        }
        _ => "",
    }
}
